import { describe, expect, test } from 'bun:test'
import { compactionItem } from '../../src/dialects/responses/compaction.ts'
import { ORGANIZATION, sealer, walk } from '../support/request-path.ts'

const bytes = (body: object) => Buffer.from(JSON.stringify(body))
const list = <T>(count: number, make: (index: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i))
const user = { role: 'user', content: 'Hi' }
const chatCall = (args = '{}') => ({ id: 'a', type: 'function', function: { name: 'f', arguments: args } })
const picture = 'data:image/png;base64,AAAA'
const deep = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
const full = (values: number) => `{"a":[${'1,'.repeat(values - 1)}1]}`

type Make = (count: number) => object

/** What is counted, its limit, and the field that the error names for the first one beyond the limit. */
const rows: readonly (readonly [
  path: Parameters<typeof walk>[0]['path'],
  what: string,
  most: number,
  param: string,
  make: Make,
])[] = [
  [
    'chat',
    'tools',
    2048,
    'tools',
    (n) => ({ messages: [user], tools: list(n, (i) => ({ type: 'function', function: { name: `f${i}` } })) }),
  ],
  [
    'chat',
    'allowed tools',
    2048,
    'tool_choice.allowed_tools.tools',
    (n) => ({
      messages: [user],
      tools: [{ type: 'function', function: { name: 'f' } }],
      tool_choice: {
        type: 'allowed_tools',
        allowed_tools: { tools: list(n, () => ({ type: 'function', function: { name: 'f' } })) },
      },
    }),
  ],
  [
    'chat',
    'calls',
    4096,
    'messages[0].tool_calls[4096]',
    (n) => ({ messages: [{ role: 'assistant', tool_calls: list(n, () => chatCall()) }] }),
  ],
  [
    'chat',
    'results',
    4096,
    'messages[4096]',
    (n) => ({ messages: list(n, () => ({ role: 'tool', tool_call_id: 'a', content: 'b' })) }),
  ],
  [
    'chat',
    'images',
    1024,
    'messages[0].content[1024]',
    (n) => ({
      messages: [{ role: 'user', content: list(n, () => ({ type: 'image_url', image_url: { url: picture } })) }],
    }),
  ],
  [
    'chat',
    'levels of arguments',
    128,
    'messages[0].tool_calls[0].function.arguments',
    (n) => ({ messages: [{ role: 'assistant', tool_calls: [chatCall(deep(n))] }] }),
  ],
  [
    'chat',
    'values of arguments',
    250_000,
    'messages[0].tool_calls[1].function.arguments',
    (n) => ({ messages: [{ role: 'assistant', tool_calls: [chatCall(full(100_000)), chatCall(full(n - 100_000))] }] }),
  ],
  [
    'responses',
    'tools',
    2048,
    'tools[2048]',
    (n) => ({ input: 'Hi', tools: list(n, (i) => ({ type: 'function', name: `f${i}` })) }),
  ],
  [
    'responses',
    'tools in the input',
    2048,
    'input[0].tools[2048]',
    (n) => ({
      input: [{ type: 'additional_tools', tools: list(n, (i) => ({ type: 'function', name: `f${i}` })) }, user],
    }),
  ],
  [
    'responses',
    'calls',
    4096,
    'input[4096]',
    (n) => ({ input: list(n, () => ({ type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' })) }),
  ],
  [
    'responses',
    'outputs',
    4096,
    'input[4096]',
    (n) => ({ input: list(n, () => ({ type: 'function_call_output', call_id: 'a', output: 'b' })) }),
  ],
  [
    'responses',
    'levels of arguments',
    128,
    'input[0].arguments',
    (n) => ({ input: [{ type: 'function_call', call_id: 'a', name: 'f', arguments: deep(n) }] }),
  ],
  [
    'responses',
    'compaction items',
    64,
    'input[64]',
    (n) => ({ input: list(n, () => JSON.parse(compactionItem(sealer, ORGANIZATION, 'A summary.').json)) }),
  ],
  [
    'compact',
    'calls',
    4096,
    'input[4096]',
    (n) => ({ input: list(n, () => ({ type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' })) }),
  ],
  ['messages', 'tools', 2048, 'tools', (n) => ({ messages: [user], tools: list(n, (i) => ({ name: `f${i}` })) })],
  [
    'messages',
    'calls',
    4096,
    'messages[0].content[4096]',
    (n) => ({
      messages: [{ role: 'assistant', content: list(n, () => ({ type: 'tool_use', id: 'a', name: 'f', input: {} })) }],
    }),
  ],
  [
    'count',
    'calls',
    4096,
    'messages[0].content[4096]',
    (n) => ({
      messages: [{ role: 'assistant', content: list(n, () => ({ type: 'tool_use', id: 'a', name: 'f', input: {} })) }],
    }),
  ],
  [
    'messages',
    'results',
    4096,
    'messages[0].content[4096]',
    (n) => ({ messages: [{ role: 'user', content: list(n, () => ({ type: 'tool_result', tool_use_id: 'a' })) }] }),
  ],
  [
    'messages',
    'images',
    1024,
    'messages[0].content[1024]',
    (n) => ({
      messages: [
        {
          role: 'user',
          content: list(n, () => ({
            type: 'image',
            source: { type: 'base64', media_type: 'image/png', data: 'AAAA' },
          })),
        },
      ],
    }),
  ],
  ['edits', 'images', 1024, 'images', (n) => ({ prompt: 'p', images: list(n, () => ({ image_url: picture })) })],
  [
    'edits',
    'addresses',
    1024,
    'mask.b[24]',
    (n) => ({
      prompt: 'p',
      images: list(1000, () => ({ image_url: 'https://example.com/a.png' })),
      mask: { b: list(n - 1000, () => 'https://example.com/a.png') },
    }),
  ],
]

describe('the limit is accepted, and one more is a 400 that names the field', () => {
  test.each(rows)('%s: %s, %p', async (path, _, most, param, make) => {
    const model = path === 'edits' ? 'i' : 'm'
    const { failure: none } = await walk({ path, bytes: bytes({ model, ...make(most) }) })
    expect(none).toBeUndefined()
    const { failure } = await walk({ path, bytes: bytes({ model, ...make(most + 1) }) })
    expect(failure?.row).toMatchObject({ status: 400, stage: 'body' })
    expect(failure?.detail.param).toBe(param)
    expect(failure?.message).toContain(String(most))
  })
})

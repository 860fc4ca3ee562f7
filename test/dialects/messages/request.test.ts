/**
 * Messages bodies → canonical requests: every field, every block, and every error with its field.
 */

import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../../src/core/caller-error.ts'
import type { JsonObject, JsonValue } from '../../../src/core/json.ts'
import type { Literal, Message } from '../../support/literal.ts'
import { acceptCount, acceptMessages } from './requests.ts'

const refuse = { toolResultImages: 'refuse' } as const
const pass = { toolResultImages: 'pass' } as const
const HI: JsonValue = [{ role: 'user', content: 'hi' }]
const MARK: JsonObject = { type: 'ephemeral' }

const accept = (fields: JsonObject = {}, options: typeof refuse | typeof pass = refuse): Literal =>
  acceptMessages({ model: 'm', messages: HI, ...fields }, options)
const history = (messages: JsonValue, options: typeof refuse | typeof pass = refuse): readonly Message[] =>
  accept({ messages }, options).messages
const user = (...content: readonly JsonValue[]): JsonValue => [{ role: 'user', content }]
const assistant = (...content: readonly JsonValue[]): JsonValue => [{ role: 'assistant', content }]

const text = (value: string, more: JsonObject = {}): JsonObject => ({ type: 'text', text: value, ...more })
const image = (more: JsonObject = {}): JsonObject => ({
  type: 'image',
  source: { type: 'base64', media_type: 'image/png', data: 'AAAA' },
  ...more,
})
const imagePart = { type: 'image', source: { type: 'base64', mediaType: 'image/png', data: 'AAAA' } } as const
const use = (more: JsonObject = {}): JsonObject => ({
  type: 'tool_use',
  id: 'call_a',
  name: 'look',
  input: { q: 1 },
  ...more,
})
const result = (content: JsonValue | undefined, more: JsonObject = {}): JsonObject => ({
  type: 'tool_result',
  tool_use_id: 'call_a',
  ...(content === undefined ? {} : { content }),
  ...more,
})
const tool = (more: JsonObject = {}): JsonObject => ({ name: 'look', input_schema: { type: 'object' }, ...more })

/** The error of a body, in the form of a table row. */
function failureOf(fields: JsonObject, options: typeof refuse | typeof pass = refuse): CallerError {
  try {
    accept(fields, options)
  } catch (error) {
    if (error instanceof CallerError) return error
    throw error
  }
  throw new Error('the body was accepted')
}

describe('fields', () => {
  test('the smallest body', () => {
    expect(accept()).toEqual({
      model: 'm',
      stream: false,
      messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
      tools: [],
      limitsOutput: true,
      stop: [],
      sampling: {},
      hints: {},
      cacheStrict: false,
    })
  })

  test('all fields that reach the model', () => {
    const request = accept({
      max_tokens: 300,
      temperature: 0.5,
      top_p: 0.9,
      stop_sequences: ['a', '', 'b'],
      stream: true,
      service_tier: 'standard_only',
      prompt_cache_key: 'k',
      prompt_cache_retention: '24h',
      cache_control: { type: 'ephemeral', ttl: '1h' },
    })
    expect(request).toMatchObject({
      maxOutputTokens: 300,
      limitsOutput: true,
      sampling: { temperature: 0.5, topP: 0.9 },
      stop: ['a', '', 'b'],
      stream: true,
      hints: { serviceTier: 'standard_only', promptCacheKey: 'k', promptCacheRetention: '24h' },
      cache: { ttl: '1h' },
      cacheStrict: false,
    })
  })

  test('fields without effect, whatever they hold, and unknown fields', () => {
    const fields = {
      top_k: 'many',
      thinking: { type: 'adaptive' },
      metadata: { user_id: 'u' },
      container: 1,
      betas: [{}],
    }
    expect(accept({ ...fields, context_management: {}, output_config: { effort: 'high' } })).toEqual(accept())
  })

  test('null is absent, in every optional field', () => {
    const names = ['system', 'max_tokens', 'temperature', 'top_p', 'top_k', 'stop_sequences', 'tools', 'tool_choice']
    const more = ['thinking', 'stream', 'service_tier', 'cache_control', 'prompt_cache_key', 'prompt_cache_retention']
    const all = [...names, ...more, 'metadata', 'thread'].map((name) => [name, null] as const)
    expect(accept(Object.fromEntries(all))).toEqual(accept())
  })

  test('no output limit, or one of 0', () => {
    expect(accept().maxOutputTokens).toBeUndefined()
    // Newer Anthropic APIs warm the cache with 0: the nearest value is one token.
    expect(accept({ max_tokens: 0 }).maxOutputTokens).toBe(1)
  })

  test('system as a string, as blocks, and empty', () => {
    expect(accept({ system: 'be terse' }).messages[0]).toEqual({
      role: 'system',
      parts: [{ type: 'text', text: 'be terse' }],
    })
    expect(accept({ system: [text('a'), text(''), text('b', { cache_control: MARK })] }).messages[0]).toEqual({
      role: 'system',
      parts: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b', cache: {} },
      ],
    })
    for (const system of ['', [], [text('')]]) expect(accept({ system }).messages).toHaveLength(1)
  })

  test('the same body gives the same request, key for key: text before a cache mark must not change', () => {
    const body = {
      system: [text('s', { cache_control: MARK })],
      tools: [tool({ description: 'd', input_schema: { z: 1, a: { y: 2, b: 3 } } })],
      messages: [{ role: 'assistant', content: [use({ input: { z: 1, a: 2 } })] }],
    }
    const longer = {
      ...body,
      messages: [...body.messages, { role: 'user', content: [result('r', { cache_control: MARK })] }],
    }
    const [before, after] = [accept(body), accept(longer)]
    expect(JSON.stringify(after.messages.slice(0, -1))).toBe(JSON.stringify(before.messages))
    expect(JSON.stringify(after.tools)).toBe(JSON.stringify(before.tools))
    expect(JSON.stringify(before.tools)).toContain('{"z":1,"a":{"y":2,"b":3}}')
    expect(before.messages[1]).toMatchObject({ toolCalls: [{ json: '{"z":1,"a":2}' }] })
  })
})

describe('messages', () => {
  const rows: readonly (readonly [what: string, messages: JsonValue, expected: readonly Message[]])[] = [
    ['a string', HI, [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }]],
    [
      'any role but assistant is the user’s',
      [
        { role: 'system', content: 'a' },
        { role: 'assistant', content: 'b' },
        { role: 'developer', content: [text('c')] },
      ],
      [
        { role: 'user', parts: [{ type: 'text', text: 'a' }] },
        { role: 'assistant', parts: [{ type: 'text', text: 'b' }], toolCalls: [] },
        { role: 'user', parts: [{ type: 'text', text: 'c' }] },
      ],
    ],
    [
      'text and image, with marks',
      user(
        text('a', { cache_control: { type: 'ephemeral', ttl: '5m' }, citations: null }),
        image({ cache_control: MARK }),
      ),
      [
        {
          role: 'user',
          parts: [
            { type: 'text', text: 'a', cache: { ttl: '5m' } },
            { ...imagePart, cache: {} },
          ],
        },
      ],
    ],
    ['empty texts beside others', user(text(''), text('a')), [{ role: 'user', parts: [{ type: 'text', text: 'a' }] }]],
    ['nothing but empty text', user(text('')), [{ role: 'user', parts: [{ type: 'text', text: '' }] }]],
    ['no block at all', user(), [{ role: 'user', parts: [{ type: 'text', text: '' }] }]],
    [
      'text and calls, in any order',
      assistant(text('a'), use(), text('b'), use({ id: 'call_b', input: undefined, cache_control: MARK })),
      [
        {
          role: 'assistant',
          parts: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
          toolCalls: [
            { callId: 'call_a', name: 'look', json: '{"q":1}' },
            { callId: 'call_b', name: 'look', json: '{}', cache: {} },
          ],
        },
      ],
    ],
    ['an assistant without a word', assistant(), [{ role: 'assistant', parts: [], toolCalls: [] }]],
    [
      'results before the rest of the user’s message, in order',
      user(text('a'), result('r1'), image(), result('r2', { tool_use_id: 'call_b' })),
      [
        { role: 'tool', callId: 'call_a', parts: [{ type: 'text', text: 'r1' }] },
        { role: 'tool', callId: 'call_b', parts: [{ type: 'text', text: 'r2' }] },
        { role: 'user', parts: [{ type: 'text', text: 'a' }, imagePart] },
      ],
    ],
    ['a result alone', user(result('r')), [{ role: 'tool', callId: 'call_a', parts: [{ type: 'text', text: 'r' }] }]],
    [
      'a result of blocks, marked within and as a whole, that failed',
      user(
        result([text('a', { cache_control: MARK }), text('b')], {
          is_error: true,
          cache_control: { ...MARK, ttl: '1h' },
        }),
      ),
      [
        {
          role: 'tool',
          callId: 'call_a',
          parts: [
            { type: 'text', text: 'a', cache: {} },
            { type: 'text', text: 'b' },
          ],
          isError: true,
          cache: { ttl: '1h' },
        },
      ],
    ],
    ['a result without content', user(result(undefined)), [{ role: 'tool', callId: 'call_a', parts: [] }]],
    ['a result of null', user(result(null, { is_error: null })), [{ role: 'tool', callId: 'call_a', parts: [] }]],
    ['a result of nothing', user(result([], { is_error: false })), [{ role: 'tool', callId: 'call_a', parts: [] }]],
    [
      'a result without its call',
      user(result('', { tool_use_id: 'x:1' })),
      [{ role: 'tool', callId: 'x:1', parts: [] }],
    ],
  ]
  test.each(rows)('%s', (_, messages, expected) => {
    expect(history(messages)).toEqual(expected)
  })

  describe('images in results, if the operator allows them', () => {
    test('come after all results and before the rest of the message; the cache mark keeps its position', () => {
      const messages = user(
        text('look'),
        result([text('a'), image(), image({ cache_control: MARK })], { cache_control: { ...MARK, ttl: '1h' } }),
        result('r2', { tool_use_id: 'call_b' }),
      )
      expect(history(messages, pass)).toEqual([
        { role: 'tool', callId: 'call_a', parts: [{ type: 'text', text: 'a' }] },
        { role: 'tool', callId: 'call_b', parts: [{ type: 'text', text: 'r2' }] },
        { role: 'user', parts: [imagePart, { ...imagePart, cache: { ttl: '1h' } }, { type: 'text', text: 'look' }] },
      ])
    })

    test('no other block is allowed with them', () => {
      const param = (inner: JsonObject) => failureOf({ messages: user(result([text('a'), inner])) }, pass)
      for (const type of ['document', 'tool_reference', 'search_result', 'tool_use'])
        expect(param({ type })).toMatchObject({
          message: 'Unsupported Anthropic content block',
          detail: { param: 'messages[0].content[0].content[1].type' },
        })
      expect(param({ type: 'image', source: { type: 'url', url: 'https://x' } }).detail.param).toBe(
        'messages[0].content[0].content[1].source.type',
      )
    })

    test('results of text alone are unchanged', () => {
      const messages = user(result('r', { cache_control: MARK }), result([text('s')]))
      expect(history(messages, pass)).toEqual(history(messages, refuse))
    })
  })
})

describe('tools', () => {
  test('become functions; server tools and fields without a counterpart are left out', () => {
    const { tools } = accept({
      tools: [
        tool({
          description: 'd',
          type: 'custom',
          strict: true,
          cache_control: MARK,
          eager_input_streaming: true,
          defer_loading: true,
        }),
        { type: 'web_search_20250305', name: 'web_search', max_uses: 8 },
        { name: 'bare', type: null, input_schema: null, description: null, strict: null, input_examples: [{}] },
      ],
    })
    expect(tools).toEqual([
      { name: 'look', description: 'd', parameters: { type: 'object' }, strict: true, cache: {} },
      { name: 'bare', parameters: { type: 'object', properties: {} } },
    ])
  })

  test('names of 128 characters stay: adapters shorten them if they must', () => {
    expect(accept({ tools: [tool({ name: 'n'.repeat(128) })] }).tools[0]?.name).toHaveLength(128)
  })

  const choices: readonly (readonly [choice: JsonValue, expected: Partial<Literal>])[] = [
    [{ type: 'auto' }, { toolChoice: { mode: 'auto' } }],
    [{ type: 'any' }, { toolChoice: { mode: 'required' } }],
    [{ type: 'none' }, { toolChoice: { mode: 'none' } }],
    [{ type: 'tool', name: 'look' }, { toolChoice: { mode: 'tool', name: 'look' } }],
    [
      { type: 'any', disable_parallel_tool_use: true },
      { toolChoice: { mode: 'required' }, parallelToolCalls: false },
    ],
    [{ type: 'auto', disable_parallel_tool_use: false }, { toolChoice: { mode: 'auto' } }],
    [null, {}],
  ]
  test.each(choices)('tool_choice %j', (choice, expected) => {
    expect(accept({ tools: [tool()], tool_choice: choice })).toEqual({ ...accept({ tools: [tool()] }), ...expected })
  })

  test('any choice is dropped without tools', () => {
    const choice = { type: 'any', disable_parallel_tool_use: true }
    for (const tools of [undefined, null, [], [{ type: 'web_search_20250305', name: 'web_search' }]])
      expect(accept({ tools, tool_choice: choice })).toEqual(accept())
    expect(accept({ tool_choice: 'odd' })).toEqual(accept())
  })
})

describe('errors', () => {
  const unsupported = 'Unsupported Anthropic content block'
  const blocks: readonly (readonly [what: string, fields: JsonObject, param: string])[] = [
    ['a document', { messages: user(text('a'), { type: 'document' }) }, 'messages[0].content[1].type'],
    ['a block without type', { messages: user({ text: 'a' }) }, 'messages[0].content[0].type'],
    ['thinking', { messages: assistant({ type: 'thinking', thinking: '' }) }, 'messages[0].content[0].type'],
    ['redacted thinking', { messages: assistant({ type: 'redacted_thinking' }) }, 'messages[0].content[0].type'],
    ['an image of the assistant', { messages: assistant(use(), image()) }, 'messages[0].content[1].type'],
    ['a result of the assistant', { messages: assistant(result('r')) }, 'messages[0].content[0].type'],
    ['a call of the user', { messages: user(use()) }, 'messages[0].content[0].type'],
    ['a server’s call', { messages: assistant({ type: 'server_tool_use' }) }, 'messages[0].content[0].type'],
    ['an image in a result', { messages: user(result([image()])) }, 'messages[0].content[0].content[0].type'],
    [
      'a reference in a result',
      { messages: user(result([{ type: 'tool_reference' }])) },
      'messages[0].content[0].content[0].type',
    ],
    ['an image in system', { system: [text('a'), image()] }, 'system[1].type'],
    [
      'an image by address',
      { messages: user({ type: 'image', source: { type: 'url', url: 'https://x' } }) },
      'messages[0].content[0].source.type',
    ],
    [
      'an image by file',
      { messages: user({ type: 'image', source: { type: 'file', file_id: 'f' } }) },
      'messages[0].content[0].source.type',
    ],
  ]
  test.each(blocks)('%s: 400 of the body, with that very text', (_, fields, param) => {
    const failure = failureOf(fields)
    expect(failure.message).toBe(unsupported)
    expect(failure.row).toMatchObject({ status: 400, stage: 'body' })
    expect(failure.detail.param).toBe(param)
  })

  const rows: readonly (readonly [fields: JsonObject, failure: string, param: string])[] = [
    [{ model: undefined }, 'missing_field', 'model'],
    [{ model: '' }, 'invalid_field', 'model'],
    [{ model: 7 }, 'invalid_field', 'model'],
    [{ messages: undefined }, 'missing_field', 'messages'],
    [{ messages: 'hi' }, 'invalid_field', 'messages'],
    [{ messages: [] }, 'invalid_field', 'messages'],
    [{ messages: ['hi'] }, 'invalid_field', 'messages[0]'],
    [{ messages: [{ content: 'hi' }] }, 'missing_field', 'messages[0].role'],
    [{ messages: [{ role: 'user' }] }, 'missing_field', 'messages[0].content'],
    [{ messages: [{ role: 'user', content: 7 }] }, 'invalid_field', 'messages[0].content'],
    [{ messages: user('hi') }, 'invalid_field', 'messages[0].content[0]'],
    [{ messages: assistant(null) }, 'invalid_field', 'messages[0].content[0]'],
    [{ messages: user({ type: 'text' }) }, 'missing_field', 'messages[0].content[0].text'],
    [{ messages: user({ type: 'image' }) }, 'missing_field', 'messages[0].content[0].source'],
    [
      { messages: user(image({ source: { type: 'base64', data: 'A' } })) },
      'missing_field',
      'messages[0].content[0].source.media_type',
    ],
    [
      { messages: user(image({ source: { type: 'base64', media_type: 'image/png' } })) },
      'missing_field',
      'messages[0].content[0].source.data',
    ],
    [
      { messages: user(image({ source: { type: 'base64', media_type: 'a;b', data: 'A' } })) },
      'invalid_field',
      'messages[0].content[0].source.media_type',
    ],
    [{ messages: assistant(use({ id: undefined })) }, 'missing_field', 'messages[0].content[0].id'],
    [{ messages: assistant(use({ name: '' })) }, 'missing_field', 'messages[0].content[0].name'],
    [{ messages: assistant(use({ input: '{}' })) }, 'invalid_field', 'messages[0].content[0].input'],
    [
      { messages: user(result('r', { tool_use_id: undefined })) },
      'missing_field',
      'messages[0].content[0].tool_use_id',
    ],
    [{ messages: user(result(7)) }, 'invalid_field', 'messages[0].content[0].content'],
    [
      { messages: user(text('a', { cache_control: { type: 'forever' } })) },
      'invalid_field',
      'messages[0].content[0].cache_control.type',
    ],
    [
      { messages: user(image({ cache_control: { ...MARK, ttl: '2h' } })) },
      'invalid_field',
      'messages[0].content[0].cache_control.ttl',
    ],
    [
      { messages: user(result('r', { cache_control: 'yes' })) },
      'invalid_field',
      'messages[0].content[0].cache_control',
    ],
    [{ messages: assistant(use({ cache_control: {} })) }, 'invalid_field', 'messages[0].content[0].cache_control.type'],
    [{ cache_control: { type: 'ephemeral', ttl: 300 } }, 'invalid_field', 'cache_control.ttl'],
    [{ system: 7 }, 'invalid_field', 'system'],
    [{ system: [text('a', { cache_control: { ttl: '5m' } })] }, 'invalid_field', 'system[0].cache_control.type'],
    [{ max_tokens: -1 }, 'invalid_field', 'max_tokens'],
    [{ max_tokens: 1.5 }, 'invalid_field', 'max_tokens'],
    [{ temperature: '1' }, 'invalid_field', 'temperature'],
    [{ top_p: 2 }, 'invalid_field', 'top_p'],
    [{ stop_sequences: 'a' }, 'invalid_field', 'stop_sequences'],
    [{ stop_sequences: [1] }, 'invalid_field', 'stop_sequences[0]'],
    [{ stream: 'yes' }, 'invalid_field', 'stream'],
    [{ tools: {} }, 'invalid_field', 'tools'],
    [{ tools: ['look'] }, 'invalid_field', 'tools[0]'],
    [{ tools: [tool(), tool({ name: undefined })] }, 'missing_field', 'tools[1].name'],
    [{ tools: [tool({ description: 7 })] }, 'invalid_field', 'tools[0].description'],
    [{ tools: [tool({ input_schema: [] })] }, 'invalid_field', 'tools[0].input_schema'],
    [{ tools: [tool({ cache_control: { ...MARK, ttl: '1m' } })] }, 'invalid_field', 'tools[0].cache_control.ttl'],
    [{ tools: [tool()], tool_choice: 'auto' }, 'invalid_field', 'tool_choice'],
    [{ tools: [tool()], tool_choice: {} }, 'missing_field', 'tool_choice.type'],
    [{ tools: [tool()], tool_choice: { type: 'function' } }, 'invalid_field', 'tool_choice.type'],
    [{ tools: [tool()], tool_choice: { type: 'tool' } }, 'missing_field', 'tool_choice.name'],
  ]
  test.each(rows)('%j', (fields, failure, param) => {
    expect(failureOf(fields)).toMatchObject({ kind: failure, detail: { param } })
  })
})

describe('threads', () => {
  test('the start of a thread is accepted', () => {
    expect(accept({ thread: { type: 'create' } })).toEqual(accept())
  })

  test('the continuation of one is a 404, after which the SDK sends the whole history again', () => {
    const failure = failureOf({ thread: { type: 'continue', previous_message_id: 'msg_1' } })
    expect(failure.row).toMatchObject({ status: 404, stage: 'request', messagesType: 'not_found_error' })
    expect(failure.detail.details).toEqual({ error_code: 'thread_not_found' })
  })

  test('an invalid body is reported first', () => {
    expect(failureOf({ thread: { type: 'continue' }, messages: user({ type: 'x' }) }).message).toStartWith(
      'Unsupported',
    )
  })
})

describe('count_tokens', () => {
  test('the same input, without an output', () => {
    const body = { model: 'm', messages: HI, system: 's', tools: [tool()] }
    const counted = acceptCount({ ...body, max_tokens: 5, stream: true }, refuse)
    expect(counted).toEqual({ ...acceptMessages(body, refuse), maxOutputTokens: undefined, limitsOutput: false })
  })

  test('rejects what the endpoint itself rejects', () => {
    expect(() => acceptCount({ model: 'm' }, refuse)).toThrow(/'messages'/)
    expect(() => acceptCount({ model: 'm', messages: user({ type: 'document' }) }, refuse)).toThrow(/Unsupported/)
  })
})

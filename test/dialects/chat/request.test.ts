/** A Chat Completions body → the canonical request, field by field, and the errors of each part of a message. */

import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../../src/core/caller-error.ts'
import type { JsonObject, JsonValue } from '../../../src/core/json.ts'
import { acceptChat, UNPARSED } from '../../../src/dialects/chat/request.ts'
import { openai } from '../../../src/providers/openai/openai.ts'
import { readRequestBody } from '../../../src/wire/request-body.ts'
import { sentText } from '../../providers/conformance.ts'
import { endpoint } from '../../providers/requests.ts'
import { type Literal, type Message, visible } from '../../support/literal.ts'

const user = { role: 'user', content: 'Hello' }
const accept = (more: JsonObject) =>
  acceptChat(readRequestBody(Buffer.from(JSON.stringify({ model: 'm', messages: [user], ...more })), UNPARSED), {
    imageUrls: 'public',
  })
const request = (more: JsonObject): Literal => visible(accept(more).request)
const messageOf = (message: JsonObject): Message | undefined => request({ messages: [message] }).messages[0]

function errorOf(more: JsonObject): CallerError {
  try {
    accept(more)
  } catch (error) {
    if (error instanceof CallerError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

test.each([
  ['9223372036854775807', '9223372036854775807'],
  ['-9223372036854775808', '-9223372036854775808'],
  ['9007199254740991', '9007199254740991'],
  ['-0', '0'],
  ['12345678901234567.0', '12345678901234568'],
])('the seed %s reaches the provider as %s', (seed, expected) => {
  const { body } = openai.request(accept({ seed: JSON.rawJSON(seed) }).request, { endpoint: endpoint(), model: 'm' })
  expect(sentText(body)).toContain(`"seed":${expected}`)
})

test.each(['1e400', '0.12345678901234567890', '9'.repeat(400)])('the seed %s is a 400', (seed) => {
  const document = `{"model":"m","messages":[{"role":"user","content":"a"}],"seed":${seed}}`
  expect(() => acceptChat(readRequestBody(Buffer.from(document), UNPARSED), { imageUrls: 'public' })).toThrow()
})

describe('fields', () => {
  const tools = [{ type: 'function', function: { name: 'f' } }]
  const rows: readonly (readonly [body: JsonObject, expected: object])[] = [
    [{ max_tokens: 5 }, { maxOutputTokens: 5, limitsOutput: false }],
    [{ max_tokens: 5, max_completion_tokens: 6 }, { maxOutputTokens: 6 }],
    [{ stop: 'x' }, { stop: ['x'] }],
    [{ stop: ['x', 'y'] }, { stop: ['x', 'y'] }],
    [{ stream: true }, { stream: true }],
    [{ temperature: 0, top_p: 1 }, { sampling: { temperature: 0, topP: 1 } }],
    [{ seed: 7, logit_bias: { 1: 2 } }, { sampling: { seed: 7, logitBias: { 1: 2 } } }],
    [{ logprobs: true, top_logprobs: 2 }, { sampling: { logprobs: true, topLogprobs: 2 } }],
    [{ response_format: { type: 'json_object' } }, { sampling: { responseFormat: { type: 'json_object' } } }],
    [{ reasoning_effort: 'low', verbosity: 'low' }, { sampling: { reasoningEffort: 'low', verbosity: 'low' } }],
    [{ user: 'u', safety_identifier: 's' }, { hints: { user: 'u', safetyIdentifier: 's' } }],
    [{ prompt_cache_key: 'k', service_tier: 'flex' }, { hints: { promptCacheKey: 'k', serviceTier: 'flex' } }],
    [{ tools, tool_choice: 'required' }, { toolChoice: { mode: 'required' } }],
    [
      { tools, tool_choice: { type: 'function', function: { name: 'f' } } },
      { toolChoice: { mode: 'tool', name: 'f' } },
    ],
    [
      { tools, tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'required', tools } } },
      { toolChoice: { mode: 'allowed', names: ['f'], required: true } },
    ],
    [{ tools, parallel_tool_calls: false }, { parallelToolCalls: false }],
    [
      { parallel_tool_calls: false, tool_choice: 'auto' },
      { parallelToolCalls: undefined, toolChoice: undefined },
    ],
    [{ tools }, { tools: [{ name: 'f', parameters: { type: 'object', properties: {} } }] }],
    [{ tools: [{ type: 'custom', function: { name: 'g' } }] }, { tools: [] }],
  ]
  test.each(rows)('%j', (body, expected) => {
    expect(request(body)).toMatchObject(expected)
  })

  test('the usage chunk is for callers that ask for it', () => {
    expect(accept({ stream_options: { include_usage: true } }).includeUsage).toBe(true)
    for (const options of [undefined, null, {}, { include_usage: false }])
      expect(accept(options === undefined ? {} : { stream_options: options }).includeUsage).toBe(false)
  })
})

describe('messages', () => {
  const mark = { type: 'ephemeral', ttl: '1h' }
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA', detail: 'low' } }
  const rows: readonly (readonly [message: JsonObject, expected: object])[] = [
    [
      { role: 'developer', content: 'a' },
      { role: 'system', parts: [{ type: 'text', text: 'a' }] },
    ],
    [
      { role: 'system', content: null },
      { role: 'system', parts: [] },
    ],
    [
      { role: 'user', content: 'a' },
      { role: 'user', parts: [{ type: 'text', text: 'a' }] },
    ],
    [
      { role: 'user', content: [image] },
      { parts: [{ type: 'image', source: { type: 'base64', mediaType: 'image/png', data: 'AAAA' }, detail: 'low' }] },
    ],
    [
      { role: 'user', content: [{ type: 'image_url', image_url: 'https://example.com/a.png' }] },
      { parts: [{ type: 'image', source: { type: 'url', url: 'https://example.com/a.png' } }] },
    ],
    [
      { role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AA', format: 'wav', x: 1 } }] },
      { parts: [{ type: 'native', json: { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } } }] },
    ],
    [
      { role: 'user', content: [{ type: 'file', file: { file_data: 'AA', filename: 'f', x: 1 } }] },
      { parts: [{ type: 'native', json: { type: 'file', file: { filename: 'f', file_data: 'AA' } } }] },
    ],
    [
      {
        role: 'assistant',
        content: [
          { type: 'text', text: 'a' },
          { type: 'refusal', refusal: 'no' },
        ],
      },
      { role: 'assistant', parts: [{ type: 'text', text: 'a' }], refusal: 'no', toolCalls: [] },
    ],
    [
      { role: 'assistant', tool_calls: [{ id: 'c', function: { name: 'f', arguments: { a: 1 } } }] },
      { toolCalls: [{ callId: 'c', name: 'f', json: '{"a":1}' }] },
    ],
    [
      { role: 'assistant', content: '', tool_calls: [{ id: 'c', function: { name: 'f' } }] },
      { parts: [], toolCalls: [{ callId: 'c', name: 'f', json: '{}' }] },
    ],
    ...['', ' \n', 'null', ' null '].map((written): [JsonObject, object] => [
      { role: 'assistant', content: '', tool_calls: [{ id: 'c', function: { name: 'f', arguments: written } }] },
      { parts: [], toolCalls: [{ callId: 'c', name: 'f', json: '{}' }] },
    ]),
    [
      { role: 'tool', tool_call_id: 'c', content: 'r' },
      { role: 'tool', callId: 'c', parts: [{ type: 'text', text: 'r' }] },
    ],
    [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
        cache_control: mark,
      },
      {
        parts: [
          { type: 'text', text: 'a', cache: undefined },
          { type: 'text', text: 'b', cache: { ttl: '1h' } },
        ],
      },
    ],
  ]
  test.each(rows)('%j', (message, expected) => {
    expect(messageOf(message)).toMatchObject(expected)
  })
})

describe('errors name the part', () => {
  const at = (content: JsonValue) => ({ messages: [user, { role: 'user', content }] })
  const rows: readonly (readonly [body: JsonObject, kind: string, param: string])[] = [
    [{ messages: [{ content: 'a' }] }, 'missing_field', 'messages[0].role'],
    [{ messages: [{ role: 'robot' }] }, 'invalid_field', 'messages[0].role'],
    [{ messages: [{ role: 'tool', content: 'a' }] }, 'missing_field', 'messages[0].tool_call_id'],
    [at(7), 'invalid_field', 'messages[1].content'],
    [at([7]), 'invalid_field', 'messages[1].content[0]'],
    [at([{ type: 'video' }]), 'invalid_field', 'messages[1].content[0].type'],
    [at([{ type: 'text' }]), 'missing_field', 'messages[1].content[0].text'],
    [at([{ type: 'image_url' }]), 'missing_field', 'messages[1].content[0].image_url.url'],
    [
      at([{ type: 'image_url', image_url: { url: 'http://10.0.0.1/' } }]),
      'invalid_field',
      'messages[1].content[0].image_url.url',
    ],
    [at([{ type: 'file', file: { file_id: 'file-1' } }]), 'invalid_field', 'messages[1].content[0].file.file_data'],
    [at([{ type: 'input_audio', input_audio: {} }]), 'missing_field', 'messages[1].content[0].input_audio.data'],
    [
      { messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'f' } }] }] },
      'missing_field',
      'messages[0].tool_calls[0].id',
    ],
    [
      { messages: [{ role: 'assistant', tool_calls: [{ id: 'c', function: {} }] }] },
      'missing_field',
      'messages[0].tool_calls[0].function.name',
    ],
    [{ tools: [{ type: 'function' }] }, 'missing_field', 'tools[0].function'],
    [{ tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'any' }, 'invalid_field', 'tool_choice'],
  ]
  test.each(rows)('%j', (body, kind, param) => {
    const error = errorOf(body)
    expect([error.kind, error.detail.param] as unknown[]).toEqual([kind, param])
    expect(error.message).toContain(param)
  })
})

test('logit_bias has at most 1,024 entries', () => {
  const bias = (entries: number) => Object.fromEntries(Array.from({ length: entries }, (_, token) => [token, 1]))
  expect(accept({ logit_bias: bias(1024) }).request.sampling.logitBias).toEqual(bias(1024))
  expect(() => accept({ logit_bias: bias(1025) })).toThrow(
    "Invalid value for 'logit_bias': must not have more than 1024 entries.",
  )
})

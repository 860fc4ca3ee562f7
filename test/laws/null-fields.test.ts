/**
 * The law of null: in every dialect an optional field that is null is as one that is absent, wherever it stands;
 * official SDKs of Python send it so. Optional is whatever a body may lack. What callers own (schemas, arguments,
 * results) is data, in which null means null.
 */

import { describe, expect, test } from 'bun:test'
import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import { acceptImages } from '../../src/dialects/images/request.ts'
import { messages } from '../../src/dialects/messages/messages.ts'
import { CALLER, dialect } from '../dialects/responses/setting.ts'

const mark = { type: 'ephemeral', ttl: '5m' }
const png = 'iVBORw0KGgo='
const schema = { type: 'object', properties: {} }

const CHAT: JsonObject = {
  model: 'm',
  messages: [
    { role: 'system', content: [{ type: 'text', text: 's', cache_control: mark }], name: 'n' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'u', cache_control: mark },
        { type: 'image_url', image_url: { url: `data:image/png;base64,${png}`, detail: 'low' }, cache_control: mark },
        { type: 'file', file: { file_data: 'data:application/pdf;base64,AA==', filename: 'f.pdf' } },
      ],
      cache_control: mark,
    },
    {
      role: 'assistant',
      content: 'a',
      refusal: 'r',
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'c', content: 'result', cache_control: mark },
  ],
  max_tokens: 5,
  max_completion_tokens: 6,
  stop: ['x'],
  tools: [
    {
      type: 'function',
      function: { name: 'f', description: 'd', parameters: schema, strict: true },
      cache_control: mark,
    },
    { type: 'custom', function: { name: 'g' } },
  ],
  tool_choice: {
    type: 'allowed_tools',
    allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'f' } }] },
  },
  parallel_tool_calls: false,
  stream: true,
  stream_options: { include_usage: true },
  ...{ temperature: 1, top_p: 0.5, frequency_penalty: 1, presence_penalty: 1, seed: 1, reasoning_effort: 'low' },
  ...{ verbosity: 'low', logit_bias: { 1: 1 }, logprobs: true, top_logprobs: 2, user: 'u', safety_identifier: 's' },
  response_format: { type: 'json_object' },
  ...{
    service_tier: 'auto',
    prompt_cache_key: 'k',
    prompt_cache_retention: '24h',
    prompt_cache_options: { ttl: '30m' },
  },
  ...{ n: 2, store: true, modalities: ['text'], functions: [], function_call: 'auto' },
}

const MESSAGES: JsonObject = {
  model: 'm',
  system: [{ type: 'text', text: 's', cache_control: mark, citations: [] }],
  messages: [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'u', cache_control: mark },
        { type: 'image', source: { type: 'base64', media_type: 'image/png', data: png }, cache_control: mark },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'a' },
        { type: 'tool_use', id: 't', name: 'f', input: {}, cache_control: mark },
      ],
    },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 't',
          content: [{ type: 'text', text: 'r' }],
          is_error: true,
          cache_control: mark,
        },
      ],
    },
  ],
  max_tokens: 5,
  ...{
    temperature: 1,
    top_p: 0.5,
    top_k: 3,
    stop_sequences: ['x'],
    stream: true,
    service_tier: 'auto',
    cache_control: mark,
  },
  tools: [
    {
      name: 'f',
      description: 'd',
      input_schema: schema,
      type: 'custom',
      strict: true,
      cache_control: mark,
      defer_loading: true,
    },
  ],
  tool_choice: { type: 'any', disable_parallel_tool_use: true },
  ...{
    thinking: { type: 'enabled' },
    metadata: { user_id: 'u' },
    prompt_cache_key: 'k',
    prompt_cache_retention: '24h',
  },
  ...{ thread: { type: 'create' }, output_config: { effort: 'low' } },
}

const tool = { type: 'function', name: 'f', description: 'd', parameters: schema, strict: true }
const RESPONSES: JsonObject = {
  model: 'm',
  instructions: 'i',
  input: [
    { type: 'additional_tools', tools: [tool] },
    {
      type: 'message',
      role: 'user',
      id: 'msg_1',
      status: 'completed',
      content: [{ type: 'input_text', text: 'u', cache_control: mark }],
    },
    { role: 'assistant', content: 'a', phase: 'commentary' },
    {
      type: 'function_call',
      id: 'fc_1',
      call_id: 'c',
      name: 'f',
      namespace: 'n',
      arguments: '{}',
      status: 'completed',
    },
    {
      type: 'function_call_output',
      id: 'o',
      call_id: 'c',
      output: [{ type: 'input_text', text: 'r' }],
      status: 'completed',
    },
    { type: 'reasoning', id: 'rs', summary: [], encrypted_content: 'x' },
  ],
  max_output_tokens: 16,
  ...{ temperature: 1, top_p: 0.5, tool_choice: 'required', parallel_tool_calls: false, truncation: 'auto' },
  tools: [
    { ...tool, name: 'g' },
    { type: 'namespace', name: 'n', description: 'd', tools: [tool] },
    { type: 'web_search' },
  ],
  ...{
    reasoning: { effort: 'low' },
    text: { format: { type: 'text' } },
    stream: true,
    service_tier: 'auto',
    user: 'u',
  },
  ...{ prompt_cache_key: 'k', prompt_cache_retention: '24h', previous_response_id: 'r', store: true, include: [] },
}

const IMAGES: JsonObject = {
  model: 'm',
  prompt: 'p',
  ...{ n: 1, size: '1024x1024', quality: 'low', background: 'auto', output_format: 'png', output_compression: 50 },
  ...{ moderation: 'low', response_format: 'b64_json', style: 'vivid', stream: true, partial_images: 1, user: 'u' },
}

/** What is the caller's own. */
const DATA: ReadonlySet<string> = new Set([
  'parameters',
  'input_schema',
  'arguments',
  'input_audio',
  'logit_bias',
  'prompt_cache_options',
  'response_format',
])

type Path = readonly (string | number)[]

/** The paths of all members of all objects that are fields. */
function fieldsOf(value: JsonValue, path: Path = []): Path[] {
  if (isArray(value)) return value.flatMap((item, index) => fieldsOf(item, [...path, index]))
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([name, member]) => {
    const at = [...path, name]
    const own = path.at(-1) === 'content' && name === 'input'
    return DATA.has(name) || own || member === undefined ? [at] : [at, ...fieldsOf(member, at)]
  })
}

/** A copy in which the field is null, or gone. */
function changed(value: JsonValue, [head, ...rest]: Path, to: null | undefined): JsonValue {
  if (isArray(value)) return value.map((item, index) => (index === head ? changed(item, rest, to) : item))
  if (!isObject(value)) return value
  const entries = Object.entries(value).flatMap(([name, member = null]): (readonly [string, JsonValue])[] => {
    if (name !== head) return [[name, member]]
    if (rest.length > 0) return [[name, changed(member, rest, to)]]
    return to === undefined ? [] : [[name, null]]
  })
  return Object.fromEntries(entries)
}

const DIALECTS: readonly (readonly [string, JsonObject, (body: JsonObject) => unknown])[] = [
  ['chat', CHAT, (body) => requestOf(chat({ imageUrls: 'public' }).accept(body, { organization: 'o' }))],
  [
    'messages',
    MESSAGES,
    (body) => requestOf(messages({ toolResultImages: 'pass' }).accept(body, { organization: 'o' })),
  ],
  ['responses', RESPONSES, (body) => requestOf(dialect.accept(body, CALLER))],
  [
    'images',
    IMAGES,
    (body) => {
      const { body: sent, ...image } = JSON.parse(
        JSON.stringify(acceptImages('generations', Buffer.from(JSON.stringify(body)), 'public')),
      )
      return { image, sent }
    },
  ],
]

function requestOf(exchange: unknown): unknown {
  if (!(exchange instanceof Object) || !('request' in exchange)) throw new Error('not an exchange')
  return exchange.request
}

describe.each(DIALECTS)('%s', (_, body, request) => {
  test('is accepted with all of its fields', () => expect(request(body)).toBeObject())

  test.each(fieldsOf(body).map((path) => [path.join('.'), path] as const))('%s', (__, path) => {
    let absent: unknown
    try {
      absent = request(changed(body, path, undefined) as JsonObject)
    } catch {
      // Required: null is as wrong as nothing.
      expect(() => request(changed(body, path, null) as JsonObject)).toThrow()
      return
    }
    expect(request(changed(body, path, null) as JsonObject)).toEqual(absent as object)
  })
})

/** Responses bodies → canonical requests: every field, every type of item, and what callers really send. */

import { describe, expect, test } from 'bun:test'
import type { JsonObject, JsonValue } from '../../../src/core/json.ts'
import { type Message, readBody } from '../../support/literal.ts'
import { accept, answered, CALLER, dialect, failureOf, saying } from './setting.ts'

const user = (text: string): Message => ({ role: 'user', parts: [{ type: 'text', text }] })
const system = (text: string): Message => ({ role: 'system', parts: [{ type: 'text', text }] })
const requestOf = (body: JsonObject) => accept(body).request
const messagesOf = (input: JsonValue, more: JsonObject = {}) => requestOf({ input, ...more }).messages

const call = (id: string, more: JsonObject = {}): JsonObject => ({
  type: 'function_call',
  call_id: id,
  name: 'get_weather',
  arguments: '{}',
  ...more,
})
const output = (id: string, text: JsonValue = id): JsonObject => ({
  type: 'function_call_output',
  call_id: id,
  output: text,
})

/** A conversation as a line of shorthand: `u:hi`, `a:text|c1,c2`, `t:c1`, `s:…`. */
function shorthand(messages: readonly Message[]): string {
  return messages
    .map((message) => {
      const text = message.parts.map((part) => (part.type === 'text' ? part.text : '?')).join('+')
      switch (message.role) {
        case 'assistant':
          return `a:${text}|${message.toolCalls.map(({ callId }) => callId)}`
        case 'tool':
          return `t:${message.callId}`
        default:
          return `${message.role[0]}:${text}`
      }
    })
    .join(' ')
}

test.each(['', ' \n', 'null', ' null ', null])('a call whose arguments are %j has none', (written) => {
  expect(messagesOf([call('c', { arguments: written }), output('c')])).toMatchObject([
    { role: 'assistant', toolCalls: [{ callId: 'c', json: '{}' }] },
    { role: 'tool', callId: 'c' },
  ])
})

describe('fields', () => {
  test('a string is one user message', () => {
    expect(messagesOf('hi')).toEqual([user('hi')])
  })

  test('instructions come first, as a system message', () => {
    expect(
      messagesOf(
        [
          { role: 'developer', content: 'b' },
          { role: 'user', content: 'c' },
        ],
        { instructions: 'a' },
      ),
    ).toEqual([system('a'), system('b'), user('c')])
    expect(messagesOf('c', { instructions: '' })).toEqual([user('c')])
  })

  test('fields that are passed on', () => {
    const request = requestOf({
      input: 'hi',
      max_output_tokens: 300,
      temperature: 0.5,
      top_p: 0.9,
      service_tier: 'flex',
      prompt_cache_key: 'k',
      prompt_cache_retention: '24h',
      stream: true,
    })
    expect(request).toMatchObject({
      model: 'acme-large',
      stream: true,
      maxOutputTokens: 300,
      limitsOutput: true,
      cacheStrict: true,
      stop: [],
      sampling: { temperature: 0.5, topP: 0.9 },
      hints: { serviceTier: 'flex', promptCacheKey: 'k', promptCacheRetention: '24h' },
    })
  })

  test('fields that are accepted without effect, and items that are skipped', () => {
    const body: JsonObject = {
      input: 'hi',
      reasoning: { effort: 'high', summary: 'auto' },
      text: { format: { type: 'json_object' }, verbosity: 'low' },
      truncation: 'auto',
      parallel_tool_calls: false,
      user: 'u',
      previous_response_id: 'resp_1',
      conversation: 'conv_1',
      store: true,
      include: [],
      background: true,
      stop: ['x'],
      client_metadata: {},
    }
    expect(JSON.stringify(requestOf(body))).toBe(JSON.stringify(requestOf({ input: 'hi' })))
  })

  test('null means absent', () => {
    const names = [
      'instructions',
      'max_output_tokens',
      'temperature',
      'top_p',
      'tools',
      'tool_choice',
      'parallel_tool_calls',
    ]
    const more = [
      'reasoning',
      'text',
      'truncation',
      'stream',
      'service_tier',
      'user',
      'prompt_cache_key',
      'prompt_cache_retention',
    ]
    const nulls = Object.fromEntries([...names, ...more].map((name) => [name, null]))
    expect(JSON.stringify(requestOf({ input: 'hi', ...nulls }))).toBe(JSON.stringify(requestOf({ input: 'hi' })))
  })

  test.each([
    ['required', { mode: 'required' }],
    ['none', { mode: 'none' }],
    ['auto', undefined],
    [{ type: 'function', name: 'f' }, undefined],
    [{ type: 'allowed_tools', mode: 'required', tools: [] }, undefined],
    ['sometimes', undefined],
  ])('tool_choice %p', (choice, expected) => {
    const tools = [{ type: 'function', name: 'f' }]
    expect(requestOf({ input: 'hi', tools, tool_choice: choice }).toolChoice).toEqual(expected as never)
    expect(requestOf({ input: 'hi', tools: [], tool_choice: choice }).toolChoice).toBeUndefined()
    expect(requestOf({ input: 'hi', tool_choice: choice }).toolChoice).toBeUndefined()
  })

  test("the answer repeats the request's fields that the resource has", () => {
    const body = {
      input: 'hi',
      instructions: 'be terse',
      max_output_tokens: 300,
      temperature: 0.5,
      top_p: 0.9,
      tools: [{ type: 'function', name: 'f', strict: true, extra: 1 }, { type: 'web_search' }],
      tool_choice: 'required',
      prompt_cache_key: 'k',
      service_tier: 'flex',
      truncation: 'auto',
      text: { format: { type: 'json_object' } },
      parallel_tool_calls: false,
    }
    expect(answered(accept(body), saying('yes'))).toMatchObject({
      instructions: 'be terse',
      max_output_tokens: 300,
      temperature: 0.5,
      top_p: 0.9,
      tools: [
        {
          type: 'function',
          name: 'f',
          description: null,
          parameters: { type: 'object', properties: {} },
          strict: true,
        },
      ],
      tool_choice: 'required',
      prompt_cache_key: 'k',
      service_tier: 'flex',
      truncation: 'auto',
      text: { format: { type: 'text' } },
      parallel_tool_calls: true,
      status: 'completed',
    })
  })
})

describe('messages', () => {
  test.each([
    ['user', 'u'],
    ['assistant', 'a'],
    ['system', 's'],
    ['developer', 's'],
    ['tool', 'u'],
    ['critic', 'u'],
    [null, 'u'],
  ])('role %p', (role, letter) => {
    const line = shorthand(
      messagesOf([
        { type: 'message', role, content: 'x' },
        { role: 'user', content: 'y' },
      ]),
    )
    expect(line).toStartWith(`${letter}:x`)
  })

  test('text parts of all three kinds; all others are ignored', () => {
    const content = [
      { type: 'input_text', text: 'a' },
      { type: 'input_image', image_url: 'data:image/png;base64,AA==' },
      { type: 'output_text', text: 'b', annotations: [], logprobs: [] },
      { type: 'refusal', refusal: 'no' },
      { type: 'text', text: 'c' },
      { type: 'input_file', file_id: 'f' },
    ]
    expect(shorthand(messagesOf([{ role: 'user', content }]))).toBe('u:a+b+c')
  })

  test('a message without text is left out, unless nothing else is there', () => {
    const image = { role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }
    expect(shorthand(messagesOf([image, { role: 'user', content: 'y' }]))).toBe('u:y')
    expect(shorthand(messagesOf([image]))).toBe('u:')
    expect(shorthand(messagesOf([image], { instructions: 'i' }))).toBe('s:i u:')
    expect(
      shorthand(
        messagesOf([
          { role: 'user', content: 'y' },
          { role: 'assistant', content: '' },
        ]),
      ),
    ).toBe('u:y')
    expect(shorthand(messagesOf(''))).toBe('u:')
  })

  test('reasoning, unknown items and extra fields are skipped', () => {
    const input = [
      { type: 'reasoning', id: 'rs_1', summary: [] },
      { type: 'message', id: 'msg_1', status: 'completed', role: 'user', content: 'x', internal: {} },
      { type: 'web_search_call', id: 'ws_1' },
      { type: 'custom_tool_call', call_id: 'c', name: 'apply_patch', input: '' },
      { type: 'custom_tool_call_output', call_id: 'c', output: 'ok' },
    ]
    expect(shorthand(messagesOf(input))).toBe('u:x')
  })
})

describe('cache marks', () => {
  const marked = (mark: JsonValue) => [
    { role: 'user', content: [{ type: 'input_text', text: 'a', cache_control: mark }] },
  ]

  test.each([
    [{ type: 'ephemeral' }, {}],
    [{ type: 'ephemeral', ttl: '5m' }, { ttl: '5m' }],
    [{ type: 'ephemeral', ttl: '1h' }, { ttl: '1h' }],
    [{ type: 'ephemeral', ttl: null }, {}],
    [null, undefined],
  ])('%j is kept on its part', (mark, cache) => {
    const wanted = cache && { ...cache, path: 'input[0].content[0].cache_control' }
    expect(messagesOf(marked(mark))).toEqual([
      { role: 'user', parts: [{ type: 'text', text: 'a', cache: wanted as never }] },
    ])
  })

  test.each([
    ['x', 'input[0].content[0].cache_control'],
    [{ type: 'persistent' }, 'input[0].content[0].cache_control.type'],
    [{ type: 'ephemeral', ttl: '2h' }, 'input[0].content[0].cache_control.ttl'],
  ])('%j is refused', (mark, param) => {
    const failure = failureOf(() => messagesOf(marked(mark)))
    expect(failure.row.status).toBe(400)
    expect(failure.detail.param).toBe(param)
  })

  test.each([
    ['an image', { type: 'input_image', image_url: 'x' }],
    ['an empty text', { type: 'input_text', text: '' }],
  ])('that of %s moves to the text before it', (_, ignored) => {
    const cache_control = { type: 'ephemeral', ttl: '1h' }
    const texts = ['a', 'b'].map((text) => ({ type: 'input_text', text }))
    const content = [...texts, { ...ignored, cache_control }, { type: 'input_text', text: 'c' }]
    const cache = { ttl: '1h', path: 'input[0].content[2].cache_control' }
    expect(messagesOf([{ role: 'user', content }])).toMatchObject([
      {
        role: 'user',
        parts: [
          { text: 'a', cache: undefined },
          { text: 'b', cache },
          { text: 'c', cache: undefined },
        ],
      },
    ])
  })

  test('the mark of an image before all text moves to the text after it', () => {
    const cache_control = { type: 'ephemeral', ttl: '1h' }
    const content = [
      { type: 'input_image', image_url: 'x', cache_control },
      { type: 'input_text', text: 'a' },
      { type: 'input_text', text: 'b' },
    ]
    const cache = { ttl: '1h', path: 'input[0].content[0].cache_control' }
    const [message] = messagesOf([{ role: 'user', content }])
    expect(message?.parts).toMatchObject([
      { text: 'a', cache },
      { text: 'b', cache: undefined },
    ])
  })

  test('the mark of an ignored part is validated all the same', () => {
    const image = { type: 'input_image', image_url: 'x', cache_control: { type: 'never' } }
    const input = [{ role: 'user', content: [{ type: 'input_text', text: 'a' }, image] }]
    expect(failureOf(() => messagesOf(input)).detail.param).toBe('input[0].content[1].cache_control.type')
  })
})

describe('calls and outputs', () => {
  const say = (text: string) => ({ role: 'assistant', content: text })
  const ask = (text: string) => ({ role: 'user', content: text })
  const rows: readonly (readonly [what: string, input: JsonObject[], line: string])[] = [
    ['consecutive calls are one turn', [call('c1'), call('c2'), output('c1'), output('c2')], 'a:|c1,c2 t:c1 t:c2'],
    [
      'with the message before them',
      [say('x'), call('c1'), call('c2'), output('c1'), output('c2')],
      'a:x|c1,c2 t:c1 t:c2',
    ],
    ['not with one further away', [say('x'), say('y'), call('c1'), output('c1')], 'a:x| a:y|c1 t:c1'],
    ['not over a user', [say('x'), ask('y'), call('c1'), output('c1')], 'a:x| u:y a:|c1 t:c1'],
    [
      'over what is skipped',
      [say('x'), { type: 'reasoning' }, call('c1'), { type: 'reasoning' }, call('c2')],
      'a:x|c1,c2',
    ],
    ['a new turn after an output', [call('c1'), output('c1'), call('c2'), output('c2')], 'a:|c1 t:c1 a:|c2 t:c2'],
    ['text after calls is of their turn', [say('x'), call('c1'), say('y'), output('c1')], 'a:x+y|c1 t:c1'],
    ['text after outputs is not', [call('c1'), output('c1'), say('y')], 'a:|c1 t:c1 a:y|'],
    ['an output moves after its call', [call('c1'), ask('x'), output('c1')], 'a:|c1 t:c1 u:x'],
    [
      'past a later turn too',
      [call('c1'), call('c2'), output('c1'), call('c3'), output('c2'), output('c3')],
      'a:|c1,c2 t:c1 t:c2 a:|c3 t:c3',
    ],
    ['ids that repeat', [call('c'), output('c'), ask('x'), call('c'), output('c')], 'a:|c t:c u:x a:|c t:c'],
    ['an output without a call stays', [ask('x'), output('c9'), ask('y')], 'u:x t:c9 u:y'],
  ]
  test.each(rows)('%s', (_, input, line) => {
    expect(shorthand(messagesOf(input))).toBe(line)
  })

  test.each([
    ['{"a":1}', '{"a":1}'],
    ['', '{}'],
    [null, '{}'],
    [{ a: 1 }, '{"a":1}'],
    ['{"cut', '{"cut'],
  ])('arguments %j', (args, json) => {
    const [turn] = messagesOf([call('c1', { arguments: args })])
    expect(turn).toEqual({ role: 'assistant', parts: [], toolCalls: [{ callId: 'c1', name: 'get_weather', json }] })
  })

  test.each([
    ['text', ['text']],
    ['', []],
    [null, []],
    [
      [
        { type: 'input_text', text: 'a' },
        { type: 'input_image', image_url: 'x' },
        { type: 'input_text', text: 'b' },
      ],
      ['a', 'b'],
    ],
    [[{ type: 'input_image', image_url: 'x' }], []],
    [{ ok: true }, ['{"ok":true}']],
  ])('output %j', (value, texts) => {
    const [, result] = messagesOf([call('c1'), output('c1', value)])
    expect(result).toEqual({ role: 'tool', callId: 'c1', parts: texts.map((text) => ({ type: 'text', text })) })
  })
})

describe('rejected with the name of the field', () => {
  const rows: readonly (readonly [body: JsonObject, name: string, param: string])[] = [
    [{}, 'missing_field', 'input'],
    [{ input: null }, 'invalid_field', 'input'],
    [{ input: 7 }, 'invalid_field', 'input'],
    [{ input: {} }, 'invalid_field', 'input'],
    [{ input: [] }, 'invalid_field', 'input'],
    [{ input: [{ type: 'reasoning' }] }, 'invalid_field', 'input'],
    [{ input: ['x'] }, 'invalid_field', 'input[0]'],
    [{ input: [{ content: 'x' }] }, 'missing_field', 'input[0].type'],
    [{ input: [{ type: 3 }] }, 'invalid_field', 'input[0].type'],
    [{ input: [{ role: 'user', content: 3 }] }, 'invalid_field', 'input[0].content'],
    [{ input: [{ role: 'user', content: ['x'] }] }, 'invalid_field', 'input[0].content[0]'],
    [{ input: [{ role: 'user', content: [{ type: 'text' }] }] }, 'missing_field', 'input[0].content[0].text'],
    [{ input: [{ role: 'user', content: [{ type: 'text', text: 3 }] }] }, 'invalid_field', 'input[0].content[0].text'],
    [{ input: [call('c1', { call_id: null })] }, 'missing_field', 'input[0].call_id'],
    [{ input: [call('c1', { call_id: 3 })] }, 'invalid_field', 'input[0].call_id'],
    [{ input: [call('c1', { name: '' })] }, 'missing_field', 'input[0].name'],
    [{ input: [{ type: 'function_call_output', output: 'x' }] }, 'missing_field', 'input[0].call_id'],
    [{ input: 'x', model: '' }, 'invalid_field', 'model'],
    [{ input: 'x', max_output_tokens: 0 }, 'invalid_field', 'max_output_tokens'],
    [{ input: 'x', temperature: 3 }, 'invalid_field', 'temperature'],
    [{ input: 'x', top_p: '1' }, 'invalid_field', 'top_p'],
    [{ input: 'x', stream: 'yes' }, 'invalid_field', 'stream'],
    [{ input: 'x', instructions: [] }, 'invalid_field', 'instructions'],
    [{ input: 'x', tools: {} }, 'invalid_field', 'tools'],
  ]
  test.each(rows)('%j', (body, name, param) => {
    const failure = failureOf(() => requestOf(body))
    expect<string>(failure.kind).toBe(name)
    expect(failure.detail.param).toBe(param)
    expect(failure.row.status).toBe(400)
  })
})

test('a request without a model is rejected', () => {
  expect(failureOf(() => readBody(dialect, { input: 'x' }, CALLER)).kind).toBe('missing_field')
})

test('conversion is deterministic: the same body gives the same bytes', () => {
  const body = {
    input: [{ role: 'user', content: 'x' }, call('c1'), output('c1')],
    tools: [{ type: 'namespace', name: 'n', tools: [{ type: 'function', name: 'f' }] }],
  }
  expect(JSON.stringify(requestOf(body))).toBe(JSON.stringify(requestOf(structuredClone(body))))
})

/** Anthropic's own rules: the place of each part of a request, and the meaning of its events. */

import { describe, expect, test } from 'bun:test'
import type { StreamEvent } from '../../src/core/event.ts'
import { isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import type { Target } from '../../src/providers/provider.ts'
import { restoreToolName } from '../../src/providers/provider.ts'
import { chatRequest, type Literal, type Message } from '../support/literal.ts'
import { objectOf, sentText } from './conformance.ts'
import { streamed } from './outcome.ts'
import { endpoint, plainLiteral, plainRequest } from './requests.ts'
import { anthropicRules } from './rules.ts'

const TARGET: Target = { endpoint: endpoint(), model: 'claude-sonnet-4-5' }

async function bodyOf(more: Partial<Literal>, model = TARGET.model): Promise<JsonObject> {
  const request = plainLiteral(more)
  const body = objectOf(anthropic.request(chatRequest(request), { ...TARGET, model }).body)
  anthropicRules(body, request)
  return body
}

const user = (text: string, more: object = {}): Message => ({ role: 'user', parts: [{ type: 'text', text, ...more }] })
const answered = (text: string): Message => ({ role: 'assistant', parts: [{ type: 'text', text }], toolCalls: [] })
const calls = (...ids: string[]): Message => ({
  role: 'assistant',
  parts: [],
  toolCalls: ids.map((callId) => ({ callId, name: 'get_weather', json: '{"city":"Oslo"}' })),
})
const result = (callId: string, text: string): Message => ({ role: 'tool', callId, parts: [{ type: 'text', text }] })
const system = (text: string, more: object = {}): Message => ({
  role: 'system',
  parts: [{ type: 'text', text, ...more }],
})
const TOOL = { name: 'get_weather', parameters: { type: 'object' } }

describe('a request to Anthropic', () => {
  test('goes to its path with its headers; the operator’s own override them', async () => {
    const own = endpoint({
      baseUrl: 'https://api.example',
      headers: { 'anthropic-beta': 'b', 'anthropic-version': 'x' },
    })
    const sent = anthropic.request(plainRequest(), { endpoint: own, model: 'm' })
    expect(sent.url).toBe('https://api.example/v1/messages')
    expect(sent.headers).toEqual({
      'content-type': 'application/json',
      'x-api-key': 'secret-key',
      'anthropic-version': 'x',
      'anthropic-beta': 'b',
    })
    const plain = anthropic.request(plainRequest(), { endpoint: endpoint(), model: 'm' })
    expect(plain.headers['anthropic-version']).toBe('2023-06-01')
    expect(sentText(plain.body)).toBe(
      '{"model":"m","max_tokens":4096,"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}',
    )
  })

  test('has all system text in front, in order', async () => {
    const body = await bodyOf({ messages: [system('one'), user('Hi'), system(' '), system('two'), user('there')] })
    expect(body['system']).toEqual([
      { type: 'text', text: 'one' },
      { type: 'text', text: 'two' },
    ])
    expect(body['messages']).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi' },
          { type: 'text', text: 'there' },
        ],
      },
    ])
  })

  test('has results at the start of the user turn after their calls', async () => {
    const messages = [user('Hi'), calls('a', 'b'), user('meanwhile'), result('a', '1'), result('b', ''), user('next')]
    const body = await bodyOf({ messages, tools: [TOOL] })
    const [, , turn] = listOf(body['messages'])
    expect(turn).toEqual({
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'a', content: '1' },
        { type: 'tool_result', tool_use_id: 'b' },
        { type: 'text', text: 'meanwhile' },
        { type: 'text', text: 'next' },
      ],
    })
  })

  test('begins with the user, drops empty answers, keeps the place of an empty question', async () => {
    const first = await bodyOf({ messages: [answered('Hello.'), user('Hi')] })
    expect(listOf(first['messages'])[0]).toEqual({ role: 'user', content: [{ type: 'text', text: '.' }] })
    const empty = await bodyOf({
      messages: [user('a'), answered(' '), user('b'), answered('c'), user(''), answered('d')],
    })
    expect(listOf(empty['messages']).map((turn) => (isObject(turn) ? turn['role'] : ''))).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
    ])
  })

  test('has no trailing white space in a prefill', async () => {
    const body = await bodyOf({ messages: [user('Hi'), answered('Once upon \n')] })
    expect(listOf(body['messages'])[1]).toEqual({ role: 'assistant', content: [{ type: 'text', text: 'Once upon' }] })
  })

  test('names the called tools with choice none if it offers no tools', async () => {
    const messages = [user('Hi'), calls('a'), result('a', '1')]
    const body = await bodyOf({ messages })
    expect(body['tools']).toEqual([{ name: 'get_weather', input_schema: { type: 'object' } }])
    expect(body['tool_choice']).toEqual({ type: 'none' })
    expect(await bodyOf({})).not.toHaveProperty('tool_choice')
  })

  test.each<[Partial<Literal>, JsonValue | undefined]>([
    [{}, undefined],
    [{ toolChoice: { mode: 'auto' } }, { type: 'auto' }],
    [{ toolChoice: { mode: 'none' }, parallelToolCalls: false }, { type: 'none' }],
    [{ toolChoice: { mode: 'required' } }, { type: 'any' }],
    [{ toolChoice: { mode: 'tool', name: 'get_weather' } }, { type: 'tool', name: 'get_weather' }],
    [{ parallelToolCalls: false }, { type: 'auto', disable_parallel_tool_use: true }],
    [{ parallelToolCalls: true }, undefined],
    [
      { toolChoice: { mode: 'required' }, parallelToolCalls: false },
      { type: 'any', disable_parallel_tool_use: true },
    ],
    [{ toolChoice: { mode: 'allowed', names: ['get_weather'], required: true } }, { type: 'any' }],
  ])('has the tool choice of %j', async (more, choice) => {
    expect((await bodyOf({ tools: [TOOL], ...more }))['tool_choice']).toEqual(choice)
  })

  test('offers only allowed tools', async () => {
    const tools = [TOOL, { name: 'other', parameters: { type: 'object' } }]
    const body = await bodyOf({ tools, toolChoice: { mode: 'allowed', names: ['other'], required: false } })
    expect(listOf(body['tools']).map((tool) => (isObject(tool) ? tool['name'] : ''))).toEqual(['other'])
  })

  test('has a temperature from 0 to 1, and no top_p with it', async () => {
    expect(await bodyOf({ sampling: { temperature: 1.7, topP: 0.5 } })).toMatchObject({ temperature: 1 })
    expect((await bodyOf({ sampling: { temperature: 1.7, topP: 0.5 } }))['top_p']).toBeUndefined()
    expect(await bodyOf({ sampling: { topP: 0.5 } })).toMatchObject({ top_p: 0.5 })
  })

  test('requests structured answers only from models that support them', async () => {
    const schema = { type: 'object', properties: {} }
    const more = {
      tools: [{ ...TOOL, strict: true }],
      sampling: { responseFormat: { type: 'json_schema', json_schema: { name: 'x', schema } } },
    }
    for (const model of ['claude-sonnet-4-5', 'claude-opus-4-10', 'claude-opus-5-1-20270101', 'x/claude-haiku-4-5']) {
      const body = await bodyOf(more, model)
      expect(body['output_config']).toEqual({ format: { type: 'json_schema', schema } })
      expect(listOf(body['tools'])[0]).toHaveProperty('strict', true)
    }
    for (const model of ['claude-3-5-sonnet-20241022', 'claude-sonnet-4-20250514', 'claude-opus-4-1', 'other']) {
      const body = await bodyOf(more, model)
      expect(body['output_config']).toBeUndefined()
      expect(listOf(body['tools'])[0]).not.toHaveProperty('strict')
    }
  })

  test('has legal and unique ids', async () => {
    const messages = [
      user('Hi'),
      calls('call:1', 'same', 'same'),
      ...['call:1', 'same', 'same'].map((id) => result(id, id)),
      calls('same'),
      result('same', 'later'),
    ]
    const body = await bodyOf({ messages, tools: [TOOL] })
    const ids = listOf(body['messages']).map((turn) => blocks(turn).map((block) => block['id'] ?? block['tool_use_id']))
    expect(ids[1]).toEqual([expect.stringMatching(/^call_1_[0-9a-f]{10}$/), 'same', 'same_2'])
    expect(ids[2]).toEqual(ids[1] ?? [])
    expect(ids[3]).toEqual(['same_3'])
    expect(ids[4]).toEqual(['same_3'])
  })

  test('has arguments as an object, even if the caller’s history has other text', async () => {
    const call = (json: string): Message => ({
      role: 'assistant',
      parts: [],
      toolCalls: [{ callId: 'a', name: 'get_weather', json }],
    })
    for (const [json, input] of [
      ['', {}],
      [' null\n', {}],
      ['{"b":1,"a":2}', { b: 1, a: 2 }],
      ['{"cut":"o', { INVALID_JSON: '{"cut":"o' }],
      ['[1]', { INVALID_JSON: '[1]' }],
    ] as const) {
      const body = await bodyOf({ messages: [user('Hi'), call(json), result('a', 'x')], tools: [TOOL] })
      expect(blocks(listOf(body['messages'])[1])[0]?.['input']).toEqual(input)
    }
  })

  test('takes images as data and by URL', async () => {
    const source = (more: object) => ({ role: 'user', parts: [{ type: 'image', source: more }] }) as Message
    const data = await bodyOf({ messages: [source({ type: 'base64', mediaType: 'image/jpg', data: 'aGk=' })] })
    expect(blocks(listOf(data['messages'])[0])[0]?.['source']).toEqual({
      type: 'base64',
      media_type: 'image/jpeg',
      data: 'aGk=',
    })
    const request = plainRequest({ messages: [source({ type: 'url', url: 'https://x/y.png' })] })
    const { body } = anthropic.request(request, TARGET)
    expect(sentText(body)).toContain('"source":{"type":"url","url":"https://x/y.png"}')
  })
})

describe('cache marks to Anthropic', () => {
  const marked = (text: string, ttl?: '5m' | '1h') => user(text, { cache: ttl === undefined ? {} : { ttl } })
  const marksOf = (body: JsonObject) =>
    JSON.stringify(body).match(/"text":"[^"]*","cache_control":\{[^}]*\}|"cache_control":\{[^}]*\}/g) ?? []

  test('keep their places and their TTLs', async () => {
    const body = await bodyOf({
      tools: [{ ...TOOL, cache: { ttl: '1h' } }],
      messages: [system('s', { cache: { ttl: '1h' } }), marked('u')],
    })
    expect(marksOf(body)).toEqual([
      '"cache_control":{"type":"ephemeral","ttl":"1h"}',
      '"text":"s","cache_control":{"type":"ephemeral","ttl":"1h"}',
      '"text":"u","cache_control":{"type":"ephemeral"}',
    ])
  })

  test('are the last four if there are more', async () => {
    const body = await bodyOf({ messages: ['1', '2', '3', '4', '5', '6'].map((text) => marked(text)) })
    expect(marksOf(body).map((mark) => mark.slice(8, 9))).toEqual(['3', '4', '5', '6'])
  })

  test('of 1h become 5m after one of 5m', async () => {
    const body = await bodyOf({ messages: [marked('1', '1h'), marked('2'), marked('3', '1h')] })
    expect(marksOf(body)).toEqual([
      '"text":"1","cache_control":{"type":"ephemeral","ttl":"1h"}',
      '"text":"2","cache_control":{"type":"ephemeral"}',
      '"text":"3","cache_control":{"type":"ephemeral","ttl":"5m"}',
    ])
  })

  test('on the whole request move to its last block, unless that has one', async () => {
    const messages = [user('a'), calls('x'), result('x', '1')]
    const body = await bodyOf({ messages, tools: [TOOL], cache: { ttl: '1h' } })
    expect(blocks(listOf(body['messages'])[2])[0]).toEqual({
      type: 'tool_result',
      tool_use_id: 'x',
      content: '1',
      cache_control: { type: 'ephemeral', ttl: '1h' },
    })
    expect(marksOf(await bodyOf({ messages: [marked('a', '5m')], cache: { ttl: '1h' } }))).toEqual([
      '"text":"a","cache_control":{"type":"ephemeral","ttl":"5m"}',
    ])
  })
})

describe('an answer of Anthropic', () => {
  const frames = (...chunks: object[]) => chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')
  const outcome = (...chunks: object[]) => streamed(anthropic, [Buffer.from(frames(...chunks))])
  const START = { type: 'message_start', message: { usage: { input_tokens: 5, output_tokens: 1 } } }
  const STOP = [{ type: 'message_delta', delta: { stop_reason: 'end_turn' } }, { type: 'message_stop' }]

  test('reports its input at the start, and its output only after it is counted', () => {
    const events: StreamEvent[] = []
    const decoder = anthropic.decoder()
    events.push(...decoder.decode('message_start', JSON.stringify(START)))
    expect(events).toEqual([{ type: 'start' }, { type: 'usage', usage: expect.objectContaining({ input: 5 }) }])
    expect(JSON.stringify(events)).not.toContain('output')
  })

  test('splits cache writes by their TTL', () => {
    const usage = {
      input_tokens: 5,
      cache_read_input_tokens: 2000,
      cache_creation_input_tokens: 100,
      cache_creation: { ephemeral_5m_input_tokens: 60, ephemeral_1h_input_tokens: 40 },
      output_tokens: 7,
      output_tokens_details: { thinking_tokens: 3 },
    }
    expect(outcome(START, { type: 'message_delta', delta: {}, usage }, ...STOP).usage).toEqual({
      input: 2105,
      cachedInput: 2000,
      cacheWrite5m: 60,
      cacheWrite1h: 40,
      output: 7,
      reasoning: 3,
    })
    const { cache_creation: _, ...unsplit } = usage
    const { usage: counted } = outcome(START, { type: 'message_delta', delta: {}, usage: unsplit }, ...STOP)
    expect(counted).toMatchObject({ input: 2105, cacheWrite5m: 100 })
  })

  test('skips tools that the provider runs itself', () => {
    const block = { type: 'server_tool_use', id: 's', name: 'web_search', input: {} }
    const answer = outcome(
      START,
      { type: 'content_block_start', index: 0, content_block: block },
      { type: 'content_block_delta', index: 0, delta: { type: 'input_json_delta', partial_json: '{"q":1}' } },
      { type: 'content_block_stop', index: 0 },
      { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Hi' } },
      ...STOP,
    )
    expect(answer).toMatchObject({ text: 'Hi', calls: [], reason: 'stop', ended: true })
  })

  test.each<[string, object, string]>([
    ['error', { type: 'error', error: 'odd' }, 'failed'],
    ['error', { message: 'odd' }, 'failed'],
    ['', { error: { type: 'rate_limit_error', message: 'slow' } }, 'rate_limited'],
    ['ping', { type: 'error', error: { type: 'overloaded_error', message: 'x' } }, 'overloaded'],
  ])('that ends early with event %j and %j is %s', (event, data, kind) => {
    expect(kindOf(() => anthropic.decoder().decode(event, JSON.stringify(data)))).toBe(kind)
  })

  test('numbers calls among blocks of other kinds, and closes blocks without an end', () => {
    const tool = (index: number, id: string) => ({
      type: 'content_block_start',
      index,
      content_block: { type: 'tool_use', id, name: 'f', input: {} },
    })
    const answer = outcome(
      START,
      { type: 'content_block_start', index: 0, content_block: { type: 'thinking', thinking: '' } },
      tool(3, 'a'),
      tool(5, 'b'),
      { type: 'content_block_delta', index: 5, delta: { type: 'input_json_delta', partial_json: '{"b":1}' } },
      ...STOP,
    )
    expect(answer.calls).toEqual([
      { id: 'a', name: 'f', json: '{}' },
      { id: 'b', name: 'f', json: '{"b":1}' },
    ])
    expect(answer.reason).toBe('tool-call')
  })

  test('may come whole', () => {
    const events = anthropic.events({
      type: 'message',
      content: [
        { type: 'thinking', thinking: 'hm', signature: 's' },
        { type: 'text', text: 'Hi' },
        { type: 'tool_use', id: 'a', name: 'f', input: { b: 1 } },
        { type: 'tool_use', id: 'b', name: 'g', input: {} },
      ],
      stop_reason: 'tool_use',
      usage: { input_tokens: 5, cache_read_input_tokens: 2, output_tokens: 7 },
    })
    expect(events).toEqual([
      { type: 'start' },
      { type: 'reasoning', text: 'hm' },
      { type: 'thought', json: '{"type":"thinking","thinking":"hm","signature":"s"}' },
      { type: 'text', text: 'Hi' },
      { type: 'tool-start', index: 0, callId: 'a', name: 'f' },
      { type: 'tool-delta', index: 0, json: '{"b":1}' },
      { type: 'tool-start', index: 1, callId: 'b', name: 'g' },
      { type: 'tool-delta', index: 1, json: '{}' },
      { type: 'finish', reason: 'tool-call' },
      { type: 'usage', usage: expect.objectContaining({ input: 7, cachedInput: 2, output: 7 }) },
      { type: 'end' },
    ])
  })

  test.each<[JsonValue, string]>([
    [[], 'broken'],
    [{ type: 'error', error: { type: 'overloaded_error', message: 'x' } }, 'overloaded'],
    [{ type: 'message' }, 'broken'],
    ['text', 'broken'],
  ])('that is malformed is an error: %j', (body, kind) => {
    expect(kindOf(() => anthropic.events(body))).toBe(kind)
  })

  test('under an error status distinguishes an empty account from a caller’s mistake', () => {
    const body = (message: string) =>
      JSON.stringify({ type: 'error', error: { type: 'invalid_request_error', message } })
    expect(
      anthropic.responseError(400, new Headers(), body('Your credit balance is too low to access the API')).kind,
    ).toBe('credit_exhausted')
    const long = anthropic.responseError(400, new Headers(), body('prompt is too long: 210000 tokens > 200000 maximum'))
    expect([long.kind, long.detail.code]).toEqual(['rejected', 'context_length_exceeded'])
  })
})

test('names that Anthropic rejects come back as the caller’s own', async () => {
  const name = 'mcp.server/tool'
  const request = plainRequest({
    tools: [{ name, parameters: { type: 'object' } }],
    toolChoice: { mode: 'tool', name },
  })
  const sent = anthropic.request(request, TARGET)
  const [sentName = ''] = [...(sent.toolNames?.keys() ?? [])]
  expect(sentName).toMatch(/^mcp_server_tool_[0-9a-f]{10}$/)
  expect(objectOf(sent.body)['tool_choice']).toEqual({ type: 'tool', name: sentName })
  const event: StreamEvent = { type: 'tool-start', index: 0, callId: 'a', name: sentName }
  expect(restoreToolName(event, sent.toolNames)).toEqual({ ...event, name })
})

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : []
}

function blocks(turn: JsonValue | undefined): readonly JsonObject[] {
  return isObject(turn) ? listOf(turn['content']).filter(isObject) : []
}

function kindOf(run: () => unknown): string {
  try {
    run()
  } catch (error) {
    if (error instanceof ProviderError) return error.kind
    throw error
  }
  return 'none'
}

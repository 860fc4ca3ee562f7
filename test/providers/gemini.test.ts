/** Gemini's own rules: its body, thought signatures, schemas, and answers in an array. */

import { describe, expect, test } from 'bun:test'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import { isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import type { Literal, Message } from '../support/literal.ts'
import { objectOf } from './conformance.ts'
import { endpoint, plainRequest } from './requests.ts'
import { geminiRules } from './rules.ts'

async function bodyOf(more: Partial<Literal>, model = 'gemini-3-pro'): Promise<JsonObject> {
  const body = objectOf(gemini.request(plainRequest(more), { endpoint: endpoint(), model }).body)
  geminiRules(body)
  return body
}

const user = (text: string): Message => ({ role: 'user', parts: [{ type: 'text', text }] })
const calls = (...ids: string[]): Message => ({
  role: 'assistant',
  parts: [],
  toolCalls: ids.map((callId, index) => ({ callId, name: `tool_${index}`, json: '{"a":1}' })),
})
const result = (callId: string, text: string, isError?: boolean): Message => ({
  role: 'tool',
  callId,
  parts: [{ type: 'text', text }],
  isError,
})

function parts(body: JsonObject, turn: number): readonly JsonObject[] {
  const contents = listOf(body['contents'])[turn]
  return isObject(contents) ? listOf(contents['parts']).filter(isObject) : []
}

function listOf(value: JsonValue | undefined): readonly JsonValue[] {
  return Array.isArray(value) ? value : []
}

describe('a request to Gemini', () => {
  test.each([
    ['gemini-2.5-flash', false, '/v1beta/models/gemini-2.5-flash:generateContent'],
    ['gemini-2.5-flash', true, '/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse'],
    ['tunedModels/my one', true, '/v1beta/tunedModels/my%20one:streamGenerateContent?alt=sse'],
    ['models/gemini-x', false, '/v1beta/models/gemini-x:generateContent'],
  ])('for %s, streamed: %p, goes to %s', async (model, stream, path) => {
    const sent = gemini.request(plainRequest({ stream }), { endpoint: endpoint({ baseUrl: 'https://g' }), model })
    expect(sent.url).toBe(`https://g${path}`)
    expect(sent.headers).toEqual({ 'content-type': 'application/json', 'x-goog-api-key': 'secret-key' })
  })

  test('has contents, system instruction and generation config', async () => {
    const body = await bodyOf({
      messages: [{ role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] }, user('Hi')],
      maxOutputTokens: 7,
      stop: ['a', 'b', 'c', 'd', 'e', 'f'],
      sampling: { temperature: 1.5, topP: 0.4, seed: 3, frequencyPenalty: 1 },
    })
    expect(body).toEqual({
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
      generationConfig: {
        maxOutputTokens: 7,
        temperature: 1.5,
        topP: 0.4,
        stopSequences: ['a', 'b', 'c', 'd', 'e', 'f'],
        seed: 3,
      },
    })
  })

  test('has no empty stop sequences', async () => {
    expect(await bodyOf({ messages: [user('Hi')], stop: [''] })).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'Hi' }] }],
    })
  })

  test('names the function of a result', async () => {
    const messages = [user('Hi'), calls('x', 'y'), result('y', 'second'), result('x', 'first', true)]
    const body = await bodyOf({ messages })
    expect(parts(body, 2)).toEqual([
      { functionResponse: { id: 'y', name: 'tool_1', response: { result: 'second' } } },
      { functionResponse: { id: 'x', name: 'tool_0', response: { error: 'first' } } },
    ])
  })

  test('has unchanged schemas, without $schema', async () => {
    const parameters = {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      properties: { a: { $ref: '#/$defs/a' } },
      $defs: { a: { const: 1 } },
      additionalProperties: false,
    }
    const { $schema: _, ...schema } = parameters
    const body = await bodyOf({ tools: [{ name: 'f', description: 'd', parameters }] })
    expect(body['tools']).toEqual([
      { functionDeclarations: [{ name: 'f', description: 'd', parametersJsonSchema: schema }] },
    ])
  })

  test.each<[ChatRequest['toolChoice'], JsonValue | undefined]>([
    [undefined, undefined],
    [{ mode: 'auto' }, { mode: 'AUTO' }],
    [{ mode: 'none' }, { mode: 'NONE' }],
    [{ mode: 'required' }, { mode: 'ANY' }],
    [
      { mode: 'tool', name: 'f' },
      { mode: 'ANY', allowedFunctionNames: ['f'] },
    ],
    [
      { mode: 'allowed', names: ['f'], required: true },
      { mode: 'ANY', allowedFunctionNames: ['f'] },
    ],
    [{ mode: 'allowed', names: ['f'], required: false }, { mode: 'AUTO' }],
  ])('has the tool config of %j', async (toolChoice, config) => {
    const tools = ['f', 'g'].map((name) => ({ name, parameters: { type: 'object' } }))
    const body = await bodyOf({ tools, toolChoice })
    expect(isObject(body['toolConfig']) ? body['toolConfig']['functionCallingConfig'] : undefined).toEqual(config)
    const declared = JSON.stringify(body['tools'])
    expect(declared.includes('"g"')).toBe(!(toolChoice?.mode === 'allowed' && !toolChoice.required))
  })

  test('has images as data or by URL, and JSON mode if there are no tools', async () => {
    const image = (source: object) => ({ role: 'user', parts: [{ type: 'image', source }] }) as Message
    const data = await bodyOf({ messages: [image({ type: 'base64', mediaType: 'image/png', data: 'aGk=' })] })
    expect(parts(data, 0)).toEqual([{ inlineData: { mimeType: 'image/png', data: 'aGk=' } }])
    const address = await bodyOf({ messages: [image({ type: 'url', url: 'https://x/y.webp?z' })] })
    expect(parts(address, 0)).toEqual([{ fileData: { mimeType: 'image/webp', fileUri: 'https://x/y.webp?z' } }])
    const schema = { type: 'object' }
    const json = await bodyOf({ sampling: { responseFormat: { type: 'json_schema', json_schema: { schema } } } })
    expect(json['generationConfig']).toEqual({ responseMimeType: 'application/json', responseJsonSchema: schema })
  })
})

describe('a thought signature', () => {
  const chunk = (...calls: JsonObject[]) => ({
    candidates: [{ content: { role: 'model', parts: calls }, finishReason: 'STOP' }],
  })
  const call = (name: string, more: JsonObject = {}) => ({ functionCall: { name, args: { city: 'Oslo' } }, ...more })

  function idsOf(events: readonly StreamEvent[]): string[] {
    return events.flatMap((event) => (event.type === 'tool-start' ? [event.callId] : []))
  }

  test('is kept with its call, which gets a random id', () => {
    const signed = call('f', { thoughtSignature: 'c2lnbmVk' })
    const events = gemini.events(chunk({ ...signed, functionCall: { id: 'fc1', ...signed.functionCall } }, call('g')))
    const [first = '', second = ''] = idsOf(events)
    expect(first).toMatch(/^call_[A-Za-z0-9_-]{24}$/)
    expect(second).not.toBe(first)
    expect(events.filter(({ type }) => type === 'thought')).toEqual([
      { type: 'thought', json: '"c2lnbmVk"', on: 'call' },
    ])
  })

  test('that is unknown becomes the documented replacement, in the first call to models that require one', async () => {
    const messages = [user('Hi'), calls('a', 'b'), result('a', '1'), result('b', '2')]
    const signatures = async (model: string) =>
      parts(await bodyOf({ messages }, model), 1).map((part) => part['thoughtSignature'])
    expect(await signatures('gemini-3-pro')).toEqual(['skip_thought_signature_validator', undefined])
    expect(await signatures('gemini-2.5-pro')).toEqual([undefined, undefined])
  })
})

describe('an answer of Gemini', () => {
  test('may come whole', () => {
    const events = gemini.events({
      candidates: [
        {
          content: {
            parts: [
              { text: 'thinking', thought: true },
              { text: 'Hi' },
              { functionCall: { id: 'fc1', name: 'f', args: { a: 1 } } },
              { functionCall: { id: 'fc1', name: 'g' } },
            ],
          },
          finishReason: 'STOP',
        },
      ],
      usageMetadata: {
        promptTokenCount: 10,
        cachedContentTokenCount: 4,
        toolUsePromptTokenCount: 2,
        candidatesTokenCount: 3,
        thoughtsTokenCount: 5,
        totalTokenCount: 20,
      },
    })
    expect(events).toEqual([
      { type: 'start' },
      { type: 'reasoning', text: 'thinking' },
      { type: 'text', text: 'Hi' },
      { type: 'tool-start', index: 0, callId: 'fc1', name: 'f' },
      { type: 'tool-delta', index: 0, json: '{"a":1}' },
      { type: 'tool-start', index: 1, callId: expect.stringMatching(/^call_/), name: 'g' },
      { type: 'tool-delta', index: 1, json: '{}' },
      { type: 'usage', usage: { input: 12, cachedInput: 4, output: 8, reasoning: 5 } },
      { type: 'finish', reason: 'tool-call' },
      { type: 'end' },
    ])
  })

  test.each<[JsonValue, string]>([
    [[], 'broken'],
    [{}, 'broken'],
    [[{ candidates: [{ content: { parts: [{ text: 'half' }] } }] }], 'broken'],
    [[{ error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'x' } }], 'rate_limited'],
    [{ candidates: [{ finishReason: 'UNEXPECTED_TOOL_CALL' }] }, 'broken'],
    [{ candidates: [{ content: { parts: [{ functionCall: { args: {} } }] }, finishReason: 'STOP' }] }, 'broken'],
    [null, 'broken'],
  ])('that is malformed is an error: %j', (body, kind) => {
    expect(() => gemini.events(body)).toThrow(expect.objectContaining({ kind }))
  })

  test.each<[number, JsonObject, string, object]>([
    [400, { code: 400, message: 'API key expired. Please renew the API key.' }, 'credential', {}],
    [400, { code: 400, message: 'x', status: 'FAILED_PRECONDITION' }, 'failed', {}],
    [400, { code: 400, message: 'Invalid value at contents', status: 'INVALID_ARGUMENT' }, 'rejected', {}],
    [
      400,
      { message: 'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).' },
      'rejected',
      { code: 'context_length_exceeded' },
    ],
    [429, { message: 'x', details: [{ retryDelay: '0.25s' }] }, 'rate_limited', { retryAfterMs: 250 }],
    [403, { message: 'x', status: 'PERMISSION_DENIED' }, 'credential', {}],
  ])('under status %p with %j means %s', (status, error, kind, detail) => {
    const providerError = gemini.responseError(status, new Headers(), JSON.stringify({ error }))
    expect(providerError.kind).toBe(kind as typeof providerError.kind)
    expect(providerError.detail).toMatchObject(detail)
  })

  test('prefers a header’s delay to that of the body', () => {
    const body = JSON.stringify({ error: { message: 'x', details: [{ retryDelay: '31s' }] } })
    expect(gemini.responseError(429, new Headers({ 'retry-after': '2' }), body).detail.retryAfterMs).toBe(2000)
  })
})

describe('a call whose arguments are streamed', () => {
  type Part = JsonObject
  const started = (name: string, more: JsonObject = {}): Part => ({
    functionCall: { name, willContinue: true, ...more },
  })
  const set = (...partialArgs: readonly JsonObject[]): Part => ({ functionCall: { partialArgs, willContinue: true } })
  const ended: Part = { functionCall: {} }

  function eventsOf(...chunks: readonly (readonly Part[])[]): readonly StreamEvent[] {
    const decoder = gemini.decoder()
    const read = (parts: readonly Part[], finish?: string) =>
      decoder.decode('', JSON.stringify({ candidates: [{ content: { parts }, finishReason: finish }] }))
    const events = chunks.flatMap((parts) => [...read(parts)])
    return [...events, ...read([], 'STOP'), ...decoder.close()]
  }
  const callsIn = (events: readonly StreamEvent[]) => {
    const names = events.flatMap((event) => (event.type === 'tool-start' ? [event.name] : []))
    const json = events.flatMap((event) => (event.type === 'tool-delta' ? [event.json] : []))
    expect(events.at(-2)).toEqual({ type: 'finish', reason: 'tool-call' })
    return names.map((name, at) => [name, json[at]])
  }

  test('in values of every type, and texts that go on over chunks', () => {
    const events = eventsOf(
      [started('weather')],
      [set({ jsonPath: '$.city', stringValue: 'New ', willContinue: true })],
      [set({ jsonPath: '$.city', stringValue: 'Del', willContinue: true })],
      [set({ jsonPath: '$.city', stringValue: 'hi' }, { jsonPath: '$.days', numberValue: 3 })],
      [set({ jsonPath: '$.metric', boolValue: false }, { jsonPath: '$.none', nullValue: 'NULL_VALUE' })],
      [ended],
    )
    expect(callsIn(events)).toEqual([['weather', '{"city":"New Delhi","days":3,"metric":false,"none":null}']])
  })

  test('at places within objects and lists', () => {
    const events = eventsOf(
      [started('plan', { partialArgs: [{ jsonPath: '$.stops[0].name', stringValue: 'Oslo' }] })],
      [set({ jsonPath: '$.stops[1].name', stringValue: '', willContinue: true })],
      [set({ jsonPath: '$.stops[1].name', stringValue: 'Rome' }, { jsonPath: "$['a.b']['c']", numberValue: 1.5 })],
      [set({ jsonPath: '$.grid[1][0]', numberValue: 7 }, { jsonPath: '$["__proto__"].x', boolValue: true })],
      [ended],
    )
    expect(callsIn(events)).toEqual([
      ['plan', '{"stops":[{"name":"Oslo"},{"name":"Rome"}],"a.b":{"c":1.5},"grid":[null,[7]],"__proto__":{"x":true}}'],
    ])
  })

  test('one after the other, beside whole ones and texts', () => {
    const events = eventsOf(
      [started('a', { args: { kept: 1 } }), set({ jsonPath: '$.x', stringValue: 'y' }), ended],
      [{ text: 'Wait.' }, { functionCall: { name: 'b', args: { z: 1 } } }],
      // No end of its own.
      [started('c', { id: 'id-c' })],
      [set({ jsonPath: '$.last', numberValue: 1 })],
    )
    expect(callsIn(events)).toEqual([
      ['a', '{"kept":1,"x":"y"}'],
      ['b', '{"z":1}'],
      ['c', '{"last":1}'],
    ])
    expect(eventsOf([started('d'), { functionCall: { willContinue: false } }])).toContainEqual({
      type: 'tool-delta',
      index: 0,
      json: '{}',
    })
  })

  test.each(['', '$', '$.a[', '$.a[x]', '$.a.[0]', '$.list[9999999]', `$${'.a'.repeat(200)}`, '$..a'])(
    'not at a place that is none: %s',
    (jsonPath) => {
      expect(() => eventsOf([started('f')], [set({ jsonPath, stringValue: 'x' })])).toThrow('parts that do not fit')
    },
  )

  test('and a whole answer has them, too', () => {
    const parts = [started('w', { partialArgs: [{ jsonPath: '$.a', stringValue: 'b' }] }), ended]
    const events = gemini.events({ candidates: [{ content: { parts }, finishReason: 'STOP' }] })
    expect(callsIn(events)).toEqual([['w', '{"a":"b"}']])
  })
})

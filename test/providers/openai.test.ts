import { describe, expect, test } from 'bun:test'
import type { Completion } from '../../src/core/completion.ts'
import type { FinishReason } from '../../src/core/event.ts'
import type { JsonValue } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { acceptChat, UNPARSED } from '../../src/dialects/chat/request.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { sha256 } from '../support/bytes.ts'
import { decode, fold, textOf } from '../support/decode.ts'
import { type Fixture, fixtures } from '../support/fixtures.ts'
import type { Literal, Message } from '../support/literal.ts'
import { Random } from '../support/random.ts'
import { cuts } from '../support/streams.ts'
import { objectOf, sentText } from './conformance.ts'
import { endpoint, plainRequest } from './requests.ts'

/** The canonical reason for a provider's reason and its number of calls. */
function reasonOf(word: string | undefined, calls: number): FinishReason {
  if (word === 'length') return 'length'
  if (word === 'content_filter') return 'content-filter'
  return calls > 0 ? 'tool-call' : 'stop'
}

function checkAnswer(fixture: Fixture, completion: Completion): void {
  const wanted = fixture.expect
  if (wanted.text !== undefined) expect(completion.text).toBe(wanted.text)
  if (wanted.text_sha256 !== undefined) {
    expect(sha256(completion.text)).toBe(wanted.text_sha256)
    expect(completion.text.length).toBe(wanted.text_length_utf16 ?? -1)
  }
  const wantedCalls = wanted.tool_calls ?? []
  expect(completion.toolCalls.map(({ name }) => name)).toEqual(wantedCalls.map(({ name }) => name))
  wantedCalls.forEach(({ id, ...call }, index) => {
    const { callId, json = '' } = completion.toolCalls[index] ?? {}
    if (call.arguments !== undefined) expect(json).toBe(call.arguments || '{}')
    else expect(sha256(json)).toBe(call.arguments_sha256 ?? '')
    if (id) expect(callId).toBe(id)
    else expect(callId).toMatch(/^call_[\w-]{8,}$/)
  })
  expect(completion.refusal).toBe(wanted.refusal)
  expect(completion.reason).toBe(reasonOf(wanted.finish_reason ?? undefined, wantedCalls.length))
  if (wanted.usage !== undefined) {
    expect(completion.usage.input).toBe(wanted.usage['prompt_tokens'])
    expect(completion.usage.output).toBe(wanted.usage['completion_tokens'])
  }
}

describe('a recorded stream gives what its manifest states, at every cut', () => {
  for (const fixture of fixtures('openai/')) {
    if (fixture.content_type !== 'text/event-stream') continue
    test(`${fixture.file}: ${fixture.note}`, () => {
      for (const { chunks } of cuts(fixture.bytes, new Random(1))) {
        const { events, error } = decode(openai, chunks)
        if (fixture.expect.terminal) {
          expect(error).toBeUndefined()
          checkAnswer(fixture, fold(events))
        } else {
          expect(error).toBeInstanceOf(ProviderError)
          expect(events.some((event) => event.type === 'end')).toBe(false)
          expect(textOf(events)).toBe(fixture.expect.text ?? '')
        }
      }
    })
  }
})

describe('a request', () => {
  const sent = async (more: Partial<Literal>) =>
    objectOf(openai.request(plainRequest(more), { endpoint: endpoint(), model: 'm' }).body)
  const user = (text: string, ttl?: '5m' | '1h'): Message => ({
    role: 'user',
    parts: [{ type: 'text', text, cache: { ttl } }],
  })

  test('has every stop sequence; a server that takes fewer rejects them', async () => {
    const stop = ['a', 'b', 'c', 'd', 'e', 'f']
    expect((await sent({ stop }))['stop']).toEqual(stop)
  })

  test('has no cache mark of 1h after one of 5m, in the order in which providers read', async () => {
    const ttls = async (more: Partial<Literal>) =>
      [...JSON.stringify(await sent(more)).matchAll(/"type":"ephemeral"(?:,"ttl":"(\w+)")?/g)].map(([, ttl]) => ttl)
    const tool = { name: 'f', parameters: {}, cache: { ttl: '1h' } } as const
    const system = { role: 'system', parts: [{ type: 'text', text: 's', cache: { ttl: '1h' } }] } as const
    // The body has the messages before the tools, but the provider reads the tools first.
    expect(await ttls({ messages: [user('a', '5m'), user('b', '1h')], tools: [tool] })).toEqual(['5m', '5m', '1h'])
    expect(await ttls({ messages: [user('a'), user('b', '1h')], tools: [tool] })).toEqual([undefined, '5m', '1h'])
    expect(await ttls({ messages: [user('a', '5m'), system] })).toEqual(['5m', '1h'])
    expect(await ttls({ messages: [user('a', '1h'), user('b', '5m')], cache: { ttl: '1h' } })).toEqual([
      '1h',
      '5m',
      '5m',
    ])
    const plain: Message = { role: 'user', parts: [{ type: 'text', text: 'x' }] }
    const short = { ...tool, cache: { ttl: '5m' } } as const
    expect(await ttls({ messages: [plain, system], tools: [short] })).toEqual(['5m', '5m'])
  })
})

/** A whole answer of a provider with this message. */
function body(message: JsonValue, finish: string | null = 'stop'): JsonValue {
  return { choices: [{ index: 0, message, finish_reason: finish }], usage: { prompt_tokens: 3, completion_tokens: 2 } }
}

function call(index: number | undefined, id: string, name: string, args: JsonValue): JsonValue {
  return { ...(index === undefined ? {} : { index }), id, type: 'function', function: { name, arguments: args } }
}

describe('a whole body', () => {
  test('gives the same events as a stream', () => {
    const completion = fold(openai.events(body({ role: 'assistant', content: 'Hello' })))
    expect(completion).toMatchObject({ text: 'Hello', reason: 'stop', usage: { input: 3, output: 2 } })
  })

  test('numbers parallel calls by position, with arguments as text, as an object and empty', () => {
    const calls = [
      call(undefined, 'a', 'f', '{"x":1}'),
      call(undefined, 'b', 'f', { y: 2 }),
      call(undefined, 'c', 'g', ''),
    ]
    const completion = fold(openai.events(body({ content: null, tool_calls: calls })))
    expect(completion.toolCalls.map(({ callId, json }) => [callId, json])).toEqual([
      ['a', '{"x":1}'],
      ['b', '{"y":2}'],
      ['c', '{}'],
    ])
    expect(completion.reason).toBe('tool-call')
  })

  test('passes logprobs and a refusal on', () => {
    const logprobs = { content: [{ token: 'Hi', logprob: -0.1 }] }
    const choice = { index: 0, message: { content: 'Hi', refusal: 'No.' }, logprobs, finish_reason: 'stop' }
    const completion = fold(openai.events({ choices: [choice] }))
    expect(completion.logprobs).toEqual([logprobs])
    expect(completion.refusal).toBe('No.')
    expect(completion.usage).toEqual({})
  })

  test.each<[JsonValue]>([[null], ['none'], [0], [[]]])('no logprobs out of %j', (logprobs) => {
    const choice = { index: 0, message: { content: 'Hi' }, logprobs, finish_reason: 'stop' }
    expect(fold(openai.events({ choices: [choice] })).logprobs).toBeUndefined()
  })

  const broken: readonly (readonly [string, JsonValue])[] = [
    ['an array', []],
    ['text', 'hello'],
    ['no choices', { id: 'x' }],
    ['empty choices', { choices: [] }],
    ['a choice without a message', { choices: [{ index: 0 }] }],
    ['an error under status 200', { error: { message: 'overloaded', type: 'server_error' } }],
    ['a flat error', { object: 'error', message: 'no', code: 400 }],
    ['a call without a name', body({ tool_calls: [call(undefined, 'a', '', '{}')] })],
  ]
  for (const [name, value] of broken) {
    test(`${name} is an error`, () => {
      expect(() => openai.events(value)).toThrow(ProviderError)
    })
  }
})

describe('calls of servers with their own numbering', () => {
  const frames = (...deltas: readonly JsonValue[]) =>
    [
      ...deltas.map((delta) => JSON.stringify({ choices: [{ index: 0, delta }] })),
      '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
      '[DONE]',
    ]
      .map((data) => `data: ${data}\n\n`)
      .join('')
  const calls = (...deltas: readonly JsonValue[]) => {
    const { events, error } = decode(openai, [new TextEncoder().encode(frames(...deltas))])
    expect(error).toBeUndefined()
    return fold(events).toolCalls.map(({ callId, name, json }) => [callId, name, json])
  }

  test('index 0 for every call, distinguished by id', () => {
    const deltas = [{ tool_calls: [call(0, 'a', 'f', '{"n":1}')] }, { tool_calls: [call(0, 'b', 'f', '{"n":2}')] }]
    expect(calls(...deltas)).toEqual([
      ['a', 'f', '{"n":1}'],
      ['b', 'f', '{"n":2}'],
    ])
  })

  test('the name first, the id later', () => {
    const deltas = [
      { tool_calls: [{ index: 0, function: { name: 'f' } }] },
      { tool_calls: [{ index: 0, id: 'a', function: { arguments: '{}' } }] },
    ]
    expect(calls(...deltas)).toEqual([['a', 'f', '{}']])
  })

  test('two calls of one id get different ones', () => {
    const [first, second] = calls({ tool_calls: [call(0, 'a', 'f', '{"n":1}'), call(1, 'a', 'g', '{"n":2}')] })
    expect(first?.[0]).toBe('a')
    expect(second?.[0]).toMatch(/^call_/)
  })

  test('no index and no id: another name, or whole arguments, begin another call', () => {
    const made = calls(
      { tool_calls: [{ function: { name: 'f', arguments: '{"n":1}' } }] },
      { tool_calls: [{ function: { name: 'f', arguments: '{"n":2}' } }] },
      { tool_calls: [{ function: { name: 'g', arguments: '{}' } }] },
    )
    expect(made.map(([, name, json]) => [name, json])).toEqual([
      ['f', '{"n":1}'],
      ['f', '{"n":2}'],
      ['g', '{}'],
    ])
  })
})

describe('a cache mark', () => {
  const marked = { cache_control: { type: 'ephemeral' } }
  const a = { type: 'text', text: 'a' } as const
  const b = { type: 'text', text: 'b' } as const
  const rows: readonly (readonly [name: string, message: Message, content: JsonValue])[] = [
    ['nowhere', { role: 'system', parts: [a, b] }, 'a\nb'],
    [
      'on the last text',
      { role: 'system', parts: [a, { ...b, cache: {} }] },
      [{ type: 'text', text: 'a\nb', ...marked }],
    ],
    [
      'in between',
      { role: 'system', parts: [a, { ...b, cache: {} }, a, b] },
      [
        { type: 'text', text: 'a\nb', ...marked },
        { type: 'text', text: '\na\nb' },
      ],
    ],
    [
      'on a result',
      { role: 'tool', callId: 'c', parts: [a, b], cache: {} },
      [{ type: 'text', text: 'a\nb', ...marked }],
    ],
    ['on an empty result', { role: 'tool', callId: 'c', parts: [], cache: {} }, ''],
  ]
  test.each(rows)('%s: the text is split only after it', async (_, message, content) => {
    const { body } = openai.request(plainRequest({ messages: [message] }), { endpoint: endpoint(), model: 'm' })
    expect(JSON.parse(sentText(body)).messages[0].content).toEqual(content)
  })
})

describe('padding of stream events', () => {
  const optionsAt = (baseUrl: string, padStream?: boolean) => {
    const request = plainRequest({ stream: true, hints: { padStream } })
    const { body } = openai.request(request, { endpoint: endpoint({ baseUrl }), model: 'm' })
    return JSON.parse(sentText(body)).stream_options
  }

  test.each([
    ['https://api.openai.com/v1', undefined, { include_usage: true, include_obfuscation: false }],
    ['https://eu.api.openai.com/v1', undefined, { include_usage: true, include_obfuscation: false }],
    ['https://api.openai.com/v1', true, { include_usage: true, include_obfuscation: true }],
    ['https://api.openai.com.test/v1', undefined, { include_usage: true }],
    ['https://api.groq.com/openai/v1', true, { include_usage: true }],
    ['http://127.0.0.1:8000/v1', undefined, { include_usage: true }],
  ])('%s', (baseUrl, padStream, options) => {
    expect(optionsAt(baseUrl, padStream)).toEqual(options)
  })
})

describe('tools that take a text', () => {
  const grammar = { type: 'grammar', grammar: { syntax: 'regex', definition: 'a+' } }
  const tool = { type: 'custom', custom: { name: 'f', format: grammar } }
  const call = { id: 'call_1', type: 'custom', custom: { name: 'f', input: '"a" \\ é😀' } }
  const body = {
    ...{ model: 'm', tools: [tool], tool_choice: { type: 'custom', custom: { name: 'f' } } },
    messages: [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
    ],
  }
  const read = readRequestBody(Buffer.from(JSON.stringify(body)), UNPARSED)
  const { request } = acceptChat(read, { imageUrls: 'public', takesFree: true })
  const sentTo = (baseUrl: string, model: string) =>
    JSON.parse(sentText(openai.request(request, { endpoint: endpoint({ baseUrl, api: 'chat' }), model }).body))

  test.each(['gpt-5', 'gpt-5.4-mini', 'ft:gpt-5:me'])('go to %s of OpenAI as they came', (model) => {
    const sent = sentTo('https://api.openai.com/v1', model)
    expect([sent.tools, sent.tool_choice]).toEqual([[tool], body.tool_choice])
    expect(sent.messages).toEqual(body.messages)
  })

  test.each(['chat', 'responses'] as const)('have only members that the API knows: %s', (api) => {
    const odd = { odd: 1, cache_control: { type: 'ephemeral' } }
    const format = { ...grammar, odd: 1, grammar: { ...grammar.grammar, odd: 1 } }
    const tools = [
      { ...odd, type: 'custom', custom: { ...odd, name: 'f', description: null, format } },
      { type: 'custom', custom: { name: 'g', description: 'd', format: null } },
    ]
    const { request } = acceptChat(readRequestBody(Buffer.from(JSON.stringify({ ...body, tools })), UNPARSED), {
      ...{ imageUrls: 'public', takesFree: true },
    })
    // As for a model whose prompt cache has no marks.
    const unmarked = { ...request, tools: request.tools.remarked(() => undefined) }
    const target = { endpoint: endpoint({ baseUrl: 'https://api.openai.com/v1', api }), model: 'gpt-5' }
    const isChat = api === 'chat'
    const flat = { type: 'grammar', syntax: 'regex', definition: 'a+' }
    const wrap = (custom: object) => (isChat ? { type: 'custom', custom } : { type: 'custom', ...custom })
    expect(JSON.parse(sentText(openai.request(unmarked, target).body)).tools).toEqual([
      wrap({ name: 'f', format: isChat ? grammar : flat }),
      wrap({ name: 'g', description: 'd' }),
    ])
    expect(JSON.parse(sentText(openai.request(request, target).body)).tools[0].cache_control).toEqual(odd.cache_control)
  })

  test.each([
    ['https://api.openai.com/v1', 'gpt-4o'],
    ['http://127.0.0.1:8000/v1', 'gpt-5'],
  ])('are functions at %s for %s', (baseUrl, model) => {
    const sent = sentTo(baseUrl, model)
    expect([sent.tools[0].type, sent.tool_choice]).toEqual(['function', { type: 'function', function: { name: 'f' } }])
    expect(JSON.parse(sent.messages[1].tool_calls[0].function.arguments)).toEqual({ input: call.custom.input })
  })

  test('come back as calls of functions of one text', () => {
    const whole = { choices: [{ message: { role: 'assistant', tool_calls: [call] }, finish_reason: 'tool_calls' }] }
    const { toolCalls } = fold(openai.events(whole))
    expect(toolCalls.map(({ json }) => JSON.parse(json))).toEqual([{ input: call.custom.input }])
    const chunk = (custom: object, more: object = {}) => ({
      choices: [{ delta: { tool_calls: [{ index: 0, ...more, custom }] }, finish_reason: null }],
    })
    const decoder = openai.decoder()
    const chunks = [chunk({ name: 'f', input: '' }, { id: 'call_1', type: 'custom' }), chunk({ input: '"a" ' })]
    const last = { choices: [{ delta: {}, finish_reason: 'tool_calls' }] }
    const frames = [...chunks, chunk({ input: '\\ é\ud83d' }), chunk({ input: '\ude00' }), last]
    const read = frames.flatMap((frame) => decoder.read('', JSON.parse(JSON.stringify(frame))))
    const events = [...read, ...decoder.close()]
    const json = events.map((event) => (event.type === 'tool-delta' ? event.json : '')).join('')
    expect(JSON.parse(json)).toEqual({ input: call.custom.input })
  })
})

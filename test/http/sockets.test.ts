/** The Responses API over WebSocket: turns of a real client against weir and a provider over bare TCP. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { ResponsesWS } from 'openai/resources/responses/ws'
import type { JsonObject } from '../../src/core/json.ts'
import { ConversationMemory } from '../../src/http/conversation-memory.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { SocketClient } from '../support/socket-client.ts'
import { type Call, Upstream } from '../support/upstream.ts'

const [role = '', hello = ''] = does.chatFrames(['Hello'])

let upstream: Upstream
let weir: Serving
/** What the provider was asked, in order. */
const asked: JsonObject[] = []

beforeAll(async () => {
  const noted = (scenario: (call: Call) => void | Promise<void>) => (call: Call) => {
    asked.push(call.json)
    return scenario(call)
  }
  upstream = await Upstream.start({
    answers: noted(does.answersText('Hel', 'lo')),
    stalls: noted(does.stalls([role, hello])),
    breaks: noted(does.resets([role, hello])),
    rejects: noted(does.json(400, '{"error":{"message":"no"}}')),
    limits: noted(does.json(429, '{"error":{"message":"slow down"}}', { 'retry-after': '7' })),
  })
  const names = ['answers', 'stalls', 'breaks', 'rejects', 'limits']
  const models = Object.fromEntries(names.map((name) => [name, [`up/${name}`]]))
  weir = new Serving({ providers: { up: upstream.url }, models })
})

afterAll(async () => {
  await weir[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const connect = (key?: string) => SocketClient.open(weir.port, key === undefined ? KEY : key)
const create = (more: JsonObject): JsonObject => ({ type: 'response.create', model: 'answers', input: 'hi', ...more })
const typesOf = (frames: readonly JsonObject[]) => frames.map(({ type }) => type)
const idOf = (frames: readonly JsonObject[]) => String(Object(frames.at(-1)?.['response'])['id'])

describe('a handshake', () => {
  test('with either header is accepted, with a request id', async () => {
    for (const headers of [{ authorization: `Bearer ${KEY}` }, { 'x-api-key': KEY }]) {
      const answer = await SocketClient.handshake(weir.port, headers)
      expect([answer.status, typeof answer.headers.get('x-request-id')]).toEqual([101, 'string'])
    }
  })

  test('without a valid key is refused by an HTTP answer', async () => {
    expect(await SocketClient.handshake(weir.port, { authorization: 'Bearer unknown-key-0123456789' })).toMatchObject({
      status: 401,
    })
  })

  test('at another path is refused by 426, and a plain GET by 405', async () => {
    const headers = { authorization: `Bearer ${KEY}` }
    expect((await SocketClient.handshake(weir.port, headers, '/v1/chat/completions')).status).toBe(426)
    const plain = await fetch(`http://127.0.0.1:${weir.port}/v1/responses`, { headers })
    expect([plain.status, plain.headers.get('allow')]).toEqual([405, 'POST'])
  })
})

describe('a turn', () => {
  test('has the events of a POST, one a frame, and in_progress', async () => {
    await using client = await connect()
    const frames = await client.turn(create({ stream: true }))
    expect(typesOf(frames)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ])
    expect(frames.map(({ sequence_number }) => sequence_number)).toEqual(frames.map((_, index) => index))
    expect(frames.some((frame) => 'stream_id' in frame)).toBe(false)
    const gateway = { requested_model: 'answers', served_model: 'answers', fallback_count: 0 }
    expect(frames[0]).toMatchObject({ gateway })
    expect(frames.at(-1)).toMatchObject({ gateway })
  })

  test('that continues another one gives the provider the whole conversation', async () => {
    await using client = await connect()
    const first = await client.turn(create({ input: 'one' }))
    const second = await client.turn(create({ input: 'two', previous_response_id: idOf(first) }))
    expect(second.at(-1)).toMatchObject({ response: { previous_response_id: idOf(first) } })
    expect(asked.at(-1)?.['messages']).toEqual([
      { role: 'user', content: 'one' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'two' },
    ])
    const list = [{ type: 'message', role: 'user', content: 'three' }]
    await client.turn(create({ input: list, previous_response_id: idOf(second) }))
    expect(Object(asked.at(-1)?.['messages']).length).toBe(5)
  })

  test('that continues what its connection does not have gets that as an error', async () => {
    await using client = await connect()
    const first = await client.turn(create({}))
    await using other = await connect()
    const [error] = await other.turn(create({ previous_response_id: idOf(first) }))
    expect(error).toMatchObject({
      type: 'error',
      status: 400,
      error: { code: 'previous_response_not_found', param: 'previous_response_id', type: 'invalid_request_error' },
    })
    expect((await other.turn(create({}))).at(-1)?.['type']).toBe('response.completed')
  })

  test('that fails in its own lane takes with it what it continued, a fork does not', async () => {
    await using client = await connect()
    const first = await client.turn(create({}))
    const continued = { previous_response_id: idOf(first) }
    const orphan = [{ type: 'function_call_output', call_id: 'call_none', output: 'x' }]
    const [fork] = await client.turn(create({ ...continued, input: orphan, stream_id: 'fork' }))
    expect(fork).toMatchObject({ status: 400, stream_id: 'fork', error: { param: 'input[0].call_id' } })
    expect((await client.turn(create({ ...continued, stream_id: 'good' }))).at(-1)?.['type']).toBe('response.completed')
    const [own] = await client.turn(create({ ...continued, input: orphan }))
    expect(own).toMatchObject({ status: 400 })
    const [gone] = await client.turn(create(continued))
    expect(gone).toMatchObject({ error: { code: 'previous_response_not_found' } })
  })

  test('that warms up asks no provider and can be continued', async () => {
    await using client = await connect()
    const before = [asked.length, weir.ledger.reserved.length]
    const frames = await client.turn(create({ input: 'warm', generate: false }))
    expect(typesOf(frames)).toEqual(['response.created', 'response.completed'])
    expect(frames.at(-1)).toMatchObject({ response: { output: [], usage: { total_tokens: 0 } } })
    expect([asked.length, weir.ledger.reserved.length]).toEqual(before)
    await client.turn(create({ input: 'go', previous_response_id: idOf(frames) }))
    expect(asked.at(-1)?.['messages']).toEqual([
      { role: 'user', content: 'warm' },
      { role: 'user', content: 'go' },
    ])
    const [unknown] = await client.turn(create({ model: 'nothing', generate: false }))
    expect(unknown).toMatchObject({ status: 404, error: { code: 'model_not_found' } })
  })

  test('that breaks off ends in response.failed, and the connection goes on', async () => {
    await using client = await connect()
    const frames = await client.turn(create({ model: 'breaks' }))
    expect(frames.at(-1)).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'server_error' } },
    })
    expect((await client.turn(create({}))).at(-1)?.['type']).toBe('response.completed')
  })

  test('that fails before its content is an error with the headers of the answer to a POST', async () => {
    await using client = await connect()
    const [rejected] = await client.turn(create({ model: 'rejects' }))
    expect(rejected).toMatchObject({ type: 'error', status: 400, error: { type: 'invalid_request_error' } })
    const [limited] = await client.turn(create({ model: 'limits' }))
    expect(limited?.['status']).toBe(429)
    expect(limited?.['headers']).toEqual(Object(limited?.['error']).headers)
    expect(limited?.['headers']).toHaveProperty('retry-after')
  })

  test('is aborted at its provider when the caller leaves', async () => {
    const client = await connect()
    client.send(create({ model: 'stalls' }))
    await client.frameOf('response.output_text.delta')
    await client[Symbol.asyncDispose]()
    await weir.idle()
    expect(weir.lines.at(-1)).toMatchObject({ outcome: 'caller_left' })
    expect(weir.ledger.wrong).toEqual([])
  })
})

test('lanes run side by side, and one turn of a lane after the other', async () => {
  await using client = await connect()
  client.send(create({ model: 'stalls', stream_id: 'a' }))
  await client.frameOf('response.output_text.delta')
  client.send(create({ stream_id: 'a' }))
  const frames = await client.turn(create({ stream_id: 'b' }))
  expect(frames.every(({ stream_id }) => stream_id === 'b')).toBe(true)
  expect(client.all.filter(({ type, stream_id }) => type === 'response.created' && stream_id === 'a')).toHaveLength(1)
})

test.each([
  ['no JSON', '{', { status: 400, error: { code: 'invalid_json' } }],
  ['a list', '[]', { status: 400, error: { code: 'invalid_json' } }],
  ['binary', new Uint8Array([1, 2]), { status: 400, error: { code: 'invalid_json' } }],
  ['of an unknown type', '{"type":"x"}', { status: 400, error: { code: 'unsupported_event_type', param: 'type' } }],
  ['for a lane of no name', '{"type":"response.create","stream_id":""}', { error: { code: 'invalid_stream_id' } }],
  ['that steers', '{"type":"response.steer","input":"x"}', { error: { code: 'steering_not_supported' } }],
])('a frame that is %s is answered, and the connection stays open', async (_, data, answer) => {
  await using client = await connect()
  client.raw(data)
  expect(await client.next()).toMatchObject(answer)
  expect((await client.turn(create({}))).at(-1)?.['type']).toBe('response.completed')
})

test('while the worker drains, idle sockets are closed, and no turn is begun', async () => {
  const own = new Serving({
    providers: { up: upstream.url },
    models: { answers: ['up/answers'], stalls: ['up/stalls'] },
  })
  await using idle = await SocketClient.open(own.port, KEY)
  await using busy = await SocketClient.open(own.port, KEY)
  busy.send(create({ model: 'stalls' }))
  await busy.frameOf('response.output_text.delta')
  busy.send(create({}))
  own.service.app.sockets.leave()
  expect(await idle.closed).toBe(1012)
  expect(await busy.frameOf('error')).toMatchObject({ status: 503, error: { code: 'shutting_down' } })
  own.service.state.inFlight.cut('drained')
  expect(await busy.frameOf('response.failed')).toMatchObject({ response: { error: { code: 'server_error' } } })
  expect(await busy.closed).toBe(1012)
  await own[Symbol.asyncDispose]()
})

test('a caller that reads slowly gets every frame', async () => {
  const texts = Array.from({ length: 400 }, (_, index) => `${index} ${'x'.repeat(20_000)}`)
  await using large = await Upstream.start({ large: does.answersText(...texts) })
  const own = new Serving({ providers: { up: large.url }, models: { large: ['up/large'] } })
  const frames = await SocketClient.readSlowly(own.port, KEY, create({ model: 'large' }))
  const received = frames.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta)
  expect(received).toEqual(texts)
  expect(frames.at(-1)?.['type']).toBe('response.completed')
  await own[Symbol.asyncDispose]()
})

test('an organization keeps no more than its share, and forgets the oldest first', () => {
  const memory = new ConversationMemory(10)
  const forgotten: string[] = []
  const one = (id: string, bytes: number) => {
    return { id, input: Buffer.alloc(0), output: '', bytes, forget: () => void forgotten.push(id) }
  }
  const [a, b, c, large] = [one('a', 4), one('b', 4), one('c', 4), one('large', 11)]
  memory.keep('acme', a)
  memory.keep('acme', b)
  memory.used('acme', a)
  memory.keep('other', one('d', 10))
  memory.keep('acme', c)
  expect([forgotten, memory.bytes]).toEqual([['b'], 18])
  memory.drop('acme', a)
  memory.keep('acme', large)
  expect([forgotten, memory.bytes]).toEqual([['b', 'c', 'large'], 10])
})

test('the lines of turns and of the socket name it', async () => {
  await weir.idle() // the turns that the tests before have left
  const client = await connect()
  const before = weir.lines.length
  await client.turn(create({}))
  await weir.idle()
  await client[Symbol.asyncDispose]()
  const [turn, end] = weir.lines.slice(before)
  expect(turn).toMatchObject({ msg: 'request', transport: 'websocket', outcome: 'completed' })
  expect(end).toMatchObject({ event: 'socket.closed', turns: 1, code: 1005, socket: String(turn?.['socket']) })
})

test('a key that is revoked ends running turns and the socket', async () => {
  const own = new Serving({ providers: { up: upstream.url }, models: { stalls: ['up/stalls'] } })
  await using busy = await SocketClient.open(own.port, KEY)
  busy.send(create({ model: 'stalls' }))
  await busy.frameOf('response.output_text.delta')
  const { current } = own.service.state
  own.service.state.current = { ...current, gateway: { ...current.gateway, isRevoked: () => true } }
  expect(await busy.frameOf('response.failed')).toMatchObject({ response: { error: { code: 'server_error' } } })
  expect(await busy.frameOf('error')).toMatchObject({ status: 401, error: { code: 'invalid_api_key' } })
  expect(await busy.closed).toBe(1008)
  await own.idle()
  expect(own.ledger.wrong).toEqual([])
  await own[Symbol.asyncDispose]()
})

test("the official SDK's socket has a conversation", async () => {
  const openai = new OpenAI({ apiKey: KEY, baseURL: `http://127.0.0.1:${weir.port}/v1` })
  const socket = new ResponsesWS(openai)
  const completed = async (): Promise<string> => {
    for await (const event of socket) {
      if (event.type === 'error') throw event.error
      if (event.type === 'message' && event.message.type === 'response.completed') return event.message.response.id
    }
    throw new Error('the socket closed')
  }
  const first = completed()
  socket.send({ type: 'response.create', model: 'answers', input: 'one' })
  const id = await first
  const second = completed()
  socket.send({ type: 'response.create', model: 'answers', input: 'two', previous_response_id: id })
  await second
  expect(asked.at(-1)?.['messages']).toHaveLength(3)
  socket.close()
})

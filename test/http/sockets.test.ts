/** The Responses API over WebSocket: turns of a real client against weir and a provider over bare TCP. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { ResponsesWS } from 'openai/resources/responses/ws'
import type { JsonObject } from '../../src/core/json.ts'
import { ContinuationMemory } from '../../src/http/continuation-memory.ts'
import { NO_INPUT } from '../../src/http/continued-body.ts'
import type { SocketConnection } from '../../src/http/socket-connection.ts'
import { KEY } from '../support/gateway.ts'
import { IDLE_GAUGES } from '../support/gauges.ts'
import * as does from '../support/scenarios.ts'
import { lasting, lastingUpstream } from '../support/served.ts'
import { Serving } from '../support/serving.ts'
import { fragments, frame, PING, RawSocket, SocketClient, TEXT } from '../support/socket-client.ts'
import { type Call, Upstream } from '../support/upstream.ts'

const [role = '', hello = ''] = does.chatFrames(['Hello'])

/** What the provider was asked, in order. */
const asked: JsonObject[] = []

const noted = (scenario: (call: Call) => void | Promise<void>) => (call: Call) => {
  asked.push(call.json)
  return scenario(call)
}
const upstream = await lastingUpstream({
  answers: noted(does.answersText('Hel', 'lo')),
  stalls: noted(does.stalls([role, hello])),
  breaks: noted(does.resets([role, hello])),
  rejects: noted(does.json(400, '{"error":{"message":"no"}}')),
  silent: does.silent(),
  limits: noted(does.json(429, '{"error":{"message":"slow down"}}', { 'retry-after': '7' })),
})
const names = ['answers', 'stalls', 'breaks', 'rejects', 'limits']
const models = Object.fromEntries(names.map((name) => [name, [`up/${name}`]]))
const weir = lasting(new Serving({ providers: { up: upstream.url }, models }))

/** The connections of a worker. */
const open = (serving: Serving): Set<SocketConnection> => Reflect.get(serving.service.app.sockets, 'open')

/** Why its sockets ended, in order: of the last lines of each. */
const reasonsOf = ({ lines }: Serving) =>
  lines.flatMap(({ reason, event }) => (event === 'socket.closed' ? [reason] : []))

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await Bun.sleep(1)
}

const TAGGED = { tags: ['team'] }
const OTHER = { id: 'other', keys: [{ id: 'other', key: 'other-key-0123456789' }] }
const connect = (key?: string) => SocketClient.open(weir.port, key === undefined ? KEY : key)
const create = (more: JsonObject): JsonObject => ({ type: 'response.create', model: 'answers', input: 'hi', ...more })
const typesOf = (frames: readonly JsonObject[]) => frames.map(({ type }) => type)
const idOf = (frames: readonly JsonObject[]) => String(Object(frames.at(-1)?.['response'])['id'])

describe('a handshake', () => {
  const bearer = { authorization: `Bearer ${KEY}` }

  test.each([
    ['either header', bearer],
    ['either header', { 'x-api-key': KEY }],
    ['a query, an origin and the headers of clients', { ...bearer, origin: 'https://example.com', 'openai-beta': 'x' }],
    ['an offer of compression', { ...bearer, 'sec-websocket-extensions': 'permessage-deflate' }],
    ['a content type', { ...bearer, 'content-type': 'multipart/form-data; boundary=x' }],
  ])('with %s is accepted, with a request id', async (_, headers) => {
    using raw = await RawSocket.open(weir.port, headers, '/v1/responses?model=x')
    expect([raw.status, raw.headers.get('x-request-id') === null]).toEqual([101, false])
    expect(raw.headers.get('sec-websocket-extensions')).toBeNull()
    raw.send(create({}))
    expect((await raw.turn()).at(-1)?.['type']).toBe('response.completed')
  })

  test('names the protocol that it was offered', async () => {
    using raw = await RawSocket.open(weir.port, { ...bearer, 'sec-websocket-protocol': 'openai-beta.responses.v1' })
    expect(raw.headers.get('sec-websocket-protocol')).toBe('openai-beta.responses.v1')
  })

  test.each([
    ['an unknown key', { authorization: 'Bearer unknown-key-0123456789' }, 401, 'invalid_api_key'],
    ['no key', {}, 401, 'invalid_api_key'],
    ['two credentials', { ...bearer, 'x-api-key': KEY }, 400, 'multiple_credentials'],
  ])('with %s is refused by an HTTP answer', async (_, headers, status, code) => {
    using raw = await RawSocket.open(weir.port, headers)
    const body = await raw.rest()
    expect([raw.status, JSON.parse(body).error.code]).toEqual([status, code])
  })

  test('of another version is 426, which names the version', async () => {
    using raw = await RawSocket.open(weir.port, { ...bearer, 'sec-websocket-version': '8' })
    expect([raw.status, raw.headers.get('sec-websocket-version')]).toEqual([426, '13'])
    expect(raw.headers.get('x-request-id')).toStartWith('req_')
    expect(JSON.parse(await raw.rest()).error.code).toBe('upgrade_required')
  })

  test('at another path is refused by 426, and a plain GET by 405', async () => {
    using raw = await RawSocket.open(weir.port, bearer, '/v1/chat/completions')
    expect(raw.status).toBe(426)
    const plain = await fetch(`http://127.0.0.1:${weir.port}/v1/responses`, { headers: bearer })
    expect([plain.status, plain.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test('beyond the sockets of its key, organization or worker is refused, and has room after a close', async () => {
    const keys = [
      { id: 'one', key: 'key-one-0123456789', limits: { sockets: 1 } },
      { id: 'two', key: 'key-two-0123456789' },
    ]
    const own = new Serving({
      providers: { up: upstream.url },
      config: { listen: { worker_sockets: 3 }, organizations: [{ id: 'acme', limits: { sockets: 2 }, keys }, OTHER] },
    })
    const answers = async (key: string) => {
      const raw = await RawSocket.with(own.port, key)
      const body = raw.status === 101 ? '' : await raw.rest()
      return { raw, answer: [raw.status, raw.headers.get('retry-after'), body && JSON.parse(body).error.code] }
    }
    const first = await answers('key-one-0123456789')
    expect(first.answer).toEqual([101, null, ''])
    expect((await answers('key-one-0123456789')).answer).toEqual([429, '1', 'rate_limit_exceeded'])
    await answers('key-two-0123456789')
    expect((await answers('key-two-0123456789')).answer).toEqual([429, '1', 'rate_limit_exceeded'])
    await answers('other-key-0123456789')
    expect((await answers('other-key-0123456789')).answer).toEqual([503, '1', 'overloaded'])
    first.raw[Symbol.dispose]()
    await until(() => own.lines.some(({ event }) => event === 'socket.closed'))
    expect((await answers('key-one-0123456789')).answer).toEqual([101, null, ''])
    await own[Symbol.asyncDispose]()
  })

  test('where sockets are off is 426, as of a gateway that has none', async () => {
    const own = new Serving({ providers: { up: upstream.url }, config: { responses: { websockets: false } } })
    using raw = await RawSocket.with(own.port, KEY)
    expect(raw.status).toBe(426)
    await own[Symbol.asyncDispose]()
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
    const { headers } = Object(frames[0]?.['gateway'])
    expect(await weir.lineOf(headers['x-request-id'])).toMatchObject({ outcome: 'completed', transport: 'websocket' })
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

  test('finds calls and results by what their names mean, also if letters are escaped', async () => {
    await using client = await connect()
    const escaped = (frame: JsonObject) =>
      JSON.stringify(frame).replace(/call_id|call_output/g, (name) => name.replace('_', '\\u005f'))
    const result = (call_id: string) => [{ type: 'function_call_output', call_id, output: 'x' }]
    const last = async (frame: JsonObject): Promise<JsonObject> => {
      client.raw(escaped(frame))
      for (;;) {
        const one = await client.next()
        if (one['type'] === 'error' || one['type'] === 'response.completed') return one
      }
    }
    const call = { type: 'function_call', call_id: 'call_1', name: 'f', arguments: '{}' }
    const first = await last(create({ generate: false, input: [call] }))
    const continued = create({ previous_response_id: Object(first['response']).id, stream_id: 'fork' })
    expect(await last({ ...continued, input: result('call_1') })).toMatchObject({ type: 'response.completed' })
    expect(await last({ ...continued, input: result('call_2') })).toMatchObject({ status: 400 })
  })

  test('that warms up asks no provider and can be continued', async () => {
    await using client = await connect()
    const before = [asked.length, weir.ledger.reserved.length]
    const frames = await client.turn(create({ input: 'warm', generate: false }))
    expect(typesOf(frames)).toEqual(['response.created', 'response.completed'])
    const gateway = { requested_model: 'answers', served_model: 'answers', fallback_count: 0 }
    expect(frames[0]).toMatchObject({ gateway })
    expect(frames.at(-1)).toMatchObject({ gateway, response: { output: [], usage: { total_tokens: 0 } } })
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

  test.each([
    ['has no effect', { stream: false, stream_options: 5, background: true, client_metadata: { a: 1 } }],
    ['is absent if null', { stream_id: null, previous_response_id: null, generate: null }],
  ])('with a member that %s', async (_, members) => {
    await using client = await connect()
    client.send(create(members))
    const last = await client.frameOf('response.completed')
    expect(last).toMatchObject({ response: { background: false } })
    expect('stream_id' in last).toBe(false)
  })

  test.each([
    ['a forbidden field', { metadata: {} }, 400, 'forbidden_field'],
    ['no input', { input: undefined }, 400, 'missing_required_parameter'],
    ['no model', { model: undefined }, 400, 'missing_required_parameter'],
    ['a lane that is no text', { stream_id: 7 }, 400, 'invalid_stream_id'],
    ['a lane of other letters', { stream_id: 'ä' }, 400, 'invalid_stream_id'],
    ['a reference that is no text', { previous_response_id: 7 }, 400, 'invalid_value'],
    ['an unclear warm-up', { generate: 'no' }, 400, 'invalid_value'],
    ['an empty warm-up', { generate: false, input: [] }, 400, 'invalid_value'],
  ])('with %s is an error', async (_, members, status, code) => {
    await using client = await connect()
    client.raw(JSON.stringify({ ...create({ stream_id: 'lane' }), ...members }))
    const error = await client.next()
    expect(error).toMatchObject({ type: 'error', status, error: { code } })
    expect(error?.['stream_id']).toBe(code === 'invalid_stream_id' ? undefined : 'lane')
  })

  test('may come in fragments', async () => {
    using raw = await RawSocket.with(weir.port, KEY)
    const bytes = Buffer.from(JSON.stringify(create({ input: 'Grüße' })))
    raw.write(fragments(bytes, [0, 1, bytes.indexOf(0xc3) + 1, bytes.length - 1]))
    expect((await raw.turn()).at(-1)?.['type']).toBe('response.completed')
  })

  test('may be as large as the body of a POST; a larger one closes the connection', async () => {
    const bytes = Buffer.alloc(10 * 1024 * 1024 + 1, ' ')
    bytes.write(JSON.stringify(create({ model: 'nothing' })))
    using raw = await RawSocket.with(weir.port, KEY)
    raw.write(frame(TEXT, bytes.subarray(1 - bytes.length - 1, -1)))
    expect(await raw.turn()).toMatchObject([{ status: 404 }])
    raw.write(frame(TEXT, bytes))
    expect(await raw.code()).toBe(1009)
    using other = await RawSocket.with(weir.port, KEY)
    other.write(fragments(bytes, [5_000_000]))
    expect(await other.code()).toBe(1009)
  })

  test('that continues more than a POST may have is 413', async () => {
    await using client = await connect()
    const half = 'x'.repeat(5.5 * 1024 * 1024)
    const frames = await client.turn(create({ generate: false, input: half }))
    const [error] = await client.turn(create({ input: half, previous_response_id: idOf(frames) }))
    expect(error).toMatchObject({ status: 413, error: { code: 'request_too_large' } })
  })

  test('that continues a compaction has its item in place of what came before', async () => {
    await using client = await connect()
    const input = [{ role: 'user', content: 'long ago' }, { type: 'compaction_trigger' }]
    const frames = await client.turn(create({ input }))
    await client.turn(create({ input: 'next', previous_response_id: idOf(frames) }))
    const messages = asked.at(-1)?.['messages']
    expect(messages).toMatchObject([{ role: 'user' }, { role: 'user', content: 'next' }])
    expect(JSON.stringify(messages)).not.toContain('long ago')
    expect(JSON.stringify(messages)).toContain('Hello')
  })

  test('that continues a superseded response of its lane does not find it', async () => {
    await using client = await connect()
    const first = await client.turn(create({}))
    await client.turn(create({ previous_response_id: idOf(first) }))
    const [error] = await client.turn(create({ previous_response_id: idOf(first) }))
    expect(error).toMatchObject({ error: { code: 'previous_response_not_found' } })
  })

  test.each([
    ['model_not_found', { model: 'nothing' }],
    ['forbidden_field', { timeout: 1 }],
    ['invalid_value', { generate: 1 }],
  ])('that fails by %s takes with it what it continued; a frame that is no turn does not', async (code, members) => {
    await using client = await connect()
    const first = await client.turn(create({}))
    const continued = create({ previous_response_id: idOf(first) })
    client.raw('{')
    client.send({ type: 'nothing', previous_response_id: idOf(first) })
    expect([await client.next(), await client.next()]).toMatchObject([{ type: 'error' }, { type: 'error' }])
    const [failed] = await client.turn({ ...continued, ...members })
    expect(failed).toMatchObject({ error: { code } })
    expect(await client.turn(continued)).toMatchObject([{ error: { code: 'previous_response_not_found' } }])
  })

  test('that only adds nothing to a warm-up may have no input', async () => {
    await using client = await connect()
    const first = await client.turn(create({ input: 'warm', generate: false }))
    const second = await client.turn(create({ input: [], generate: false, previous_response_id: idOf(first) }))
    await client.turn(create({ input: [], previous_response_id: idOf(second) }))
    expect(asked.at(-1)?.['messages']).toEqual([{ role: 'user', content: 'warm' }])
  })

  test('takes its tags from the handshake', async () => {
    const own = new Serving({ providers: { up: upstream.url }, models: { answers: ['up/answers'] }, config: TAGGED })
    using raw = await RawSocket.open(own.port, { 'x-api-key': KEY, 'x-gateway-tags': 'team=a' })
    raw.send(create({}))
    await raw.turn()
    await own.idle()
    expect(own.lines.find(({ msg }) => msg === 'request')).toMatchObject({ tags: { team: 'a' } })
    using wrong = await RawSocket.open(own.port, { 'x-api-key': KEY, 'x-gateway-tags': 'other=a' })
    expect([wrong.status, JSON.parse(await wrong.rest()).error.code]).toEqual([400, 'invalid_tags'])
    await own[Symbol.asyncDispose]()
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

test('16 turns run and 64 wait; one more is refused', async () => {
  await using client = await connect()
  const lanes = Array.from({ length: 16 }, (_, index) => `lane-${index}`)
  for (const stream_id of lanes) client.send(create({ model: 'stalls', stream_id }))
  for (const _ of lanes) await client.frameOf('response.output_text.delta')
  for (let turns = 0; turns < 64; turns++) client.send(create({ stream_id: turns === 0 ? 'later' : 'lane-1' }))
  client.send(create({ stream_id: 'lane-2' }))
  expect(await client.frameOf('error')).toMatchObject({
    ...{ status: 429, stream_id: 'lane-2', error: { code: 'websocket_queue_full' } },
    headers: { 'retry-after': '1' },
  })
  expect(client.all.filter(({ stream_id }) => stream_id === 'later')).toEqual([])
})

test('bodies that wait count as those of requests in flight', async () => {
  await using client = await connect()
  client.send(create({ model: 'stalls' }))
  await client.frameOf('response.output_text.delta')
  const before = weir.service.state.bodies.heldBytes
  const waiting = JSON.stringify(create({ input: 'x'.repeat(100_000) }))
  client.raw(waiting)
  await until(() => weir.service.state.bodies.heldBytes === before + 4 * waiting.length)
  await client[Symbol.asyncDispose]()
  await until(() => weir.service.state.bodies.heldBytes === 0)
})

test('a connection has 32 lanes besides the one without a name', async () => {
  await using client = await connect()
  const turn = (stream_id?: string) => client.turn(create({ model: 'nothing', ...(stream_id && { stream_id }) }))
  for (let lane = 0; lane < 32; lane++) expect(await turn(`lane-${lane}`)).toMatchObject([{ status: 404 }])
  expect(await turn('lane-32')).toMatchObject([
    { status: 400, stream_id: 'lane-32', error: { code: 'websocket_stream_limit_reached' } },
  ])
  expect(await turn('lane-31')).toMatchObject([{ status: 404 }])
  expect(await turn()).toMatchObject([{ status: 404 }])
})

test('turns of one lane that were sent early continue each other', async () => {
  await using client = await connect()
  const first = await client.turn(create({ generate: false, input: 'one' }))
  client.send(create({ input: 'two', previous_response_id: idOf(first) }))
  client.send(create({ input: 'three', previous_response_id: idOf(first) }))
  await client.frameOf('response.completed')
  // The first of them has superseded what both continue.
  expect(await client.frameOf('error')).toMatchObject({ error: { code: 'previous_response_not_found' } })
})

test.each([
  ['no JSON', '{', { status: 400, error: { code: 'invalid_json' } }],
  ['a list', '[]', { status: 400, error: { code: 'invalid_json' } }],
  ['binary', new Uint8Array([1, 2]), { status: 400, error: { code: 'invalid_json' } }],
  ['of an unknown type in a lane', '{"type":"x","stream_id":"a"}', { status: 400, stream_id: 'a' }],
  ['of an unknown type', '{"type":"x"}', { status: 400, error: { code: 'unsupported_event_type', param: 'type' } }],
  ['for a lane of no name', '{"type":"response.create","stream_id":""}', { error: { code: 'invalid_stream_id' } }],
  [
    'that steers',
    JSON.stringify({ type: 'response.steer', previous_response_id: 'a', input: 'x'.repeat(2000) }),
    {
      type: 'response.steer.failed',
      steer: { previous_response_id: 'a', input: 'x'.repeat(2000) },
      error: { code: 'steering_not_supported' },
    },
  ],
  [
    'that injects',
    '{"type":"response.inject","response_id":"a","input":[]}',
    { type: 'response.inject.failed', response_id: 'a', input: [], error: { code: 'steering_not_supported' } },
  ],
])('a frame that is %s is answered, and the connection stays open', async (_, data, answer) => {
  await using client = await connect()
  client.send({ type: 'response.processed', response_id: 'resp_1' })
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
  // On a connection that the old worker has accepted while the new one takes over.
  using late = await RawSocket.with(own.port, KEY)
  expect([late.status, await late.code()]).toEqual([101, 1012])
  expect(await busy.frameOf('error')).toMatchObject({ status: 503, error: { code: 'shutting_down' } })
  own.service.state.inFlight.cut('drained')
  expect(await busy.frameOf('response.failed')).toMatchObject({ response: { error: { code: 'server_error' } } })
  expect(await busy.closed).toBe(1012)
  await own[Symbol.asyncDispose]()
})

describe('a caller that reads slowly', () => {
  const texts = Array.from({ length: 400 }, (_, index) => `${index} ${'x'.repeat(20_000)}`)
  let large: Upstream
  let own: Serving

  beforeAll(async () => {
    large = await Upstream.start({ large: does.answersText(...texts) })
    own = new Serving({ providers: { up: large.url }, models: { large: ['up/large'] } })
  })

  afterAll(async () => {
    await own[Symbol.asyncDispose]()
    await large[Symbol.asyncDispose]()
  })

  /** A caller whose socket is full. */
  async function unread(): Promise<RawSocket> {
    const raw = await RawSocket.with(own.port, KEY)
    raw.pause()
    raw.send(create({ model: 'large' }))
    await until(() => [...open(own)].some(({ full }) => full !== undefined))
    return raw
  }

  test('gets every frame, and no turn is begun meanwhile', async () => {
    using raw = await unread()
    raw.send(create({ model: 'nothing', stream_id: 'b' }))
    await until(() => [...open(own)].some((one) => Reflect.get(one, 'waiting').length === 1))
    raw.resume()
    const frames = await raw.turn()
    const rest = frames.some(({ stream_id }) => stream_id === 'b') ? await raw.turn() : []
    const ofTurn = [...frames, ...rest].filter(({ stream_id }) => stream_id === undefined)
    expect(ofTurn.flatMap(({ type, delta }) => (type === 'response.output_text.delta' ? [delta] : []))).toEqual(texts)
    expect(ofTurn.at(-1)?.['type']).toBe('response.completed')
    await own.idle()
  })

  test('is cut if it sends frames whose errors it does not read', async () => {
    using raw = await unread()
    const large = frame(TEXT, JSON.stringify({ type: 'response.steer', input: 'x'.repeat(700_000) }))
    raw.write(Buffer.concat([large, large]))
    raw.write(frame(TEXT, '{'))
    await until(() => open(own).size === 0)
    await own.idle()
    expect(own.ledger.wrong).toEqual([])
  })

  test('is cut after two minutes without progress', async () => {
    using raw = await unread()
    own.service.app.sockets.tick(performance.now() + 119_000)
    expect(open(own).size).toBe(1)
    own.service.app.sockets.tick(performance.now() + 121_000)
    await until(() => open(own).size === 0)
    await own.idle()
    expect(reasonsOf(own).at(-1)).toBe('stalled')
    raw.resume()
    expect((await raw.turn()).at(-1)?.['type']).not.toBe('response.completed')
  })
})

test('an organization keeps no more than its share, and forgets the oldest first', () => {
  const memory = new ContinuationMemory(() => 10)
  const forgotten: string[] = []
  const one = (id: string, bytes: number) => {
    return { id, input: NO_INPUT, output: '', bytes, forget: () => void forgotten.push(id) }
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
  const socket = String(turn?.['socket'])
  expect(end).toMatchObject({ event: 'socket.closed', turns: 1, reason: 'caller', code: 1005, socket })
})

test('the reason why a socket ended is logged and counted, and so are its turns and what they continue', async () => {
  const own = new Serving({ providers: { up: upstream.url }, models: { answers: ['up/answers'] } })
  const ended = (reason: string) => until(() => reasonsOf(own).at(-1) === reason)
  const client = await SocketClient.open(own.port, KEY)
  const first = await client.turn(create({}))
  for (let turns = 0; turns < 2; turns++) await client.turn(create({ previous_response_id: idOf(first) }))
  await client[Symbol.asyncDispose]()
  await ended('caller')
  const raw = await RawSocket.with(own.port, KEY)
  raw[Symbol.dispose]()
  await ended('lost')
  using large = await RawSocket.with(own.port, KEY)
  large.write(frame(TEXT, Buffer.alloc(10 * 1024 * 1024 + 1)))
  await ended('too_large')
  await using idle = await SocketClient.open(own.port, KEY)
  expect(own.service.app.sockets.count).toBe(1)
  own.service.app.sockets.leave()
  await idle.closed
  await ended('restart')
  const { counters } = own.service.figures.take({
    ...IDLE_GAUGES,
  })
  expect(counters).toMatchObject({
    // With the frame that was too large.
    weir_socket_turns_total: [[[], 4]],
    weir_socket_closed_total: [
      [['caller'], 1],
      [['lost'], 1],
      [['too_large'], 1],
      [['restart'], 1],
    ],
    weir_previous_response_total: [
      [['found'], 1],
      [['not_found'], 1],
    ],
  })
  await own[Symbol.asyncDispose]()
})

test('a frame that begins no turn has a line as a refused POST, and so has a turn that is not begun', async () => {
  const own = new Serving({ providers: { up: upstream.url }, models: { stalls: ['up/stalls'] } })
  const requests = () => own.lines.filter(({ msg }) => msg === 'request')
  const refused = { method: 'GET', path: '/v1/responses', transport: 'websocket', key: 'test-key', outcome: 'refused' }
  const client = await SocketClient.open(own.port, KEY)
  for (const [error, text] of [
    ['invalid_json', '{'],
    ['unsupported_event_type', '{"type":"nothing"}'],
    ['invalid_value', JSON.stringify(create({ generate: 1 }))],
  ] as const) {
    client.raw(text)
    const request_id = Object((await client.next())['headers'])['x-request-id']
    expect(requests().at(-1)).toMatchObject({ ...refused, status: 400, error, request_id })
  }
  expect(requests().map(({ param }) => param)).toEqual([undefined, 'type', 'generate'])
  for (let turns = 0; turns < 66; turns++) client.send(create({ model: 'stalls' }))
  expect(await client.frameOf('error')).toMatchObject({ error: { code: 'websocket_queue_full' } })
  expect(requests().at(-1)).toMatchObject({ ...refused, status: 429, error: 'websocket_queue_full' })
  await client[Symbol.asyncDispose]()
  await until(() => requests().length === 4 + 65)
  const { request_id: _, total_ms: __, ...waited } = requests()[4] ?? {}
  expect(waited).toMatchObject({ ...{ status: 499, outcome: 'caller_left', transport: 'websocket' }, key: 'test-key' })
  expect(waited).not.toContainAnyKeys(['error', 'path'])
  await own.idle()
  expect(own.lines.findLast(({ event }) => event === 'socket.closed')).toMatchObject({ turns: 69 })
  expect(own.ledger.wrong).toEqual([])
  using large = await RawSocket.with(own.port, KEY)
  large.write(frame(TEXT, Buffer.alloc(10 * 1024 * 1024 + 1)))
  await until(() => reasonsOf(own).at(-1) === 'too_large')
  expect(requests().at(-1)).toMatchObject({ ...refused, status: 413, error: 'request_too_large' })
  await own[Symbol.asyncDispose]()
})

test('a key that is revoked ends running turns and the socket', async () => {
  const own = new Serving({ providers: { up: upstream.url }, models: { stalls: ['up/stalls'] } })
  await using busy = await SocketClient.open(own.port, KEY)
  busy.send(create({ model: 'stalls' }))
  await busy.frameOf('response.output_text.delta')
  const { current } = own.service.state
  own.service.state.current = { ...current, keys: { find: () => undefined, refused: () => undefined } }
  expect(await busy.frameOf('response.failed')).toMatchObject({ response: { error: { code: 'server_error' } } })
  expect(await busy.frameOf('error')).toMatchObject({ status: 401, error: { code: 'invalid_api_key' } })
  expect(await busy.closed).toBe(1008)
  await own.idle()
  expect(reasonsOf(own)).toEqual(['key_refused'])
  expect(own.ledger.wrong).toEqual([])
  await own[Symbol.asyncDispose]()
})

test('a socket lives for as long as the configuration allows', async () => {
  const own = new Serving({
    providers: { up: upstream.url },
    models: { stalls: ['up/stalls'] },
    config: { responses: { socket_minutes: 7 } },
  })
  await using idle = await SocketClient.open(own.port, KEY)
  await using busy = await SocketClient.open(own.port, KEY)
  busy.send(create({ model: 'stalls' }))
  await busy.frameOf('response.output_text.delta')
  own.service.app.sockets.tick(performance.now() + 6.5 * 60_000)
  expect(open(own).size).toBe(2)
  own.service.app.sockets.tick(performance.now() + 7 * 60_000)
  expect(await idle.next()).toMatchObject({
    type: 'error',
    status: 400,
    error: { code: 'websocket_connection_limit_reached' },
  })
  expect(await idle.closed).toBe(1000)
  busy.send(create({ stream_id: 'new' }))
  expect(await busy.next()).toMatchObject({ stream_id: 'new', error: { code: 'websocket_connection_limit_reached' } })
  own.service.state.inFlight.cut('drained')
  expect(await busy.frameOf('response.failed')).toMatchObject({ type: 'response.failed' })
  expect(await busy.next()).toMatchObject({ error: { code: 'websocket_connection_limit_reached' } })
  expect(await busy.closed).toBe(1000)
  expect(reasonsOf(own)).toEqual(['expired', 'expired'])
  await own[Symbol.asyncDispose]()
})

test('a turn whose provider is silent has pings, and an event each minute', async () => {
  const own = new Serving({ providers: { up: upstream.url }, models: { stalls: ['up/stalls'], silent: ['up/silent'] } })
  const { sockets } = own.service.app
  using raw = await RawSocket.with(own.port, KEY)
  raw.send(create({ model: 'silent' }))
  await until(() => own.ledger.reserved.length === 1)
  const fromMs = performance.now()
  // A first look may come between the turn's begin and this: it is no reason for a ping.
  sockets.tick(fromMs + 14_000)
  sockets.tick(fromMs + 15_500)
  expect(await raw.next()).toMatchObject({ opcode: PING })
  using other = await RawSocket.with(own.port, KEY)
  other.send(create({ model: 'stalls' }))
  await until(() => own.service.state.inFlight.streams === 1)
  const [turn] = [...open(own)].flatMap((one) => [...Reflect.get(one, 'running')]).slice(-1)
  for (let comments = 0; comments < 4; comments++) turn.writeIdle(': keep-alive\n\n')
  raw[Symbol.dispose]()
  own.service.state.inFlight.cut('drained')
  const frames = await other.turn()
  expect(frames.filter(({ type }) => type === 'response.in_progress')).toHaveLength(2)
  expect(frames.map(({ sequence_number }) => sequence_number)).toEqual(frames.map((_, index) => index))
  await own[Symbol.asyncDispose]()
})

test('beyond the share of its organization the oldest conversation of a connection is forgotten', async () => {
  const config = { responses: { socket_bytes: 20_000 } }
  const own = new Serving({ providers: { up: upstream.url }, models: { answers: ['up/answers'] }, config })
  await using client = await SocketClient.open(own.port, KEY)
  const warm = (stream_id: string, more: JsonObject) =>
    client.turn(create({ generate: false, stream_id, input: 'x'.repeat(8000), ...more }))
  const first = await warm('a', { instructions: 'y'.repeat(50_000) })
  await warm('b', {})
  expect((await warm('a', { input: [], previous_response_id: idOf(first) })).at(-1)?.['type']).toBe(
    'response.completed',
  )
  await warm('c', {})
  expect(own.service.app.sockets.memory.bytes).toBeLessThan(20_000)
  for (const one of Reflect.get([...open(own)][0] ?? {}, 'conversations').values())
    for (const piece of one.input.bytes.pieces()) expect(piece.buffer.byteLength).toBeLessThan(20_000)
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

/** The running program, traced: what a collector gets of requests that end in every way. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { CHAT, STREAM, Stage } from '../gateway/stage.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { collector, type ReceivedSpan, type TestCollector } from '../support/collector.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'

const SECRET = 'a-secret-of-the-caller'
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'
const frames = does.chatFrames(['Hel', 'lo'], { usage: true })
const failing = does.json(503, '{"error":{"message":"busy"}}')

let collecting: TestCollector
let stage: Stage

beforeAll(async () => {
  collecting = collector()
  stage = await Stage.start(
    {
      whole: does.answersText('Hello'),
      stream: does.stream(frames),
      fallback: [failing, does.answersText('Hello')],
      refused: does.json(400, '{"error":{"message":"no"}}'),
      down: [failing, failing],
      cut: does.resets(frames.slice(0, 2)),
      left: does.stalls(frames.slice(0, 2)),
      silent: does.silent(),
    },
    {
      config: { tracing: { endpoint: collecting.url, sample: 1, headers: { 'X-Api-Key': 'for-the-collector' } } },
      env: { OTEL_SERVICE_NAME: 'gateway', OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test' },
    },
  )
})

afterAll(async () => {
  await stage[Symbol.asyncDispose]()
  collecting[Symbol.dispose]()
})

/** The spans of a request: the server span, and those of its calls in their order. */
async function spansOf(requestId: unknown): Promise<readonly [ReceivedSpan, ...ReceivedSpan[]]> {
  for (let count = 1; ; count++) {
    const all = await collecting.received(count)
    const own = all.filter(({ attributes }) => attributes['weir.request_id'] === requestId)
    const server = own.find(({ kind }) => kind === 'server')
    if (server === undefined) continue
    const calls = own.filter((span) => span !== server)
    return [server, ...calls.sort((one, other) => Number(one.start - other.start))]
  }
}

async function traced(model: string, body = {}): ReturnType<typeof spansOf> {
  const answer = await stage.ask(model, body)
  return await spansOf(answer.header('x-request-id'))
}

/** With a header of the caller's. */
function asking(model: string, fields: Readonly<Record<string, string>>) {
  const body = { model, messages: [{ role: 'user', content: SECRET }] }
  return ask(stage.gateway.port, requestBytes(CHAT, { key: KEY, body, fields }))
}

function isWithin(inner: ReceivedSpan, outer: ReceivedSpan): boolean {
  return inner.start >= outer.start && inner.end <= outer.end && inner.start <= inner.end
}

// Spans are sent after a second; the tests wait for them together.
describe.concurrent('a request', () => {
  test('has a server span and a client span', async () => {
    const answer = await stage.ask('whole')
    const id = answer.header('x-request-id')
    const [server, client, ...others] = await spansOf(id)
    expect(others).toEqual([])
    expect(server).toMatchObject({ name: 'chat whole', kind: 'server', parentId: '', isError: false })
    expect(server.attributes).toEqual({
      'http.request.method': 'POST',
      'url.path': CHAT,
      'url.scheme': 'http',
      'http.route': CHAT,
      'http.response.status_code': 200,
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'whole',
      'gen_ai.response.model': 'whole',
      'gen_ai.response.finish_reasons': ['stop'],
      'gen_ai.usage.input_tokens': expect.any(Number),
      'gen_ai.usage.output_tokens': expect.any(Number),
      'weir.request_id': String(id),
      'weir.outcome': 'completed',
      'weir.organization': 'test',
      'weir.key': expect.any(String),
      'weir.dialect': 'chat',
      'weir.provider': 'p0',
      'weir.fallbacks': 0,
      'weir.cost_micro_usd': expect.any(Number),
      'weir.usage': expect.any(String),
    })
    expect(client).toMatchObject({ name: 'chat whole', kind: 'client', traceId: server.traceId, isError: false })
    expect(client?.parentId).toBe(server.spanId)
    expect(client?.attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'openai',
      'gen_ai.request.model': 'whole',
      'gen_ai.response.model': 'whole',
      'server.address': '127.0.0.1',
      'server.port': Number(new URL(stage.upstreams[0]?.url ?? '').port),
      'http.response.status_code': 200,
      'weir.provider': 'p0',
      'weir.attempt': 1,
      'weir.request_id': id,
    })
    expect(client !== undefined && isWithin(client, server)).toBe(true)
    expect(Math.abs(Number(server.end / 1_000_000n) - Date.now())).toBeLessThan(60_000)
    expect(await stage.lineOf(answer)).toMatchObject({ trace_id: server.traceId, finish_reason: 'stop' })
  })

  test('is a stream', async () => {
    const [server, client] = await traced('stream', STREAM)
    expect(server.attributes).toMatchObject({
      'gen_ai.request.stream': true,
      'gen_ai.response.time_to_first_chunk': expect.any(Number),
      'gen_ai.usage.input_tokens': 9,
      'gen_ai.usage.output_tokens': 2,
      'weir.outcome': 'completed',
    })
    expect(client?.attributes).toMatchObject({
      'gen_ai.request.stream': true,
      'gen_ai.response.time_to_first_chunk': expect.any(Number),
      'gen_ai.usage.output_tokens': 2,
    })
    expect(client?.attributes).not.toHaveProperty('weir.outcome')
  })

  test('falls back', async () => {
    const [server, first, second] = await traced('fallback')
    expect(server).toMatchObject({ isError: false, attributes: { 'weir.fallbacks': 1, 'weir.provider': 'p1' } })
    expect(first).toMatchObject({
      isError: true,
      attributes: { 'error.type': 'overloaded', 'http.response.status_code': 503, 'weir.attempt': 1 },
    })
    expect(first?.attributes).not.toHaveProperty('gen_ai.usage.output_tokens')
    expect(second).toMatchObject({ isError: false, attributes: { 'weir.provider': 'p1', 'weir.attempt': 2 } })
    expect(second !== undefined && first !== undefined && second.start >= first.end).toBe(true)
  })

  test('is refused by the provider', async () => {
    const [server, client] = await traced('refused')
    expect(server).toMatchObject({
      isError: false,
      attributes: { 'http.response.status_code': 400, 'weir.outcome': 'refused' },
    })
    expect(client).toMatchObject({ isError: true, attributes: { 'error.type': 'rejected' } })
  })

  test('finds no provider that answers', async () => {
    const [server, ...calls] = await traced('down')
    expect(server.isError).toBe(true)
    expect(server.attributes['http.response.status_code']).toBeGreaterThanOrEqual(500)
    expect(server.attributes['error.type']).toBeString()
    expect(calls.map(({ isError }) => isError)).toEqual([true, true])
  })

  test('is a stream that the provider cuts', async () => {
    const [server, client] = await traced('cut', STREAM)
    expect(server).toMatchObject({
      isError: true,
      attributes: { 'http.response.status_code': 200, 'error.type': 'upstream_failed', 'weir.outcome': 'provider_cut' },
    })
    expect(client).toMatchObject({ isError: true, attributes: { 'error.type': 'cut' } })
  })

  test('is a stream whose caller leaves', async () => {
    const caller = await stage.caller('left', STREAM)
    await caller.until('Hel')
    caller.close()
    const { request_id: id } = await stage.line('left')
    const [server, client] = await spansOf(id)
    for (const span of [server, client]) {
      expect(span).toMatchObject({ isError: false, attributes: { 'weir.outcome': 'caller_left' } })
      expect(span?.attributes).not.toHaveProperty('error.type')
    }
    expect(server.attributes['http.response.status_code']).toBe(200)
  })

  test('has a caller that leaves before the answer', async () => {
    const caller = await stage.caller('silent')
    await stage.call('silent')
    caller.close()
    const { request_id: id } = await stage.line('silent')
    const [server, client] = await spansOf(id)
    expect(server).toMatchObject({ isError: false, attributes: { 'weir.outcome': 'caller_left' } })
    expect(server.attributes).not.toHaveProperty('http.response.status_code')
    expect(client).toMatchObject({ isError: false, attributes: { 'weir.outcome': 'caller_left' } })
  })

  test('names no model of the configuration', async () => {
    const [server, ...calls] = await traced('made-up-by-the-caller')
    expect(server).toMatchObject({
      name: 'chat',
      isError: false,
      attributes: {
        'gen_ai.request.model': 'made-up-by-the-caller',
        'http.response.status_code': 404,
        'error.type': 'model_not_found',
      },
    })
    expect(calls).toEqual([])
  })

  test('asks no model', async () => {
    const answer = await ask(stage.gateway.port, requestBytes('/v1/models?x=1', { method: 'GET', key: KEY }))
    const [server] = await spansOf(answer.header('x-request-id'))
    expect(server).toMatchObject({ name: 'GET /v1/models', attributes: { 'url.path': '/v1/models' } })
    expect(server.attributes).not.toHaveProperty('gen_ai.operation.name')
  })

  test('is for a path that does not exist', async () => {
    const answer = await ask(stage.gateway.port, requestBytes('/v1/nothing', { key: KEY, body: {} }))
    const [server] = await spansOf(answer.header('x-request-id'))
    expect(server).toMatchObject({ name: 'POST', attributes: { 'http.response.status_code': 404 } })
    expect(server.attributes).not.toHaveProperty('http.route')
  })
})

describe.concurrent("a caller's trace", () => {
  test('is continued', async () => {
    const answer = await asking('whole', { traceparent: `00-${TRACE}-${PARENT}-01`, tracestate: 'vendor=1' })
    const [server, client] = await spansOf(answer.header('x-request-id'))
    expect(server).toMatchObject({ traceId: TRACE, parentId: PARENT, state: 'vendor=1' })
    // The parent is of another process.
    expect(server.flags & 0x300).toBe(0x300)
    expect(client).toMatchObject({ traceId: TRACE, parentId: server.spanId })
    expect(await stage.lineOf(answer)).toMatchObject({ trace_id: TRACE })
  })

  test('that is not sampled has no spans, and is logged', async () => {
    const other = TRACE.replace('4', '5')
    const answer = await asking('whole', { traceparent: `00-${other}-${PARENT}-00` })
    expect(await stage.lineOf(answer)).toMatchObject({ trace_id: other })
    // The spans of a later request are sent with or after those of an earlier one.
    await traced('whole')
    expect(collecting.spans.some(({ traceId }) => traceId === other)).toBe(false)
  })

  test('that is malformed is ignored', async () => {
    const answer = await asking('whole', { traceparent: `00-${TRACE}-${PARENT}`, tracestate: 'vendor=1' })
    const [server] = await spansOf(answer.header('x-request-id'))
    expect(server).toMatchObject({ parentId: '', state: '' })
    expect(server.traceId).not.toBe(TRACE)
  })
})

test('no trace goes to a provider', async () => {
  const calls = stage.upstreams.flatMap((upstream) => upstream.calls)
  expect(calls.length).toBeGreaterThan(10)
  expect(calls.filter((call) => call.header('traceparent') ?? call.header('tracestate'))).toEqual([])
})
test('the collector gets what the configuration and the environment have, and no content', () => {
  for (const { path, headers } of collecting.requests) {
    expect(path).toBe('/v1/traces')
    expect(headers.get('content-type')).toBe('application/x-protobuf')
    expect(headers.get('x-api-key')).toBe('for-the-collector')
  }
  const text = JSON.stringify(collecting.spans, (_, value) => (typeof value === 'bigint' ? String(value) : value))
  for (const word of [SECRET, KEY, 'provider-key-of-p0', 'Hello']) expect(text).not.toContain(word)
  for (const { resource } of collecting.spans)
    expect(resource).toMatchObject({ 'service.name': 'gateway', 'deployment.environment.name': 'test' })
  const ids = collecting.spans.map(({ spanId }) => spanId)
  expect(new Set(ids).size).toBe(ids.length)
})

/**
 * Everything that a provider may do wrong, in one table: what its caller gets with and without another candidate, that
 * nothing stays open, and that the reservation ends once.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { join } from 'node:path'
import type { JsonObject } from '../../src/core/json.ts'
import { type Answer, ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { closedPort, portOf, type Scenario, Upstream } from '../support/upstream.ts'

const MIB = 1024 * 1024
const html = { 'content-type': 'text/html' }
const [role = '', hello = '', ...restOf] = does.chatFrames(['Hello'])
const errorEvent = 'data: {"error":{"message":"boom","type":"server_error"}}\n\n'
const inAMinute = () => new Date(Date.now() + 60_000).toUTCString()

interface Row {
  /** What the provider does; a text is the `base_url` of one that cannot be reached. */
  readonly does: Scenario | 'refuses' | 'nowhere' | 'self-signed' | 'plain-for-tls' | 'silent-for-tls'
  readonly expected: readonly [status: number, code: string | null]
  readonly kind: string
  readonly retryAfter?: RegExp
  /** The caller's own mistake: no other candidate is called. */
  readonly callers?: true
}

const failed = [502, 'upstream_failed'] as const
const late = [504, 'upstream_timeout'] as const
const busy = [503, 'overloaded'] as const
const limited = [429, 'upstream_rate_limited'] as const
const http = (status: number, body: string, fields: Readonly<Record<string, string>> = {}) =>
  does.json(status, body, fields)
const errorBody = (message: string, more: JsonObject = {}) => JSON.stringify({ error: { message, ...more } })

/** A whole answer whose calls have these arguments, as JSON text. */
const calling = (...args: readonly string[]) => {
  const calls = args.map(
    (json, at) => `{"id":"call_${at}","type":"function","function":{"name":"f","arguments":${json}}}`,
  )
  const message = `{"role":"assistant","tool_calls":[${calls.join()}]}`
  return http(200, `{"choices":[{"index":0,"message":${message},"finish_reason":"tool_calls"}]}`)
}
const deep = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`

const rows: Readonly<Record<string, Row>> = {
  'connection refused': { does: 'refuses', expected: failed, kind: 'unreachable' },
  'no such host': { does: 'nowhere', expected: failed, kind: 'unreachable' },
  'self-signed certificate': { does: 'self-signed', expected: failed, kind: 'unreachable' },
  'TLS to a port without TLS': { does: 'plain-for-tls', expected: failed, kind: 'unreachable' },
  'TLS to a port that sends nothing': { does: 'silent-for-tls', expected: late, kind: 'timeout' },
  'accepts and never answers': { does: does.silent(), expected: late, kind: 'timeout' },
  'headers and then nothing': { does: does.stalls([]), expected: late, kind: 'timeout' },
  '429': { does: http(429, ''), expected: limited, kind: 'rate_limited', retryAfter: /^1$/ },
  '429, seconds': {
    does: http(429, '', { 'retry-after': '7' }),
    expected: limited,
    kind: 'rate_limited',
    retryAfter: /^7$/,
  },
  '429, milliseconds': {
    does: http(429, '', { 'retry-after-ms': '2500' }),
    expected: limited,
    kind: 'rate_limited',
    retryAfter: /^3$/,
  },
  '429, a date': {
    does: (call) => http(429, '', { 'retry-after': inAMinute() })(call),
    expected: limited,
    kind: 'rate_limited',
    retryAfter: /^(?:[345]\d|60)$/,
  },
  '429, a limit that is used up': {
    does: http(429, '', { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1m4s' }),
    expected: limited,
    kind: 'rate_limited',
    retryAfter: /^60$/,
  },
  // Every answer has headers of limits; this failure has another cause.
  '500, a limit that is used up': {
    does: http(500, '', { 'x-ratelimit-remaining-requests': '0', 'x-ratelimit-reset-requests': '1m4s' }),
    expected: failed,
    kind: 'failed',
  },
  '500, JSON': { does: http(500, errorBody('x')), expected: failed, kind: 'failed' },
  '500, HTML': { does: http(500, '<html>', html), expected: failed, kind: 'failed' },
  '500, nothing': { does: http(500, ''), expected: failed, kind: 'failed' },
  '502': { does: http(502, '<html>', html), expected: failed, kind: 'failed' },
  '503': { does: http(503, ''), expected: busy, kind: 'overloaded', retryAfter: /^1$/ },
  '504': { does: http(504, '<html>', html), expected: late, kind: 'timeout' },
  '529': { does: http(529, errorBody('x')), expected: busy, kind: 'overloaded', retryAfter: /^1$/ },
  '401': { does: http(401, errorBody('wrong key sk-abcdefgh12345678')), expected: failed, kind: 'credential' },
  '402': { does: http(402, errorBody('Insufficient balance')), expected: failed, kind: 'credit_exhausted' },
  '403': { does: http(403, errorBody('not your project')), expected: failed, kind: 'credential' },
  '408': { does: http(408, ''), expected: late, kind: 'timeout' },
  '409': { does: http(409, ''), expected: failed, kind: 'failed' },
  '404 of the model': {
    does: http(404, errorBody('The model does not exist', { param: null, code: 'model_not_found' })),
    expected: failed,
    kind: 'failed',
  },
  '404 of a path': { does: http(404, '<html>', html), expected: failed, kind: 'failed' },
  '404 of content': {
    does: http(404, errorBody('No such file', { param: 'messages[0].content[1].file_id' })),
    expected: [400, null],
    kind: 'rejected',
    callers: true,
  },
  '400': { does: http(400, errorBody('no')), expected: [400, null], kind: 'rejected', callers: true },
  '413': { does: http(413, errorBody('no')), expected: [413, 'request_too_large'], kind: 'too_large', callers: true },
  '422': { does: http(422, errorBody('no')), expected: [400, null], kind: 'rejected', callers: true },
  redirect: { does: does.redirects('http://127.0.0.1:1/'), expected: failed, kind: 'failed' },
  'not HTTP': { does: does.raw('220 mail.example ESMTP\r\n'), expected: failed, kind: 'broken' },
  'closes without an answer': { does: does.raw(''), expected: failed, kind: 'unreachable' },
  'broken chunks': { does: does.brokenChunks([]), expected: failed, kind: 'cut' },
  'HTML under 200': { does: http(200, '<html>', html), expected: failed, kind: 'broken' },
  'nothing under 200': { does: http(200, ''), expected: failed, kind: 'broken' },
  'JSON that is no answer': { does: http(200, '{"choices":[]}'), expected: failed, kind: 'broken' },
  'an error under 200': { does: http(200, errorBody('x', { type: 'server_error' })), expected: failed, kind: 'failed' },
  'arguments as an object of 100,000 levels': { does: calling(deep(100_000)), expected: failed, kind: 'broken' },
  'arguments of 129 levels': { does: calling(JSON.stringify(deep(129))), expected: failed, kind: 'broken' },
  'arguments of a million values': { does: calling(`{"a":[${'1,'.repeat(1e6)}1]}`), expected: failed, kind: 'broken' },
  'a text of arguments of a million values': {
    does: calling(`"{\\"a\\":[${'1,'.repeat(1e6)}1]}"`),
    expected: failed,
    kind: 'broken',
  },
  '5,000 calls': { does: calling(...Array.from({ length: 5000 }, () => '"{}"')), expected: failed, kind: 'broken' },
  'an error of 100,000 levels': {
    does: http(200, `{"error":{"detail":${deep(100_000)}}}`),
    expected: failed,
    kind: 'broken',
  },
  'an error of 10,000 levels under 500': {
    does: http(500, `{"error":{"detail":${deep(10_000)}}}`),
    expected: failed,
    kind: 'failed',
  },
  'a huge body': {
    does: async (call) => {
      await call.head200({ 'content-type': 'application/json' })
      const piece = ' '.repeat(4 * MIB)
      while (await call.chunk(piece));
    },
    expected: failed,
    kind: 'broken',
  },
  'a compressed bomb': {
    does: does.gzipped(`{"x":"${' '.repeat(40 * MIB)}"}`),
    expected: failed,
    kind: 'broken',
  },
  'an error event first': { does: does.stream([errorEvent]), expected: failed, kind: 'failed' },
  'an error event before content': { does: does.stream([role, errorEvent]), expected: failed, kind: 'failed' },
  'malformed bytes first': { does: does.stream(['data: {"choices":[}\n\n']), expected: failed, kind: 'broken' },
  'an empty stream': { does: does.stream([]), expected: failed, kind: 'cut' },
  'only comments': { does: does.stream([': hello\n\n', 'event: x\n\n']), expected: failed, kind: 'cut' },
  'a role and a clean end': { does: does.stream([role]), expected: failed, kind: 'cut' },
  'a role and a reset': { does: does.resets([role]), expected: failed, kind: 'cut' },
  'an endless first event': {
    does: does.endless(['data: {"choices":[{"index":0,"delta":{"content":"'], 'x'.repeat(MIB / 4)),
    expected: failed,
    kind: 'broken',
  },
}

const modes = [
  ['streamed', { stream: true }],
  ['whole', {}],
] as const
const names = Object.keys(rows)
/** Names of models: no spaces. */
const slug = (...parts: readonly string[]) => parts.join('_').replace(/[^\w.]+/g, '-')

let upstream: Upstream
let serving: Serving
const others: (() => void)[] = []

beforeAll(async () => {
  upstream = await Upstream.start()
  upstream.on('second', does.answersText('second'))
  const key = readFileSync(join(import.meta.dir, '../fixtures/tls/self-signed.key'))
  const cert = readFileSync(join(import.meta.dir, '../fixtures/tls/self-signed.crt'))
  const tls = createTlsServer({ key, cert }, (_, response) => void response.end('{}'))
  const plain = createServer((_, response) => void response.end('{}'))
  for (const server of [tls, plain]) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    others.push(() => void server.close())
  }
  const quiet = await Upstream.start()
  others.push(() => void quiet[Symbol.asyncDispose]())
  // Longer than anything takes on a busy machine, a resolver's search for a name that does not exist included.
  const patient = { connect_timeout_ms: 10_000, first_byte_timeout_ms: 20_000, idle_timeout_ms: 10_000 }
  const hasty = { connect_timeout_ms: 300, first_byte_timeout_ms: 400, idle_timeout_ms: 300 }
  const at = (base_url: string, timeouts = patient) => ({ dialect: 'openai', base_url, api_key: 'k', ...timeouts })
  const reachable = { up: at(upstream.url), slow: at(upstream.url, hasty) }
  const unreachable = {
    refuses: at(`http://127.0.0.1:${await closedPort()}/v1`),
    nowhere: at('http://provider.invalid/v1'),
    'self-signed': at(`https://127.0.0.1:${portOf(tls)}/v1`),
    'plain-for-tls': at(`https://127.0.0.1:${portOf(plain)}/v1`),
    'silent-for-tls': at(`https://127.0.0.1:${quiet.port}/v1`, hasty),
  }
  const models: Record<string, readonly string[]> = {}
  for (const [name, { does: scenario, kind }] of Object.entries(rows)) {
    for (const [mode] of modes) {
      for (const followed of ['alone', 'followed']) {
        // Each has a target of its own, so that none rests for the failures of another.
        const model = slug(name, mode, followed)
        const provider = kind === 'timeout' ? 'slow' : 'up'
        const target = `${typeof scenario === 'string' ? scenario : provider}/${model}`
        if (typeof scenario !== 'string') upstream.on(model, scenario)
        models[model] = followed === 'followed' ? [target, 'up/second'] : [target]
      }
    }
  }
  serving = new Serving({ providers: { ...reachable, ...unreachable }, models })
})

afterAll(async () => {
  await serving[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
  for (const end of others) end()
})

function send(port: number, model: string, body: JsonObject = {}): Promise<Answer> {
  return ask(port, chatBytes(model, body))
}

function chatBytes(model: string, body: JsonObject = {}): Uint8Array {
  const messages = [{ role: 'user', content: 'hi' }]
  return requestBytes('/v1/chat/completions', { key: KEY, body: { model, messages, ...body } })
}

/** Everything is closed but the connections that wait for the next request. */
async function expectNothingOpen(): Promise<void> {
  const stuck = upstream.calls.filter((call) => call.open && call.model !== 'second' && call.isAnswering)
  await Promise.all(stuck.map((call) => call.ended))
  expect(serving.ledger.wrong).toEqual([])
}

describe.each(modes)('before content, %s', (mode, body) => {
  test.each(names)('%s, alone', async (name) => {
    const { expected, kind, retryAfter, callers } = rows[name] ?? {}
    const model = slug(name, mode, 'alone')
    const answer = await send(serving.port, model, body)
    const { error } = answer.json() as { error: JsonObject }
    expect([answer.status, error['code']]).toEqual([...(expected ?? [])])
    expect(answer.text).not.toMatch(/127\.0\.0\.1|provider\.invalid|sk-|not your/)
    if (callers !== true) expect(String(error['message'])).toMatch(/provider/i)
    expect(answer.header('retry-after') ?? '').toMatch(retryAfter ?? /^$/)
    expect(answer.header('x-gateway-fallback-count')).toBeUndefined()
    const line = await serving.lineOf(answer.header('x-request-id'))
    expect(line['attempts']).toMatchObject([{ model, error: kind, ms: expect.any(Number) }])
    expect(line).not.toHaveProperty('cost_micro_usd')
    await expectNothingOpen()
  })

  test.each(names)('%s, and another', async (name) => {
    const { expected, kind, callers } = rows[name] ?? {}
    const answer = await send(serving.port, slug(name, mode, 'followed'), body)
    if (callers === true) {
      expect(answer.status).toBe(expected?.[0] ?? 0)
      return
    }
    expect([answer.status, answer.end, answer.header('x-gateway-fallback-count')]).toEqual([200, 'whole', '1'])
    expect(answer.text).toContain('second')
    const line = await serving.lineOf(answer.header('x-request-id'))
    expect(line).toMatchObject({ outcome: 'completed', fallbacks: 1 })
    expect(line['attempts']).toMatchObject([{ error: kind }, { model: 'second', status: 200 }])
    await expectNothingOpen()
  })
})

test('a kept connection that is closed under a request: it is sent once more, on a new connection', async () => {
  await using fickle = await Upstream.start({
    once: does.inTurn(does.answersText('first'), (call) => call.close()),
  })
  await using alone = new Serving({ providers: { up: fickle.url }, models: { m: ['up/once'] } })
  expect((await send(alone.port, 'm')).status).toBe(200)
  expect((await send(alone.port, 'm')).status).toBe(502)
  expect(fickle.calls.length).toBe(3)
  // Now no connection is kept, and a new one proves that the provider has seen the request.
  expect((await send(alone.port, 'm')).status).toBe(502)
  expect(fickle.calls.length).toBe(4)
  await alone.idle()
  expect(alone.ledger.wrong).toEqual([])
})

test('providers are not asked for compression: an uncompressed answer can be counted while it arrives', async () => {
  await using plain = await Upstream.start({ m: does.answersText('Hi') })
  await using alone = new Serving({ providers: { up: plain.url }, models: { m: ['up/m'] } })
  for (const [, body] of modes) expect((await send(alone.port, 'm', body)).status).toBe(200)
  expect(plain.calls.map((call) => call.header('accept-encoding'))).toEqual(['identity', 'identity'])
})

test('the name of a model comes from the configuration, whatever the provider calls itself', async () => {
  const liar = does.chatFrames(['Hi']).map((frame) => frame.replace('upstream-model', 'evil\\r\\nx-evil: 1'))
  await using lying = await Upstream.start({ m: does.stream(liar) })
  await using alone = new Serving({ providers: { up: lying.url }, models: { public: ['up/m'] } })
  const answer = await send(alone.port, 'public', { stream: true })
  expect([answer.status, answer.header('x-gateway-served-model'), answer.header('x-evil')]).toEqual([
    200,
    'public',
    undefined,
  ])
  expect(answer.text).not.toContain('evil')
})

test('a stream that never ends is cut at the hard limit, and settled', async () => {
  await using endless = await Upstream.start({
    m: async (call) => {
      await call.head200()
      await call.chunk(role)
      while (await call.chunk(hello)) await new Promise((resolve) => setImmediate(resolve))
    },
  })
  const provider = { dialect: 'openai', base_url: endless.url, api_key: 'k', total_timeout_ms: 500 }
  // Without an output limit, which would cut it sooner.
  const unlimited = { targets: [{ provider: 'up', model: 'm' }], price: { input: 1, output: 10 } }
  await using alone = new Serving({ providers: { up: provider }, models: { m: unlimited } })
  const answer = await send(alone.port, 'm', { stream: true })
  expect([answer.status, answer.end, answer.text.includes('[DONE]')]).toEqual([200, 'cut', false])
  expect(await alone.lineOf(answer.header('x-request-id'))).toMatchObject({ outcome: 'timed_out', usage: 'estimated' })
  expect(alone.ledger.wrong).toEqual([])
  await (await endless.call()).ended
})

describe('an answer that is longer than twice its output limit', () => {
  const LIMIT = 40
  const frames = (text: string, count: number) => does.chatFrames(Array.from({ length: count }, () => text))
  const asked = (text: string, count: number, body: JsonObject) => async () => {
    await using upstream = await Upstream.start({ m: does.stream(frames(text, count)) })
    await using alone = new Serving({ providers: { up: upstream.url }, models: { m: ['up/m'] } })
    const answer = await send(alone.port, 'm', { stream: true, ...body })
    const line = await alone.lineOf(answer.header('x-request-id'))
    expect(alone.ledger.wrong).toEqual([])
    const words = answer.text.split(JSON.stringify(text)).length - 1
    return { end: answer.end, words, done: answer.text.includes('[DONE]'), line, call: await upstream.call() }
  }

  test.each([
    ['max_tokens', { max_tokens: LIMIT }],
    ['max_completion_tokens', { max_completion_tokens: LIMIT }],
  ])('is cut there, and settled: %s', async (_, body) => {
    // Our own count of each is more than two tokens: the count is past its limit before the events are past theirs.
    const { end, words, done, line, call } = await asked('two words, ', 100 * LIMIT, body)()
    expect([end, done]).toEqual(['cut', false])
    expect(words).toBeLessThanOrEqual(2 * LIMIT)
    expect(line).toMatchObject({ outcome: 'provider_cut', usage: 'estimated' })
    expect(Number(line['output_tokens'])).toBeGreaterThan(2 * LIMIT)
    await call.ended
  })

  test.each([
    ['just as long', 'word', 2 * LIMIT, { max_tokens: LIMIT }],
    ['in letters, each an event', 'x', 4 * LIMIT, { max_tokens: LIMIT }],
    ['in a few long events', 'word '.repeat(200), LIMIT, { max_tokens: LIMIT }],
    ['with a limit too low to mean much', 'word', 30, { max_tokens: 1 }],
    ['without a limit of the caller', 'word', 5000, {}],
  ])('is not cut if it is %s', async (_, text, count, body) => {
    const { end, words, done, line } = await asked(text, count, body)()
    expect([end, words, done]).toEqual(['whole', count, true])
    expect(line).toMatchObject({ outcome: 'completed', usage: 'provider' })
  })
})

test('an endless answer of tool calls is cut, too', async () => {
  await using upstream = await Upstream.start({
    m: async (call) => {
      await call.head200()
      let index = 0
      const next = () => ({ index, id: `c${index++}`, function: { name: 'look_it_up' } })
      while (
        await call.chunk(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { tool_calls: [next()] } }] })}\n\n`)
      )
        await new Promise((resolve) => setImmediate(resolve))
    },
  })
  const provider = { dialect: 'openai', base_url: upstream.url, api_key: 'k', total_timeout_ms: 5000 }
  await using alone = new Serving({ providers: { up: provider }, models: { m: ['up/m'] } })
  const answer = await send(alone.port, 'm', { stream: true, max_tokens: 40 })
  expect([answer.status, answer.end]).toEqual([200, 'cut'])
  expect(await alone.lineOf(answer.header('x-request-id'))).toMatchObject({ outcome: 'provider_cut' })
  expect(alone.ledger.wrong).toEqual([])
  await (await upstream.call()).ended
})

test.each([
  ['input', '"prompt_tokens":1e12,"completion_tokens":2'],
  ['output', '"prompt_tokens":9,"completion_tokens":5e7'],
  ['cached input', '"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":5e7}'],
  ['cache writes', '"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cache_write_tokens":1e12}'],
])('an implausible figure costs the caller nothing: %s', async (_, usage) => {
  const absurd = does.chatFrames(['Hi']).map((frame) => frame.replace(/"usage":\{.*?\}/, `"usage":{${usage}}`))
  await using lying = await Upstream.start({ m: does.stream(absurd) })
  await using alone = new Serving({ providers: { up: lying.url }, models: { m: ['up/m'] } })
  for (const [, body] of modes) {
    const answer = await send(alone.port, 'm', body)
    expect(answer.status).toBe(200)
    expect(Number((await alone.lineOf(answer.header('x-request-id')))['cost_micro_usd'])).toBeLessThan(1000)
  }
})

test('implausible figures are replaced by our own count, and logged for the operator', async () => {
  const absurd = does
    .chatFrames(['Hi'])
    .map((frame) => frame.replace(/"usage":\{.*?\}/, '"usage":{"prompt_tokens":1e12,"completion_tokens":1e12}'))
  await using lying = await Upstream.start({ m: does.stream(absurd) })
  await using alone = new Serving({ providers: { up: lying.url }, models: { m: ['up/m'] } })
  const answer = await send(alone.port, 'm', { stream: true })
  const line = await alone.lineOf(answer.header('x-request-id'))
  expect(line).toMatchObject({ usage: 'estimated', outcome: 'completed' })
  expect(Number(line['cost_micro_usd'])).toBeLessThan(1000)
  const alarms = alone.lines.filter(({ level }) => level === 'error')
  expect(alarms).toMatchObject([{ event: 'provider.usage_implausible', provider: 'up', model: 'm' }])
})

test('more requests at once than the runtime sends by default: none waits for another', async () => {
  const many = 1000
  await using patient = await Upstream.start()
  const all = Promise.withResolvers<void>()
  patient.on('m', async (call) => {
    if (patient.calls.length === many) all.resolve()
    await all.promise
    await does.stream([role, hello, ...restOf])(call)
  })
  await using gateway = await Gateway.start({ providers: { up: patient.url }, models: { m: ['up/m'] } })
  const callers = await Promise.all(Array.from({ length: many }, () => Caller.connect(gateway.port)))
  for (const caller of callers) caller.send(chatBytes('m', { stream: true }))
  const answers = await Promise.all(callers.map((caller) => caller.answer()))
  expect(answers.filter(({ status, end }) => status !== 200 || end !== 'whole')).toEqual([])
  for (const caller of callers) caller.close()
})

/** Why a provider cannot be reached, and its own words: in the log for operators, and never for callers. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { closedPort, portOf, Upstream } from '../support/upstream.ts'
import { BlackHole } from '../transport/black-hole.ts'

const FOLDER = join(import.meta.dir, '../fixtures/tls')
const pem = (name: string) => readFileSync(join(FOLDER, name))
const [role = '', hello = ''] = does.chatFrames(['Hello'])
const errorBody = (message: string) =>
  JSON.stringify({ error: { message, type: 'server_error', code: 'engine_on_fire', param: null } })
const WORDS = 'The engine of account acct_1234567890 at https://internal.example.com/x burns.'

const stack = new AsyncDisposableStack()
let gateway: Gateway

beforeAll(async () => {
  const upstream = stack.use(
    await Upstream.start({
      silent: does.silent(),
      stalls: does.stalls([role, hello]),
      resets: does.resets([]),
      ends: (call) => call.close(),
      words: does.json(500, errorBody(WORDS)),
      limits: does.json(429, errorBody('Rate limit reached for gpt-5-mini.')),
      quotes: does.json(500, errorBody('Cannot read "my secret life began at sea" of `model`')),
      long: does.json(500, errorBody('word '.repeat(200))),
      event: does.stream([role, `data: ${errorBody('It ends here.')}\n\n`]),
    }),
  )
  const hole = stack.use(await BlackHole.start())
  const tls = (certificate: string, key = 'leaf.key') => {
    const server = createServer({ key: pem(key), cert: pem(`${certificate}.crt`) })
    stack.defer(() => void server.close())
    return new Promise<string>((resolve) =>
      server.listen(0, '127.0.0.1', () => resolve(`https://127.0.0.1:${portOf(server)}/v1`)),
    )
  }
  const places: Readonly<Record<string, string>> = {
    refused: `http://127.0.0.1:${await closedPort()}/v1`,
    nowhere: 'http://nowhere.invalid/v1',
    hole: `http://127.0.0.1:${hole.port}/v1`,
    expired: await tls('expired'),
    'self-signed': await tls('self-signed', 'self-signed.key'),
    'wrong-name': await tls('wrong-name'),
  }
  const entry = (base_url: string) => ({
    dialect: 'openai',
    base_url,
    api_key: 'k',
    connect_timeout_ms: 500,
    first_byte_timeout_ms: 700,
    idle_timeout_ms: 300,
  })
  const scenarios = ['silent', 'stalls', 'resets', 'ends', 'words', 'limits', 'quotes', 'long', 'event']
  gateway = stack.use(
    await Gateway.start({
      providers: {
        ...Object.fromEntries(Object.entries(places).map(([name, url]) => [name, entry(url)])),
        up: entry(upstream.url),
      },
      models: {
        ...Object.fromEntries(Object.keys(places).map((name) => [name, [`${name}/m`]])),
        ...Object.fromEntries(scenarios.map((name) => [name, [`up/${name}`]])),
      },
      env: { NODE_EXTRA_CA_CERTS: join(FOLDER, 'authority.crt') },
    }),
  )
})

afterAll(() => stack.disposeAsync())

/** The answer, and the last attempt of its log line. */
async function failed(model: string, more: JsonObject = {}) {
  const body = { model, messages: [{ role: 'user', content: 'hi' }], ...more }
  const answer = await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
  const line = await gateway.request(answer.header('x-request-id'))
  const attempts = isArray(line['attempts']) ? line['attempts'].filter(isObject) : []
  return { answer, line, attempt: attempts.at(-1) ?? {} }
}

test.each([
  ['refused', 'unreachable', 'ECONNREFUSED'],
  ['nowhere', 'unreachable', 'ENOTFOUND'],
  ['expired', 'unreachable', 'CERT_HAS_EXPIRED'],
  ['self-signed', 'unreachable', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ['wrong-name', 'unreachable', 'ERR_TLS_CERT_ALTNAME_INVALID'],
  ['resets', 'unreachable', 'ECONNRESET'],
  ['ends', 'unreachable', 'ECONNRESET'],
  ['hole', 'timeout', 'connect_timeout'],
  ['silent', 'timeout', 'first_byte_timeout'],
])('%s: %s because of %s', async (model, error, cause) => {
  const { answer, attempt } = await failed(model)
  expect(attempt).toMatchObject({ error, cause })
  expect(attempt).not.toHaveProperty('provider_message')
  expect(answer.text).not.toContain(cause)
})

test('a stream that falls silent has the phase, too', async () => {
  const { line, attempt } = await failed('stalls', { stream: true })
  expect(line).toMatchObject({ outcome: 'timed_out', status: 200, error: 'upstream_timeout' })
  expect(attempt).toMatchObject({ status: 200, error: 'timeout', cause: 'idle_timeout' })
})

test('the code and the message of the provider are in the log without secrets, and not in the answer', async () => {
  const { answer, attempt } = await failed('words')
  expect(attempt).toMatchObject({
    status: 500,
    error: 'failed',
    provider_code: 'engine_on_fire',
    provider_message: 'The engine of account [redacted] at [url] burns.',
  })
  expect(attempt).not.toHaveProperty('cause')
  expect(answer.text).not.toMatch(/engine|burns/)
  expect((await failed('limits')).attempt['provider_message']).toBe('Rate limit reached for gpt-5-mini.')
  expect((await failed('event')).attempt).toMatchObject({ error: 'failed', provider_message: 'It ends here.' })
})

test('what it quotes of a conversation is left out, and it has at most 300 characters', async () => {
  const { attempt } = await failed('quotes')
  expect(attempt['provider_message']).toBe('Cannot read "…" of `model`')
  expect(String((await failed('long')).attempt['provider_message'])).toHaveLength(300)
})

test('the event of a rest is a warning with the status or the cause, and GET /api/targets has them', async () => {
  for (let turn = 0; turn < 2; turn++) await failed('refused')
  for (let turn = 0; turn < 2; turn++) await failed('words')
  const opened = (provider: string, model: string) =>
    gateway.line((line) => line['event'] === 'target.open' && line['provider'] === provider && line['model'] === model)
  expect(await opened('refused', 'm')).toMatchObject({ level: 'warn', reason: 'unreachable', cause: 'ECONNREFUSED' })
  expect(await opened('up', 'words')).toMatchObject({ level: 'warn', reason: 'failed', status: 500 })
  for (;;) {
    const { rows } = Object(await (await fetch(`${gateway.adminUrl}/api/targets`)).json())
    const row = rows.find((each: JsonObject) => each['provider'] === 'refused')
    if (row.last_error === null) continue
    expect(row.last_error).toMatchObject({ error: 'unreachable', status: null, cause: 'ECONNREFUSED' })
    return
  }
})

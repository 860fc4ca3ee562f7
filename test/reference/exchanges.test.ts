/** The check by which end-to-end tests hold each exchange to `docs/openapi.json` finds what does not match. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { problemOfExchange, type RecordedAnswer, type RecordedRequest } from '../support/api-exchange.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { ExchangeRecorder } from '../support/exchange-recorder.ts'

const golden = (file: string) => readFileSync(join(import.meta.dir, '../fixtures/callers', file), 'utf8')

const BODY = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
const IDS = { 'x-request-id': 'a', 'request-id': 'a' }
const SERVED = {
  ...IDS,
  'content-type': 'application/json',
  'x-gateway-requested-model': 'm',
  'x-gateway-served-model': 'm',
  'x-gateway-fallback-count': '0',
}
const { 'x-request-id': _id, ...WITHOUT_ID } = SERVED
const STREAM = { ...SERVED, 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' }
const FAILED = { ...IDS, 'content-type': 'application/json', 'cache-control': 'no-store' }

function request(path = '/v1/chat/completions', body: object = BODY): RecordedRequest {
  return { method: 'POST', path, headers: new Map(), body: JSON.stringify(body) }
}

function answer(status: number, headers: Readonly<Record<string, string>>, body: string): RecordedAnswer {
  return { status, headers: new Map(Object.entries(headers)), body, isWhole: true }
}

const failure = (code: string | null, type = 'invalid_request_error') =>
  JSON.stringify({ error: { message: 'm', type, param: null, code } })
const messagesFailure = (type: string) =>
  JSON.stringify({ type: 'error', error: { type, message: 'm' }, request_id: 'a' })

const whole = golden('chat/text.json')
const stream = golden('chat/text.sse')
const { messages: _, ...withoutMessages } = BODY

test.each([
  ['a whole answer', request(), answer(200, SERVED, whole)],
  ['a stream', request(), answer(200, STREAM, stream)],
  ['a stream that was cut', request(), { ...answer(200, STREAM, stream.slice(0, 400)), isWhole: false }],
  ['an error', request(), answer(429, { ...FAILED, 'retry-after': '7' }, failure('rate_limit_exceeded', 'tokens'))],
  ['an error of the provider', request(), answer(400, FAILED, failure('context_length_exceeded'))],
  [
    'an error on Messages',
    request('/v1/messages'),
    answer(401, { ...FAILED, 'www-authenticate': 'Bearer' }, messagesFailure('authentication_error')),
  ],
  ['an unknown path', request('/v1/other'), answer(404, FAILED, failure('unknown_url'))],
])('%s matches', (_what, sent, got) => {
  expect(problemOfExchange(sent, got)).toBeUndefined()
})

test.each([
  ['another status', request(), answer(418, FAILED, failure('teapot')), 'no answer of this status'],
  ['a missing header', request(), answer(200, WITHOUT_ID, whole), 'x-request-id is missing'],
  ['a header without a place', request(), answer(200, { ...SERVED, 'x-new': '1' }, whole), 'x-new'],
  [
    'a header of another form',
    request(),
    answer(429, { ...FAILED, 'retry-after': '90' }, failure('rate_limit_exceeded')),
    'retry-after',
  ],
  ['an unknown code', request(), answer(503, FAILED, failure('new_code')), 'new_code'],
  [
    'an unknown type on Messages',
    request('/v1/messages'),
    answer(503, FAILED, messagesFailure('api_error')),
    'api_error',
  ],
  [
    'the shape of other paths',
    request('/v1/messages'),
    answer(503, FAILED, failure('overloaded')),
    'MessagesPathError',
  ],
  ['a new field', request(), answer(200, SERVED, whole.replace('{', '{"new":1,')), 'additional'],
  ['a new event', request(), answer(200, STREAM, 'data: {"object":"new"}\n\n'), 'ChatChunk'],
  ['another content type', request(), answer(200, { ...SERVED, 'content-type': 'text/plain' }, whole), 'text/plain'],
  ['a request that should not pass', request(undefined, withoutMessages), answer(200, SERVED, whole), 'ChatRequest'],
])('%s is found', (_what, sent, got, problem) => {
  expect(problemOfExchange(sent, got)).toContain(problem)
})

test('the recorder passes bytes on, and throws at the end for an answer that does not match', async () => {
  const answers = [whole, '{"object":"other"}', whole]
  using server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: () => new Response(answers.shift(), { headers: SERVED }),
  })
  const chat = requestBytes('/v1/chat/completions', { body: BODY })
  const port = server.port ?? 0
  const good = await ExchangeRecorder.before(port)
  expect((await ask(good.port, chat)).text).toBe(whole)
  expect(() => good.finish()).not.toThrow()
  const bad = await ExchangeRecorder.before(port)
  for (let i = 0; i < 2; i++) await ask(bad.port, chat)
  expect(() => bad.finish()).toThrow('1 exchanges do not match docs/openapi.json:\nPOST /v1/chat/completions, 200')
})

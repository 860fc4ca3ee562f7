/**
 * What callers get when providers refuse: status, code, a message without secrets, when to retry; and which
 * candidates are called.
 */

import { describe, expect, test } from 'bun:test'
import { type Fixture, fixtures } from '../support/fixtures.ts'
import * as does from '../support/scenarios.ts'
import { closedPort, type Scenario } from '../support/upstream.ts'
import { lastingStage, STREAM, Stage, seen } from './stage.ts'

interface Expected {
  readonly status: number
  readonly code: string | null
  /** `error` of the attempt in the log line. */
  readonly kind: string
  readonly retryAfter?: string
  /** The provider's own message is shown. */
  readonly message?: string
}

const overloaded: Expected = { status: 503, code: 'overloaded', kind: 'overloaded', retryAfter: '1' }
const credential: Expected = { status: 502, code: 'upstream_failed', kind: 'credential' }
const failed: Expected = { status: 502, code: 'upstream_failed', kind: 'failed' }
const timeout: Expected = { status: 504, code: 'upstream_timeout', kind: 'timeout' }
const limited = (retryAfter = '1'): Expected => ({
  status: 429,
  code: 'upstream_rate_limited',
  kind: 'rate_limited',
  retryAfter,
})
/** The caller's own mistake: no other candidate is called. */
const rejected = (message: string, code: string | null = null): Expected => ({
  status: 400,
  code,
  kind: 'rejected',
  message,
})

const expected: Readonly<Record<string, Expected>> = {
  'openai-401': credential,
  'openai-404-model': failed,
  'openai-400-context': rejected("This model's maximum context length is 8192 tokens.", 'context_length_exceeded'),
  'openai-429-rate': limited('2'),
  'openai-429-quota': { ...credential, kind: 'credit_exhausted' },
  'openai-503': overloaded,
  'azure-400-content-filter': rejected(
    "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    'content_filter',
  ),
  'azure-429': limited('6'),
  'anthropic-529': overloaded,
  'anthropic-429': limited('12'),
  'anthropic-400': rejected('messages: roles must alternate'),
  'anthropic-400-temperature': rejected('temperature: Extra inputs are not permitted'),
  'anthropic-413': {
    status: 413,
    code: 'request_too_large',
    kind: 'too_large',
    message: 'Request exceeds the maximum size',
  },
  'gemini-429': limited(),
  // Google answers 400 if our key is wrong.
  'gemini-400': credential,
  'gemini-503-array': overloaded,
  'bedrock-429': limited(),
  'vertex-401': credential,
  'vertex-403': credential,
  'vertex-404': failed,
  'vertex-429': limited(),
  // Without the adapter of `vertex`, only its status is known.
  'vertex-400-precondition': rejected('Precondition check failed.'),
  'vertex-400-array': rejected(
    'Invalid JSON payload received. Unknown name "id" at \'contents[1].parts[0].function_call\': Cannot find field.',
  ),
  'vertex-claude-400': rejected('prompt is too long: 210000 tokens > 200000 maximum', 'context_length_exceeded'),
  'vertex-claude-404': failed,
  'vertex-claude-429': limited(),
  'vertex-claude-529': overloaded,
  'openrouter-502': failed,
  'vllm-400': rejected('max_tokens must be at least 1'),
  'cloudflare-524': timeout,
}

const errors = fixtures('errors/').map((fixture) => {
  const name = fixture.file.replace(/^errors\/|\.\w+$/g, '')
  const wanted = expected[name]
  if (wanted === undefined) throw new Error(`nothing is expected of ${name}`)
  return [name, wanted, answering(fixture)] as const
})

function answering({ status, bytes, content_type, headers }: Fixture): Scenario {
  return does.json(status, bytes, { 'content-type': content_type, ...headers })
}

/** One secret of each kind that providers quote, inside a message that a caller may see. */
const SECRETS = [
  ...['sk-proj-abcdef0123456789', 'Bearer abc.def-0123456789', 'https://eu-1.internal.example.com/v1/x?key=1'],
  ...[
    '10.1.2.3:8443',
    'org-AbCdEf123456',
    '7f3e1c52-98a1-4c1e-9f21-0123456789ab',
    'ops@example.com',
    'node7.corp.internal',
  ],
  ...['arn:aws:bedrock:eu-west-1:123456789012:model/x', '123456789012', 'req_011CSHoEeqs5C35K2UUqR7Fy'],
]

const words = (text: string) => JSON.stringify({ error: { message: text, type: 'invalid_request_error' } })
const hour = { 'retry-after': '3600' }

/** A credential without a known form, in each place of an answer that may quote it. */
const own = words('The key provider-key-of-p0 is wrong.')
const ownSecrets = {
  'own-in-400': does.json(400, own),
  'own-in-200': does.json(200, own),
  'own-in-event': does.stream([`data: ${own}\n\n`]),
  'own-in-later-event': does.stream([does.chatFrames([])[0] ?? '', `data: ${own}\n\n`]),
}

// Each is called once: some rest after that.
const each = ['streamed', 'whole'].flatMap((mode) =>
  errors.flatMap(([name, , scenario]) => [
    [`${name}-${mode}`, scenario] as const,
    [`${name}-${mode}-2`, [scenario, does.answersText('second')]] as const,
  ]),
)
const stage = await lastingStage(
  {
    ...Object.fromEntries(each),
    secrets: does.json(400, words(`No: ${SECRETS.join(' and ')} are wrong.`)),
    ...ownSecrets,
    'secret-502': does.json(401, words(`Key ${SECRETS[0]} is wrong.`)),
    long: does.json(400, words('long '.repeat(10_000))),
    huge: does.json(400, words('x'.repeat(300_000))),
    'rates-mixed': [does.json(429, '{}', { 'retry-after': '30' }), does.json(429, '{}', { 'retry-after': '7' })],
    'rate-hour': does.json(429, '{}', hour),
    'overload-after': does.json(503, '{}', { 'retry-after': '9' }),
    'rate-then-overload': [does.json(429, '{}', hour), does.json(503, '{}')],
    'fail-then-rate': [does.json(500, '{}'), does.json(429, '{}')],
    'rate-then-fail': [does.json(429, '{}'), does.json(500, '{}')],
    'all-three': [does.json(500, '{}'), does.json(503, '{}'), does.json(504, '{}')],
    'fourth-is-not-asked': [
      does.json(500, '{}'),
      does.json(500, '{}'),
      does.json(500, '{}'),
      does.answersText('never'),
    ],
    redirect: does.redirects('http://127.0.0.1:1/'),
    'not-http': does.raw('SMTP ready\r\n'),
    'no-answer': does.raw(''),
    'reset-at-once': does.resets([]),
    'large-header': does.hugeHeader(60_000, does.chatFrames(['Hi'])),
    'huge-header': does.hugeHeader(600_000, does.chatFrames(['Hi'])),
  },
  // Its requests would leave connections that a request may take.
  { config: { routing: { probe: false } } },
)

describe.each([
  ['streamed', STREAM],
  ['whole', {}],
] as const)('%s', (mode, body) => {
  test.each(errors)('%s alone', async (name, wanted) => {
    const answer = await stage.ask(`${name}-${mode}`, body)
    expect([answer.status, answer.header('retry-after')]).toEqual([wanted.status, wanted.retryAfter])
    const message = wanted.message ?? expect.not.stringContaining('key')
    expect(answer.json()).toEqual({ error: { message, type: expect.any(String), param: null, code: wanted.code } })
    expect(answer.header('cache-control')).toBe('no-store')
    expect(answer.header('x-gateway-fallback-count')).toBeUndefined()
    const line = await stage.lineOf(answer)
    const outcome = wanted.status === 504 ? 'timed_out' : 'refused'
    expect(line).toMatchObject({
      status: wanted.status,
      outcome,
      attempts: [{ provider: 'p0', model: `${name}-${mode}`, error: wanted.kind }],
    })
    expect(line).not.toHaveProperty('cost_micro_usd')
  })

  test.each(errors)('%s before one that works', async (name, { status, kind }) => {
    const answer = await stage.ask(`${name}-${mode}-2`, body)
    const shown = kind === 'rejected' || kind === 'too_large'
    expect(answer.status).toBe(shown ? status : 200)
    if (shown) return
    expect([answer.header('x-gateway-fallback-count'), answer.text.includes('second')]).toEqual(['1', true])
    expect((await stage.lineOf(answer))['attempts']).toMatchObject([
      { provider: 'p0', error: kind },
      { provider: 'p1', status: 200 },
    ])
  })
})

test('a provider that rejects our key is logged for the operator', async () => {
  await stage.gateway.line(
    (line) => line['level'] === 'error' && line['provider'] === 'p0' && line['model'] === 'openai-401-streamed',
  )
})

test.each([
  ['rates-mixed', 429, 'upstream_rate_limited', '7'],
  ['rate-hour', 429, 'upstream_rate_limited', '60'],
  ['overload-after', 503, 'overloaded', '9'],
  ['rate-then-overload', 503, 'overloaded', '60'],
  ['fail-then-rate', 503, 'overloaded', '1'],
  ['rate-then-fail', 502, 'upstream_failed', undefined],
  ['all-three', 504, 'upstream_timeout', undefined],
  ['fourth-is-not-asked', 502, 'upstream_failed', undefined],
  ['redirect', 502, 'upstream_failed', undefined],
  ['not-http', 502, 'upstream_failed', undefined],
  ['no-answer', 502, 'upstream_failed', undefined],
  ['reset-at-once', 502, 'upstream_failed', undefined],
  ['huge', 400, null, undefined],
] as const)('%s: %i %s', async (name, status, code, retryAfter) => {
  const answer = await stage.ask(name)
  expect([answer.status, answer.header('retry-after')]).toEqual([status, retryAfter])
  expect(answer.json()).toMatchObject({ error: { code } })
  for (const { calls } of stage.upstreams) expect(calls.filter(({ model }) => model === name).length).toBeLessThan(2)
})

test('one POST is sent once, whatever happens to its connection', () => {
  expect(['not-http', 'no-answer', 'reset-at-once'].map((name) => stage.calls(name))).toEqual([1, 1, 1])
  expect(stage.calls('fourth-is-not-asked', 3)).toBe(0)
})

test('a large header does not fail a request, and a huge one is not an answer', async () => {
  expect(seen((await stage.ask('large-header', STREAM)).text).text).toBe('Hi')
  const answer = await stage.ask('huge-header', STREAM)
  expect(answer.status).toBe(502)
  expect(answer.json()).toMatchObject({ error: { code: 'upstream_failed' } })
})

test('messages are shown without secrets, and shortened', async () => {
  const shown = await stage.ask('secrets')
  expect(shown.status).toBe(400)
  for (const secret of SECRETS) expect(shown.text).not.toContain(secret)
  expect(shown.text).toContain('No: ')
  const hidden = await stage.ask('secret-502')
  expect([hidden.status, hidden.text.includes('wrong')]).toEqual([502, false])
  expect((await stage.ask('long')).text.length).toBeLessThan(700)
})

test.each(Object.keys(ownSecrets))('the provider’s own key is not shown: %s', async (name) => {
  for (const body of [STREAM, {}]) {
    const answer = await stage.ask(name, body)
    expect([answer.status, answer.json()]).toMatchObject([400, { error: { message: 'The key [redacted] is wrong.' } }])
  }
})

test('a provider whose port nobody listens on is unreachable: 502', async () => {
  await using alone = await Stage.start(
    { gone: does.silent() },
    { provider: { base_url: `http://127.0.0.1:${await closedPort()}/v1` } },
  )
  const answer = await alone.ask('gone', STREAM)
  expect([answer.status, answer.json()]).toMatchObject([502, { error: { code: 'upstream_failed' } }])
  expect(await alone.lineOf(answer)).toMatchObject({ attempts: [{ provider: 'p0', error: 'unreachable' }] })
})

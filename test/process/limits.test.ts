/** Every limit through the running program, with both kinds of ledger, as callers of the three dialects meet it. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { field } from '../support/bytes.ts'
import { type Answer, ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, chatFrames, json, silent } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

/** A cent a token: each answer takes 9 tokens in and 3 out, and costs twelve cents. */
const PRICE = { input: 10_000, output: 10_000 }

/** What leaves room for one request and not for two. */
const limits: Readonly<Record<string, JsonObject>> = {
  requests: { requests_per_minute: 1 },
  tokens: { tokens_per_minute: 13 },
  concurrent_requests: { concurrent_requests: 1 },
  day: { spend: { day: 0.15 } },
  month: { spend: { month: 0.15 } },
  total: { spend: { total: 0.15 } },
}

const spendMessage = (window: string, end: string) =>
  new RegExp(
    `^This request may cost \\$0\\.\\d+, more than is left of the ${window} spend limit ` +
      `of \\$0\\.15 for (.+?)\\. ${end}\\.( With an output limit of at most \\d+ tokens? it passes now\\.)?$`,
  )

/** The message of each limit, and the error `type` if the limit is a rate. */
const words: Readonly<Record<string, { readonly message: RegExp; readonly type: string }>> = {
  requests: {
    message: /^Rate limit reached: 1 request per minute for (.+)\. Try again in \d+ s\.$/,
    type: 'requests',
  },
  tokens: { message: /^Rate limit reached: 13 tokens per minute for (.+)\. Try again in \d+ s\.$/, type: 'tokens' },
  concurrent_requests: {
    message: /^Rate limit reached: 1 concurrent request for (.+)\. Try again in \d+ s\.$/,
    type: 'concurrent_requests',
  },
  day: {
    message: spendMessage('daily', 'The limit renews at \\d{4}-\\d\\d-\\d\\dT00:00:00Z'),
    type: 'insufficient_quota',
  },
  month: {
    message: spendMessage('monthly', 'The limit renews at \\d{4}-\\d\\d-01T00:00:00Z'),
    type: 'insufficient_quota',
  },
  total: {
    message: spendMessage('total', 'The limit does not renew'),
    type: 'insufficient_quota',
  },
}

const cases = Object.keys(limits).flatMap((limit) => [
  { limit, scope: 'organization' },
  { limit, scope: 'key' },
])

const idOf = (limit: string, scope: string) => `${scope}-${limit.replace('_', '-')}`
const keyOf = (id: string) => `key-of-${id}-0123456789`

function organization(id: string, own: JsonObject, ofKey: JsonObject = {}): JsonObject {
  return { id, limits: own, keys: [{ id: `k-${id}`, key: keyOf(id), limits: ofKey }] }
}

const organizations = [
  ...cases.map(({ limit, scope }) => {
    const id = idOf(limit, scope)
    return scope === 'key' ? organization(id, {}, limits[limit]) : organization(id, limits[limit] ?? {})
  }),
  organization('both', { requests_per_minute: 100, spend: { day: 0.15 } }, { tokens_per_minute: 1000 }),
  organization('small', { tokens_per_minute: 50 }),
  organization('alone', { concurrent_requests: 1 }),
  organization('poor', { spend: { day: 0.05 } }),
  organization('free', {}),
]

async function start(upstream: Upstream, more: JsonObject): Promise<Gateway> {
  upstream.on('m', (call) =>
    call.json['stream'] === true
      ? call.head200().then(async () => {
          for (const frame of chatFrames(['Hel', 'lo.'])) await call.chunk(frame)
          await call.end()
        })
      : call.answer(200, chatBody('Hello.')),
  )
  upstream.on('slow', silent())
  upstream.on('bad', json(400, '{"error":{"message":"no"}}'))
  upstream.on('down', json(500, '{}'))
  const model = (name: string) => ({
    name,
    targets: [{ provider: 'up', model: name }],
    price: PRICE,
    max_output_tokens: 4096,
  })
  return await Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: Object.fromEntries(['m', 'slow', 'bad', 'down'].map((name) => [name, model(name)])),
    config: { organizations, ...more },
  })
}

const paths = ['/v1/chat/completions', '/v1/responses', '/v1/messages'] as const
type Path = (typeof paths)[number]

function bodyFor(path: Path, model: string, more: JsonObject): JsonObject {
  const messages = [{ role: 'user', content: 'Hi' }]
  return path === '/v1/responses'
    ? { model, input: messages, max_output_tokens: 4, ...more }
    : { model, messages, max_tokens: 4, ...more }
}

describe.each(['embedded', 'redis'])('%s', (kind) => {
  let redis: RedisServer
  let upstream: Upstream
  let gateway: Gateway

  beforeAll(async () => {
    redis = await RedisServer.start()
    upstream = await Upstream.start()
    gateway = await start(upstream, kind === 'redis' ? { ledger: { redis: redis.url } } : {})
  })
  afterAll(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
    await redis[Symbol.asyncDispose]()
  })

  /** Asked again where Redis answered too late, as it may on a busy machine. */
  async function say(id: string, path: Path = paths[0], model = 'm', more: JsonObject = {}): Promise<Answer> {
    const answer = await ask(gateway.port, requestBytes(path, { key: keyOf(id), body: bodyFor(path, model, more) }))
    return answer.status === 503 ? say(id, path, model, more) : answer
  }

  test.each(cases)('$limit of the $scope: which, of whom, until when; in the shape of each dialect', async (row) => {
    const id = idOf(row.limit, row.scope)
    await using first = row.limit === 'concurrent_requests' ? await Caller.connect(gateway.port) : undefined
    if (first === undefined) expect((await say(id)).status).toBe(200)
    else {
      first.send(requestBytes(paths[0], { key: keyOf(id), body: bodyFor(paths[0], 'slow', {}) }))
      await upstream.call('slow', row.scope === 'key' ? 1 : 0)
    }
    const isRate = ['requests', 'tokens', 'concurrent_requests'].includes(row.limit)
    const expected = words[row.limit]
    const whose = row.scope === 'key' ? `key 'k-${id}'` : `organisation '${id}'`
    const renewal = { day: /^\d{4}-\d\d-\d\dT00:00:00Z$/, month: /^\d{4}-\d\d-01T00:00:00Z$/ }[row.limit]
    const budget = {
      ...{ limit: 0.15, spent: 0.12, window: row.limit },
      scope: row.scope === 'key' ? `key:k-${id}` : `organization:${id}`,
      resets_at: renewal === undefined ? null : expect.stringMatching(renewal),
    }
    const more = isRate ? {} : budget
    for (const path of paths) {
      const refused = await say(id, path)
      const body = JSON.parse(refused.text)
      const message = body.error.message
      expect([path, refused.status, expected?.message.exec(message)?.[1]]).toEqual([path, 429, whose])
      expect(body).toEqual(
        path === '/v1/messages'
          ? {
              type: 'error',
              error: { type: 'rate_limit_error', message, ...more },
              request_id: refused.header('request-id'),
            }
          : {
              error: {
                ...{ message, type: expected?.type, param: null, ...more },
                code: isRate ? 'rate_limit_exceeded' : 'insufficient_quota',
              },
            },
      )
      const retryAfter = refused.header('retry-after')
      if (isRate) expect(Number(retryAfter)).toBeWithin(1, 61)
      else expect([retryAfter, refused.header('x-should-retry')]).toEqual([undefined, 'false'])
    }
    // The same for a streamed request: there is no stream, and so a status.
    expect((await say(id, paths[0], 'm', { stream: true })).status).toBe(429)
    if (row.limit !== 'requests' && row.limit !== 'tokens') return
    const refused = await say(id)
    expect(refused.header(`x-ratelimit-limit-${row.limit}`)).toBe(row.limit === 'requests' ? '1' : '13')
    expect(Number(refused.header(`x-ratelimit-remaining-${row.limit}`))).toBeWithin(0, 4)
    expect(refused.header(`x-ratelimit-reset-${row.limit}`)).toMatch(/^(\d+ms|[\d.]+s|1m0s)$/)
  })

  test('a concurrent request no longer counts after its caller disconnects', async () => {
    const id = idOf('concurrent_requests', 'key')
    // The caller of the test before has left, and weir reads on for a moment: only then may the next request run.
    while ((await say(id)).status === 429) await Bun.sleep(10)
    const before = upstream.calls.filter(({ model }) => model === 'slow').length
    const caller = await Caller.connect(gateway.port)
    caller.send(requestBytes(paths[0], { key: keyOf(id), body: bodyFor(paths[0], 'slow', {}) }))
    const call = await upstream.call('slow', before)
    expect((await say(id)).status).toBe(429)
    await caller[Symbol.asyncDispose]()
    await call.ended
    await gateway.line(
      (line) => line['outcome'] === 'caller_left' && line['key'] === `k-${id}` && line['provider'] === 'up',
    )
    while ((await say(id)).status === 429) await Bun.sleep(10)
  })

  test('if only one request may run, a caller with its answer may send the next at once', async () => {
    for (let i = 0; i < 30; i++) {
      const answer = await say('alone', paths[i % 3], 'm', i % 2 === 0 ? {} : { stream: true })
      expect([i, answer.status]).toEqual([i, 200])
    }
  })

  test('every answer under a rate limit has the remaining amount; without a limit there is none', async () => {
    const left = async (path: Path, model: string, more: JsonObject = {}) => {
      const { head, status } = await say('both', path, model, more)
      expect(field(head, 'x-ratelimit-limit-requests')).toBe('100')
      expect(field(head, 'x-ratelimit-limit-tokens')).toBe('1000')
      return [status, Number(field(head, 'x-ratelimit-remaining-requests'))]
    }
    expect(await left(paths[0], 'm')).toEqual([200, 99])
    // From here on the spend limit refuses: a refused request takes nothing from the rates either.
    for (const path of paths) expect(await left(path, 'm')).toEqual([429, 99])
    const { head } = await say('free')
    expect(head.fields.filter(([name]) => name.toLowerCase().startsWith('x-ratelimit'))).toEqual([])
  })

  test('a request larger than the limit itself: the error states that waiting does not help', async () => {
    for (const path of paths) {
      const large = await say('small', path, 'm', path === paths[1] ? { max_output_tokens: 99 } : { max_tokens: 99 })
      const { message } = JSON.parse(large.text).error
      expect([large.status, large.header('x-should-retry'), large.header('retry-after')]).toEqual([
        429,
        'false',
        undefined,
      ])
      expect(message).toMatch(
        /^This request needs up to 1\d\d tokens, more than the whole limit of 50 tokens per minute for /,
      )
      expect(message).toMatch(/organisation 'small'\. Waiting does not help: /)
    }
    expect((await say('small')).status).toBe(200)
    const dear = await say('poor')
    expect(JSON.parse(dear.text).error).toMatchObject({ code: 'insufficient_quota', type: 'insufficient_quota' })
    expect(JSON.parse(dear.text).error.message).toMatch(
      /^This request may cost \$0\.\d\d, more than the daily spend limit of \$0\.05 for organisation 'poor'\. /,
    )
    expect(JSON.parse(dear.text).error.message).toMatch(
      / for organisation 'poor'\. Waiting does not help\.( With an output limit of at most \d+ tokens .+)?$/,
    )
  })

  test('a failed request costs nothing, because the provider charges nothing', async () => {
    for (const [model, status] of [
      ['bad', 400],
      ['down', 502],
    ] as const) {
      const answer = await say('free', paths[0], model)
      expect(answer.status).toBe(status)
      expect((await gateway.request(answer.header('x-request-id')))['cost_micro_usd']).toBeUndefined()
    }
  })
})

import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { field } from '../support/bytes.ts'
import { type Answer, ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json, silent } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

setDefaultTimeout(60_000)

/** So that a dollar is some 80 answers: those of the last moment, which are held and not settled yet, are few of them. */
const PRICE = { input: 1000, output: 1000 }

async function gatewayWith(upstream: Upstream, limits: JsonObject, more: JsonObject = {}): Promise<Gateway> {
  upstream.on('m', json(200, chatBody('Hello.')))
  upstream.on('slow', silent())
  const model = (name: string) => ({
    name,
    targets: [{ provider: 'up', model: name }],
    price: PRICE,
    max_output_tokens: 4,
  })
  return await Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: model('m'), slow: model('slow') },
    config: {
      organizations: [{ id: 'acme', limits, keys: [{ id: 'k', key: KEY }] }],
      ...more,
    },
  })
}

function say(gateway: Gateway, model = 'm', path = '/v1/chat/completions'): Promise<Answer> {
  const body = JSON.stringify({ model, max_tokens: 4, messages: [{ role: 'user', content: 'Hi' }] })
  return ask(gateway.port, requestBytes(path, { key: KEY, body }))
}

const errorOf = (answer: Answer) => JSON.parse(answer.text).error

describe.each(['embedded', 'redis'])('%s', (kind) => {
  const ledgerOf = (redis: RedisServer): JsonObject => (kind === 'redis' ? { ledger: { redis: redis.url } } : {})

  test('requests a minute: the headers count down, the refusal says when', async () => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    await using gateway = await gatewayWith(upstream, { requests_per_minute: 2 }, ledgerOf(redis))
    const left = [await say(gateway), await say(gateway)].map((answer) =>
      field(answer.head, 'x-ratelimit-remaining-requests'),
    )
    expect(left).toEqual(['1', '0'])
    const refused = await say(gateway)
    expect([refused.status, errorOf(refused).code, errorOf(refused).type]).toEqual([
      429,
      'rate_limit_exceeded',
      'requests',
    ])
    expect(Number(field(refused.head, 'retry-after'))).toBeWithin(1, 61)
    expect(field(refused.head, 'x-ratelimit-limit-requests')).toBe('2')
    expect(errorOf(await say(gateway, 'm', '/v1/messages')).type).toBe('rate_limit_error')
  })

  test('spend: refused for good, and the next day is named', async () => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    await using gateway = await gatewayWith(upstream, { spend: { day: 1 } }, ledgerOf(redis))
    let answered = 0
    let last = await say(gateway)
    for (; last.status === 200; last = await say(gateway)) answered++
    await gateway.line((line) => line['error'] === 'insufficient_quota')
    const spent = gateway.lines.reduce((sum, line) => sum + Number(line['cost_micro_usd'] ?? 0), 0)
    expect(answered).toBeGreaterThan(1)
    // What the answers of the last moment cost beyond what was held for them.
    expect(spent).toBeWithin(800_000, 1_100_001)
    expect([last.status, errorOf(last).code, errorOf(last).type]).toEqual([
      429,
      'insufficient_quota',
      'insufficient_quota',
    ])
    expect([field(last.head, 'x-should-retry'), field(last.head, 'retry-after')]).toEqual(['false', undefined])
    expect(errorOf(last).message).toContain('acme')
  })

  test('concurrent requests: a place is free again once a caller has left', async () => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    await using gateway = await gatewayWith(upstream, { concurrent_requests: 1 }, ledgerOf(redis))
    const caller = await Caller.connect(gateway.port)
    const body = JSON.stringify({ model: 'slow', messages: [{ role: 'user', content: 'Hi' }] })
    caller.send(requestBytes('/v1/chat/completions', { key: KEY, body }))
    const call = await upstream.call('slow')
    expect(errorOf(await say(gateway)).type).toBe('concurrent_requests')
    await caller[Symbol.asyncDispose]()
    await call.ended
    await gateway.line((line) => line['outcome'] === 'caller_left')
    expect((await say(gateway)).status).toBe(200)
  })
})

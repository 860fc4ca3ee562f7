/** weir without Redis: from the start, and after Redis dies, with both settings of `ledger_unreachable`. */

import { expect, test } from 'bun:test'
import { Redis } from 'ioredis'
import type { JsonObject } from '../../src/core/json.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { type Answer, ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { lastingPort } from '../support/ports.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { until } from './weir.ts'

async function gatewayBefore(upstream: Upstream, redisPort: number, more: JsonObject): Promise<Gateway> {
  upstream.on('m', json(200, chatBody('Hello.')))
  return await Gateway.start({
    providers: { up: upstream.url },
    config: { ledger: { redis: `redis://127.0.0.1:${redisPort}` }, ...more },
  })
}

function say(gateway: Gateway): Promise<Answer> {
  const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi' }] })
  return ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
}

async function spent(redis: RedisServer): Promise<number> {
  const client = new Redis(redis.port)
  const account = { organization: 'test', organizationLimits: {}, key: 'test-key', keyLimits: {} }
  const { organization } = await new RedisStore(client, client).figures(account)
  client.disconnect()
  return organization.total.spent
}

test('refuse: starts without Redis, answers 503, and serves when Redis starts or restarts', async () => {
  await using upstream = await Upstream.start()
  const port = await lastingPort()
  await using gateway = await gatewayBefore(upstream, port, {})
  const { status, reasons } = await gateway.readyz()
  expect(status).toBe(503)
  expect(reasons.join()).toContain('Redis is not reached (ECONNREFUSED).')
  for (let round = 0; round < 2; round++) {
    const refused = await say(gateway)
    expect([refused.status, refused.header('retry-after'), JSON.parse(refused.text).error.code]).toEqual([
      503,
      '1',
      'ledger_unavailable',
    ])
    await using _redis = await RedisServer.start([], port)
    await until(async () => (await gateway.readyz()).status === 200)
    expect((await say(gateway)).status).toBe(200)
  }
  expect(upstream.calls.length).toBe(2)
})

test('allow: serves without Redis and is ready; what it served is charged once when Redis starts', async () => {
  await using upstream = await Upstream.start()
  const port = await lastingPort()
  await using gateway = await gatewayBefore(upstream, port, { ledger_unreachable: 'allow' })
  expect((await gateway.readyz()).status).toBe(200)
  for (let i = 0; i < 3; i++) expect((await say(gateway)).status).toBe(200)
  await using redis = await RedisServer.start([], port)
  // 9 tokens in at a dollar a million, 3 out at ten.
  await until(async () => (await spent(redis)) === 3 * (9 + 30))
  expect((await say(gateway)).status).toBe(200)
  await until(async () => (await spent(redis)) === 4 * (9 + 30))
})

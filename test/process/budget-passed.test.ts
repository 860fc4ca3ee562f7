/** A node that is down while Redis loses its data: how far a budget is then passed, and what its log reports. */

import { expect, test } from 'bun:test'
import { Redis } from 'ioredis'
import type { JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { until } from './weir.ts'

/** A cent for each token: an answer costs 12 cents, and its reservation more. */
const PRICE = { input: 10_000, output: 10_000 }
const COST = 120_000
const TOTAL = 2_000_000
const DAY = 1_500_000

function start(upstream: Upstream, more: JsonObject): Promise<Gateway> {
  upstream.on('m', json(200, chatBody('Hello.')))
  const limits = (spend: JsonObject) => ({ spend: { ...spend, strict: true } })
  return Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: { targets: [{ provider: 'up', model: 'm' }], price: PRICE, max_output_tokens: 10 } },
    config: {
      organizations: [
        { id: 'acme', limits: limits({ total: 2 }), keys: [{ id: 'k', key: KEY, limits: limits({ day: 1.5 }) }] },
        { id: 'idle', limits: limits({ total: 2 }), keys: [{ id: 'other', key: 'another-key-0123456789abcdef' }] },
      ],
      ...more,
    },
  })
}

async function say(node: Gateway): Promise<number> {
  for (;;) {
    const body = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }] }
    const { status } = await ask(node.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
    // Only a Redis that answered too late, as on a busy machine.
    if (status !== 503) return status
  }
}

async function spentBy(node: Gateway): Promise<number> {
  return JSON.parse((await node.run('usage', '--json')).stdout).total.cost_micro_usd
}

function passedLines(node: Gateway): readonly JsonObject[] {
  return node.lines.filter(({ event }) => event === 'ledger.budget_passed')
}

test('a node that was down while Redis was emptied logs once for each budget by how much it is passed', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const ledger = { redis: redis.url }
  await using away = await start(upstream, { ledger })
  for (let i = 0; i < 10; i++) expect(await say(away)).toBe(200)
  await until(async () => (await spentBy(away)) === 10 * COST)
  await away.stop()
  const client = new Redis(redis.url)
  await client.flushall()
  await using there = await start(upstream, { ledger })
  let served = 0
  while ((await say(there)) === 200) served += 1
  await until(async () => (await spentBy(there)) === served * COST)
  // All of the key's daily budget, which is the smaller one, but for what is less than a reservation.
  expect(served * COST).toBeGreaterThan(DAY / 2)
  expect(served * COST).toBeLessThanOrEqual(DAY)

  const sum = (10 + served) * COST
  const place = { ledger, data_dir: `${away.folder}/data`, workers: 2 }
  await using back = await start(upstream, place)
  await until(() => passedLines(back).length === 2)
  expect(await spentBy(back)).toBe(sum)
  const amounts = { spent_micro_usd: sum, given_back_micro_usd: 10 * COST, level: 'warn', organization: 'acme' }
  expect(passedLines(back)).toMatchObject([
    { ...amounts, limit: 'total', limit_micro_usd: TOTAL, passed_micro_usd: sum - TOTAL },
    { ...amounts, key: 'k', limit: 'day', limit_micro_usd: DAY, passed_micro_usd: sum - DAY },
  ])
  expect(passedLines(back)[0]?.['key']).toBeUndefined()
  // By no more than the node that was away had spent.
  expect(sum - DAY).toBeLessThanOrEqual(10 * COST)
  expect([await say(back), await say(there)]).toEqual([429, 429])
  await back.stop()
  expect(passedLines(back)).toHaveLength(2)
  expect(passedLines(there)).toEqual([])

  // Nothing is given back when it comes back again, so there is nothing to report.
  await using again = await start(upstream, place)
  expect(await say(again)).toBe(429)
  expect(await spentBy(again)).toBe(sum)
  await again.stop()
  expect(passedLines(again)).toEqual([])
  client.disconnect()
})

/** What one node finds out about the health of a target holds on all nodes of its Redis, and one of them probes it. */

import { expect, test } from 'bun:test'
import { isArray, objectOf } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { RedisServer } from '../support/redis.ts'
import * as does from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { KEY, until, Weir } from './weir.ts'

function config(redis: string, first: string, second: string, more = {}): string {
  const provider = (url: string) => ({ dialect: 'openai', base_url: url, api_key: 'k' })
  return JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0 },
    workers: 1,
    ledger: { redis },
    data_dir: './data',
    routing: { probe: false },
    providers: { first: { ...provider(first), ...more }, second: provider(second) },
    models: [
      {
        name: 'm',
        targets: [
          { provider: 'first', model: 'a' },
          { provider: 'second', model: 'b' },
        ],
      },
    ],
    organizations: [{ id: 'acme', keys: [{ id: 'k', key: KEY }] }],
  })
}

async function say(weir: Weir): Promise<void> {
  const body = { model: 'm', messages: [{ role: 'user', content: `Hi ${crypto.randomUUID()}` }] }
  const answer = await ask(Number(new URL(weir.address).port), requestBytes('/v1/chat/completions', { key: KEY, body }))
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)])
}

async function stateOf(weir: Weir, provider: string): Promise<unknown> {
  const rows = objectOf(await (await fetch(`${weir.admin}/api/targets`)).json())?.['rows']
  return isArray(rows) ? objectOf(rows.find((row) => objectOf(row)?.['provider'] === provider))?.['state'] : undefined
}

test('a target that one node finds down rests on all, also on one that starts, until one finds it well', async () => {
  await using redis = await RedisServer.start()
  await using first = await Upstream.start()
  await using second = await Upstream.start()
  let isBroken = true
  first.otherwise((call) => (isBroken ? does.json(500, '{}')(call) : does.answersText('first')(call)))
  second.otherwise(does.answersText('second'))
  const text = config(redis.url, first.url, second.url)
  await using one = await Weir.ready(text)
  await using other = await Weir.ready(text)
  // Its own settings for the provider: what others find out does not concern it.
  await using stranger = await Weir.ready(config(redis.url, first.url, second.url, { headers: { 'x-own': '1' } }))
  while ((await stateOf(one, 'first')) !== 'resting') await say(one)
  await until(async () => (await stateOf(other, 'first')) === 'resting')
  await using late = await Weir.ready(text)
  await until(async () => ['resting', 'probing'].includes(String(await stateOf(late, 'first'))))
  expect(await stateOf(stranger, 'first')).toBe('unknown')

  const nodes = [one, other, late]
  isBroken = false
  await until(async () => {
    for (const node of nodes) await say(node)
    const states = await Promise.all(nodes.map((node) => stateOf(node, 'first')))
    return states.every((state) => state === 'healthy')
  })
})

/** `weir backup` while several workers serve, with either ledger: a gateway that starts on the copy goes on exactly. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { RedisClient } from 'bun'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'

/** The cost of one request, by the usage that the provider reports. */
const COST_MICRO_USD = 25
const SUMMARY = 'The user lives in Oslo.'

async function ask(from: Gateway, path: string, body: JsonObject, key = KEY): Promise<JsonObject> {
  const answer = await fetch(`${from.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', ...body }),
  })
  const json: unknown = await answer.json()
  if (answer.status !== 200 || !isObject(json)) throw new Error(`${answer.status} ${JSON.stringify(json)}`)
  return json
}

const chat = (from: Gateway, key?: string) =>
  ask(from, '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello' }] }, key)

const compact = (from: Gateway) =>
  ask(from, '/v1/responses/compact', { input: [{ role: 'user', content: 'I live in Oslo.' }] })

/** What `weir usage` shows, and the sum of the single requests in `weir audit`. */
async function figuresOf(gateway: Gateway) {
  const [usage, audit] = [await gateway.run('usage', '--json'), await gateway.run('audit', '--json', '--limit', '0')]
  expect([usage.stderr, audit.stderr]).toEqual(['', ''])
  const { requests, cost_micro_usd: cost } = JSON.parse(usage.stdout).total
  const rows = audit.stdout.split('\n').filter(Boolean)
  const rowsCost = rows.reduce((sum, row) => sum + Number(JSON.parse(row).cost_micro_usd), 0)
  return { requests: Number(requests), cost: Number(cost), rows: rows.length, rowsCost }
}

/** Callers that ask one request after another until `finish`. */
function steadily(gateway: Gateway) {
  let isOver = false
  const load = { answered: 0, finish: async () => {} }
  const callers = Array.from({ length: 6 }, async () => {
    while (!isOver) {
      await chat(gateway)
      load.answered++
    }
  })
  load.finish = async () => {
    isOver = true
    await Promise.all(callers)
  }
  return load
}

/** Resolves when so many more requests are answered than now. */
async function more(load: { readonly answered: number }, count: number): Promise<void> {
  const enough = load.answered + count
  while (load.answered < enough) await Bun.sleep(5)
}

test.each(['embedded', 'Redis'] as const)('ledger %s: a gateway on the copy goes on', async (kind) => {
  await using upstream = await Upstream.start()
  upstream.otherwise(speaks('openai', () => textAnswer(SUMMARY)))
  await using redis = await RedisServer.start()
  const start = (more: JsonObject = {}) =>
    Gateway.start({
      providers: { up: upstream.url },
      models: { m: { targets: [{ provider: 'up', model: 'up' }], price: { input: 1, output: 2 } } },
      config: {
        workers: 2,
        ledger: kind === 'Redis' ? { redis: redis.url } : 'embedded',
        organizations: [{ id: 'test', limits: { spend: { total: 100 } }, keys: [{ id: 'one', key: KEY }] }],
        ...more,
      },
    })
  await using gateway = await start()
  const made = (await gateway.run('keys', 'create', '--org', 'test', '--id', 'made')).stdout.trim()
  const sealed = await compact(gateway)
  const load = steadily(gateway)
  await more(load, 50)
  const before = load.answered + 1
  const copy = join(gateway.folder, 'copy')
  expect(await gateway.run('backup', copy)).toMatchObject({ code: 0, stderr: '' })
  await more(load, 50)
  await load.finish()
  await gateway.stop()
  const all = load.answered + 1

  await using restored = await start({ data_dir: copy })
  await chat(restored, made)
  const output = isArray(sealed['output']) ? sealed['output'] : []
  const seen = upstream.calls.length
  await ask(restored, '/v1/responses', { input: [...output, { role: 'user', content: 'Where do I live?' }] })
  expect(JSON.stringify(upstream.calls.slice(seen).map(({ json }) => json))).toContain(SUMMARY)
  await restored.stop()
  const after = await figuresOf(restored)
  expect([after.rows, after.rowsCost]).toEqual([after.requests, after.cost])
  if (kind === 'Redis') {
    // Redis has every request; the older outbox adds nothing to it.
    expect(after).toMatchObject({ requests: all + 2, cost: (all + 2) * COST_MICRO_USD })
    await flush(redis)
    await using again = await start({ data_dir: copy })
    await chat(again)
    await again.stop()
    const { requests, cost } = await figuresOf(again)
    expect(cost).toBe(requests * COST_MICRO_USD)
    expect(requests).toBeWithin(before + 3, all)
  } else {
    // Requests that ran at the moment of the backup are in the copy as reservations that ended with their gateway.
    expect(after.requests).toBeWithin(before + 2, all)
    expect(after.cost).toBeWithin((before + 2) * COST_MICRO_USD, after.requests * COST_MICRO_USD + 1)
  }
})

async function flush(redis: RedisServer): Promise<void> {
  const client = new RedisClient(redis.url)
  await client.send('FLUSHALL', [])
  client.close()
}

/**
 * Two nodes on one Redis share one budget and all keys. And the part of that which holds for one node with the
 * embedded ledger.
 */

import { describe, expect, test } from 'bun:test'
import { readFile, writeFile } from 'node:fs/promises'
import type { JsonObject } from '../../src/core/json.ts'
import { type Answer, ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, chatFrames, json, stalls } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { until } from './weir.ts'

/**
 * US dollars per million tokens: a cent for each token. An answer takes 9 and 3 tokens; the reservation is larger:
 * the estimate of its input and 10.
 */
const PRICE = { input: 10_000, output: 10_000 }
const LIMIT = 12_000_000
/** No request holds as much. */
const HELD_MAX = 300_000

/** As good as none, but they are looked at. */
const rates = { requests_per_minute: 100_000, tokens_per_minute: 10_000_000, concurrent_requests: 1000 }

function start(upstream: Upstream, more: JsonObject, limits: JsonObject = {}): Promise<Gateway> {
  upstream.on('m', json(200, chatBody('Hello.')))
  upstream.on('endless', stalls(chatFrames(['one', 'two']).slice(0, 2)))
  const model = (name: string) => ({
    name,
    targets: [{ provider: 'up', model: name }],
    price: PRICE,
    max_output_tokens: 10,
  })
  return Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: model('m'), endless: model('endless') },
    config: { organizations: [{ id: 'acme', limits, keys: [{ id: 'k', key: KEY }] }], ...more },
  })
}

function say(node: Gateway, key = KEY): Promise<Answer> {
  const body = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }] }
  return ask(node.port, requestBytes('/v1/chat/completions', { key, body }))
}

/** The same, but retries a request that was rejected only because Redis answered too late, as on a busy machine. */
async function sayUntilAsked(node: Gateway, key = KEY): Promise<Answer> {
  for (;;) {
    const answer = await say(node, key)
    if (answer.status !== 503) return answer
  }
}

/** What an answer costs by the usage that its caller is shown. */
function priceOf(answer: Answer): number {
  const { usage } = JSON.parse(answer.text)
  return (usage.prompt_tokens + usage.completion_tokens) * 10_000
}

/**
 * Requests and micro-dollars of `weir usage`, once it has this many requests: settlements arrive a moment after the
 * answers.
 */
async function usageOf(node: Gateway, requests: number): Promise<readonly [requests: number, cost: number]> {
  for (;;) {
    const { code, stdout, stderr } = await node.run('usage', '--json')
    expect([code, stderr]).toEqual([0, ''])
    const { total } = JSON.parse(stdout)
    if (total.requests >= requests) return [total.requests, total.cost_micro_usd]
  }
}

describe('one budget', () => {
  test.each([
    ['spend of the day', { spend: { day: 12 } }],
    ['spend of the month, strict', { spend: { month: 12, strict: true } }],
    ['total spend, with every other limit on', { ...rates, spend: { total: 12 } }],
  ])(
    '300 requests at once over two nodes of two workers: %s is not passed, and every cent is in weir usage',
    async (_, limits) => {
      await using redis = await RedisServer.start()
      await using upstream = await Upstream.start()
      const more = { ledger: { redis: redis.url }, workers: 2 }
      await using one = await start(upstream, more, limits)
      await using two = await start(upstream, more, limits)
      const answers = await Promise.all(Array.from({ length: 300 }, (_, i) => sayUntilAsked(i % 2 === 0 ? one : two)))
      const answered = answers.filter(({ status }) => status === 200)
      const refused = answers.filter(({ status }) => status === 429)
      expect(answered.length + refused.length).toBe(300)
      // Most are refused while others run, and may come again; the last ones find it spent.
      for (const answer of refused) expect(JSON.parse(answer.text).error.type).toMatch(/^(spend|insufficient_quota)$/)
      const spent = answered.reduce((sum, answer) => sum + priceOf(answer), 0)
      expect(spent).toBeLessThanOrEqual(LIMIT)
      expect(upstream.calls.length).toBe(answered.length)
      expect(await usageOf(one, answered.length)).toEqual([answered.length, spent])
      expect(await usageOf(two, answered.length)).toEqual([answered.length, spent])
      // What the refused ones held is free again: the budget fills up to the last request that fits.
      const all = [...answered]
      let sum = spent
      while (sum < LIMIT - HELD_MAX) {
        const answer = await sayUntilAsked(all.length % 2 === 0 ? one : two)
        if (answer.status !== 200) continue
        all.push(answer)
        sum += priceOf(answer)
      }
      expect(sum).toBeLessThanOrEqual(LIMIT)
      expect(await usageOf(two, all.length)).toEqual([all.length, sum])
    },
  )
})

test('a second gateway on the same data_dir is refused until the first one ends, drains or is killed', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const ledger = { redis: redis.url }
  await using first = await start(upstream, { ledger, drain_seconds: 30 })
  const shared = { ledger, data_dir: `${first.folder}/data` }
  expect(await first.run('serve')).toEqual({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining(`is in use by another gateway (pid ${first.pid}). End the other one, or give each`),
  })
  // New workers have the lock of the same supervisor.
  first.signal('SIGUSR2')
  await first.line(({ event }) => event === 'workers.replaced')
  expect((await first.run('serve')).code).toBe(1)
  await using caller = await Caller.connect(first.port)
  const body = { model: 'endless', stream: true, messages: [{ role: 'user', content: 'Hi' }] }
  caller.send(requestBytes('/v1/chat/completions', { key: KEY, body }))
  await caller.until('one')
  first.signal('SIGTERM')
  await first.line(({ event }) => event === 'server.draining')
  await using second = await start(upstream, shared)
  expect((await sayUntilAsked(second)).status).toBe(200)
  process.kill(second.pid, 'SIGKILL')
  await using third = await start(upstream, shared)
  expect((await sayUntilAsked(third)).status).toBe(200)
})

test('answers given before SIGTERM are settled before weir ends', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  await using node = await start(upstream, { ledger: { redis: redis.url } })
  const answers = await Promise.all(Array.from({ length: 100 }, () => sayUntilAsked(node)))
  expect(await node.stop()).toEqual({ code: 0, signal: null })
  const spent = answers.reduce((sum, answer) => sum + priceOf(answer), 0)
  expect(await usageOf(node, 100)).toEqual([100, spent])
})

// Streams are cut at their next extension, up to 10 s later: these tests wait together.
describe.concurrent('a key that ends while the gateway runs', () => {
  test.each(['embedded', 'redis'])(
    '%s: created and used at once, revoked within a second everywhere, a running stream cut at its next extension',
    async (kind) => {
      await using redis = await RedisServer.start()
      await using upstream = await Upstream.start()
      const more = kind === 'redis' ? { ledger: { redis: redis.url }, workers: 2 } : {}
      await using one = await start(upstream, more)
      await using two = kind === 'redis' ? await start(upstream, more) : undefined
      const nodes = two === undefined ? [one] : [one, two]
      const made = await one.run('keys', 'create', '--org', 'acme', '--id', 'laptop')
      const other = await one.run('keys', 'create', '--org', 'acme', '--id', 'phone')
      const [laptop, phone] = [made.stdout.trim(), other.stdout.trim()]
      /** Each on a connection of its own, so that every worker has its share. */
      const statuses = async (key: string) =>
        (await Promise.all(nodes.flatMap((node) => Array.from({ length: 12 }, () => sayUntilAsked(node, key))))).map(
          ({ status }) => status,
        )
      expect(new Set(await statuses(phone))).toEqual(new Set([200]))
      const streams = await Promise.all(nodes.flatMap((node) => [laptop, phone].map((key) => stream(node, key))))
      expect((await one.run('keys', 'revoke', '--id', 'laptop')).stdout).toBe('key "laptop" is revoked\n')
      await until(async () => (await statuses(laptop)).every((status) => status === 401))
      expect(new Set(await statuses(phone))).toEqual(new Set([200]))
      for (const [i, caller] of streams.entries()) {
        if (i % 2 === 0) expect((await caller.answer()).end).toBe('cut')
        else expect(caller.received.length).toBeGreaterThan(0)
      }
      for (const node of nodes) {
        const line = await node.line((one) => one['key'] === 'laptop' && one['streamed'] === true)
        expect(line).toMatchObject({ status: 200, outcome: 'refused', error: 'invalid_api_key', usage: 'estimated' })
        expect(Number(line['cost_micro_usd'])).toBeGreaterThan(0)
        expect(Number(line['total_ms'])).toBeLessThan(20_000)
        expect(node.lines.filter((one) => one['key'] === 'phone' && one['streamed'] === true)).toEqual([])
      }
      for (const caller of streams) caller.close()
    },
  )

  test('a reload that removes or disables a key, or its organisation, ends its streams', async () => {
    await using upstream = await Upstream.start()
    const keys = ['gone', 'disabled', 'kept'].map((id) => ({ id, key: `key-of-the-one-${id}` }))
    await using node = await start(upstream, { organizations: [{ id: 'acme', keys }, { id: 'over' }] })
    const made = (await node.run('keys', 'create', '--org', 'over', '--id', 'made')).stdout.trim()
    await untilKnown(node, made)
    const streams = await Promise.all([...keys.map(({ key }) => key), made].map((key) => stream(node, key)))
    const left = keys.slice(1).map((key) => ({ ...key, disabled: key.id === 'disabled' }))
    const config: JsonObject = JSON.parse(await readFile(node.configFile, 'utf8'))
    await writeFile(node.configFile, JSON.stringify({ ...config, organizations: [{ id: 'acme', keys: left }] }))
    node.signal('SIGHUP')
    const [gone, disabled, kept, orphan] = streams
    for (const caller of [gone, disabled, orphan]) expect((await caller?.answer())?.end).toBe('cut')
    const lines = await Promise.all(
      ['gone', 'disabled', 'made'].map((id) => node.line((one) => one['key'] === id && one['streamed'] === true)),
    )
    for (const line of lines) expect(line).toMatchObject({ outcome: 'refused', error: 'invalid_api_key' })
    expect(node.lines.filter((one) => one['key'] === 'kept')).toEqual([])
    kept?.close()
  })
})

/** A key made by command is known within a second. */
async function untilKnown(node: Gateway, key: string): Promise<void> {
  while ((await say(node, key)).status === 401) await Bun.sleep(20)
}

/** A stream that has begun and does not end by itself. */
async function stream(node: Gateway, key: string): Promise<Caller> {
  const caller = await Caller.connect(node.port)
  const body = { model: 'endless', stream: true, messages: [{ role: 'user', content: 'Hi' }] }
  caller.send(requestBytes('/v1/chat/completions', { key, body }))
  await caller.until('one')
  return caller
}

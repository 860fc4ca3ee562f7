/**
 * Callers that send one request after another, each as soon as they have their answer, under a limit of one: no
 * request is rejected because of what the previous one still reserves, whichever process answers. And a flood of
 * requests over the limit is rejected without delay.
 */

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { type Answer, ask, Caller, requestBytes } from '../support/caller.ts'
import { cpuWaitMs } from '../support/cpu-waits.ts'
import { Gateway } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, chatFrames, json, stalls } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

const keyOf = (id: string) => `key-of-${id}-0123456789`
const tight = Array.from({ length: 20 }, (_, i) => `tight-${i}`)
const narrow = Array.from({ length: 20 }, (_, i) => `narrow-${i}`)

const organization = (id: string, limits: JsonObject, keyLimits: JsonObject = {}) => ({
  ...{ id, limits, keys: [{ id: `k-${id}`, key: keyOf(id), limits: keyLimits }] },
})

async function start(upstream: Upstream, redis: RedisServer, workers: number): Promise<Gateway> {
  // 9 tokens in and 3 out.
  upstream.on('m', json(200, chatBody('Hello.')))
  upstream.on('endless', stalls(chatFrames(['one', 'two']).slice(0, 2)))
  const targets = (model: string) => [{ provider: 'up', model }]
  // A cent a token: an answer costs 12 cents, and more than a dollar is held for it.
  const price = { input: 10_000, output: 10_000 }
  return await Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: { targets: targets('m'), price }, endless: { targets: targets('endless'), price } },
    config: {
      workers,
      ledger: { redis: redis.url },
      organizations: [
        organization('alone', {}, { concurrent_requests: 1 }),
        organization('together', { concurrent_requests: 1 }),
        ...tight.map((id) => organization(id, { spend: { day: 1.7 } })),
        ...narrow.map((id) => organization(id, {}, { tokens_per_minute: 170 })),
      ],
    },
  })
}

function say(node: Gateway, id: string): Promise<Answer> {
  const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] }
  return ask(node.port, requestBytes('/v1/chat/completions', { key: keyOf(id), body }))
}

/**
 * Retries if Redis answered too late, as it may on a busy machine; the reservation of the failed attempt is released
 * by then.
 */
async function statusOf(node: Gateway, id: string): Promise<number> {
  for (;;) {
    const { status } = await say(node, id)
    if (status !== 503) return status
    await Bun.sleep(1000)
  }
}

/**
 * A reservation is waited for 200 ms. If the processes waited for a CPU for a good part of that, a rejection is that of
 * the machine.
 */
const CPU_WAIT_MS_MAX = 50

/** As `statusOf`; also retries a rejection while the processes did not get the CPU. */
async function fairStatusOf(node: Gateway, id: string, pids: readonly number[]): Promise<number> {
  for (;;) {
    const before = cpuWaitMs(pids)
    const status = await statusOf(node, id)
    if (status !== 429 || cpuWaitMs(pids) - before < CPU_WAIT_MS_MAX) return status
    await Bun.sleep(1000)
  }
}

describe.each([
  ['two workers', 1, 2],
  ['two nodes', 2, 1],
])('%s', (_, count, workers) => {
  test('one caller under a limit for one request at a time: none of 200 is rejected', async () => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    await using first = await start(upstream, redis, workers)
    await using second = count === 1 ? undefined : await start(upstream, redis, workers)
    const nodes = [first, second ?? first] as const
    const nodeOf = (i: number) => nodes[i % 2] ?? first
    const pids = [redis.pid, ...new Set(nodes.map(({ pid }) => pid))]
    const places: number[] = []
    for (let i = 0; i < 200; i++) places.push(await fairStatusOf(nodeOf(i), i < 100 ? 'alone' : 'together', pids))
    expect(places.filter((status) => status !== 200)).toEqual([])
    const pairs: number[] = []
    for (const id of [...tight, ...narrow]) for (const node of nodes) pairs.push(await fairStatusOf(node, id, pids))
    expect(pairs.filter((status) => status !== 200)).toEqual([])
  })
})

test('a flood over the limit is rejected, and no request beyond the limit ever runs', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  await using gateway = await start(upstream, redis, 2)
  const runs = ['alone', 'tight-0', 'narrow-0']
  const callers: Caller[] = []
  for (const id of runs) {
    const caller = await Caller.connect(gateway.port)
    callers.push(caller)
    const messages = [{ role: 'user', content: 'Hi' }]
    const body = { model: 'endless', stream: true, max_tokens: 100, messages }
    caller.send(requestBytes('/v1/chat/completions', { key: keyOf(id), body }))
    await caller.until('one')
  }
  for (const id of runs) {
    const answers = await Promise.all(Array.from({ length: 50 }, () => statusOf(gateway, id)))
    expect([id, ...new Set(answers)]).toEqual([id, 429])
  }
  expect(upstream.calls).toHaveLength(runs.length)
  for (const caller of callers) await caller[Symbol.asyncDispose]()
})

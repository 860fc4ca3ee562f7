/** What is common of the limits of providers: never passed by more than a bucket, and the same in Redis. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Redis } from 'ioredis'
import { CommonRoom, type Taken } from '../../src/capacity/common-room.ts'
import { type Meter, metersOf } from '../../src/capacity/meter.ts'
import type { Contender } from '../../src/capacity/organization-turns.ts'
import { RedisRoom } from '../../src/capacity/redis-room.ts'
import type { CapacityLimits } from '../../src/core/capacity-limits.ts'
import { property, type Random } from '../support/random.ts'
import { RedisServer } from '../support/redis.ts'

const granted = ({ granted: amounts }: Taken) => amounts

/** The meter of one limit. */
function meterOf(limits: CapacityLimits, provider = 'p'): Meter {
  const [meter] = metersOf(limits, provider)
  if (meter === undefined) throw new Error('no meter')
  return meter
}

property(
  'in any 60 seconds a rate grants at most 7/6 of its limit to all who ask, and nearly all of it under demand',
  30,
  (random) => {
    let nowMs = 1_000_000
    const room = new CommonRoom(() => nowMs)
    const limit = random.between(1, 5000)
    const meter = meterOf({ requestsPerMinute: limit })
    const taken: { readonly ms: number; readonly amount: number }[] = []
    const end = nowMs + 180_000
    while (nowMs < end) {
      const need = random.between(0, 1) === 0 ? 1 : random.between(1, 3)
      const spare = random.between(0, Math.ceil(limit / 100))
      const amount = granted(room.take([{ meter, need, spare }], false, `n${random.between(0, 3)}`))[0] ?? 0
      taken.push({ ms: nowMs, amount })
      nowMs += random.between(1, 40)
    }
    const most = Math.max(1, limit / 6) + limit + 3
    for (let from = 0, sum = 0, to = 0; from < taken.length; from++) {
      while (to < taken.length && (taken[to]?.ms ?? 0) < (taken[from]?.ms ?? 0) + 60_000)
        sum += taken[to++]?.amount ?? 0
      expect(sum).toBeLessThanOrEqual(most)
      sum -= taken[from]?.amount ?? 0
    }
    const all = taken.reduce((sum, { amount }) => sum + amount, 0)
    // As much as was asked for, or as there was.
    expect(all).toBeGreaterThan(Math.min(taken.length, 0.95 * 3 * limit) * 0.95 - 3)
  },
)

test('a process that is gone holds its places for 20 s, and one that renews them holds them longer', () => {
  let nowMs = 0
  const room = new CommonRoom(() => nowMs)
  const meter = meterOf({ concurrentRequests: 2 })
  const one = { meter, need: 1, spare: 0 }
  expect([room.take([one], false, 'a'), room.take([one], false, 'b')].map(granted)).toEqual([[1], [1]])
  expect(room.take([one], false, 'c').waitMs).toBeGreaterThan(0)
  nowMs = 15_000
  room.renew([{ meter, amount: 1 }], 'b')
  nowMs = 21_000
  expect([room.take([one], false, 'c'), room.take([one], false, 'c')].map(granted)).toEqual([[1], []])
})

test('while requests of the upper class wait, the lower class gets every tenth turn', () => {
  let nowMs = 0
  const room = new CommonRoom(() => nowMs)
  const meter = meterOf({ requestsPerMinute: 60_000 })
  const one = { meter, need: 1, spare: 0 }
  room.take([{ meter, need: 10_000, spare: 0 }], false, 'a')
  expect(room.take([one], false, 'a').waitMs).toBeGreaterThan(0)
  nowMs = 100
  // The lower class asks far more often than the upper one.
  const turns = Array.from({ length: 22 }, () => {
    const isServed = granted(room.take([one], false, 'a')).length === 1
    const low = Array.from({ length: 5 }, () => granted(room.take([one], true, 'b')).length)
    return [isServed, low.filter((count) => count === 1).length]
  })
  expect(turns.every(([isServed]) => isServed === true)).toBe(true)
  expect(turns.flatMap(([, low], i) => (low === 0 ? [] : [[i, low]]))).toEqual([
    [8, 1],
    [17, 1],
  ])
})

const CONTENDER = { organization: 'a', weight: 1, waitedMs: 0 }

test('organisations go in turn by weight in whichever process they wait, and one in all its processes alike', () => {
  let nowMs = 0
  const room = new CommonRoom(() => nowMs)
  const meter = meterOf({ requestsPerMinute: 600 })
  const processes = [
    { holder: '1', turns: [{ ...CONTENDER, weight: 3 }] },
    {
      holder: '2',
      turns: [
        { ...CONTENDER, weight: 3 },
        { ...CONTENDER, organization: 'b' },
      ],
    },
    {
      holder: '3',
      turns: [
        { ...CONTENDER, organization: 'b' },
        { ...CONTENDER, organization: 'c' },
      ],
    },
  ].map((each) => ({ ...each, lastMs: new Map<string, number>() }))
  const had = new Map<string, number>()
  room.take([{ meter, need: 100, spare: 0 }], false, '0')
  for (; nowMs < 60_000; nowMs += 10) {
    for (const { holder, turns, lastMs } of processes) {
      const waited = turns.map((turn) => ({ ...turn, waitedMs: nowMs - (lastMs.get(turn.organization) ?? 0) }))
      const { organization } = room.take([{ meter, need: 1, spare: 0, each: 1 }], false, holder, waited)
      if (organization === undefined) continue
      lastMs.set(organization, nowMs)
      for (const name of [organization, `${organization}${holder}`]) had.set(name, (had.get(name) ?? 0) + 1)
    }
  }
  const all = 600
  const share = (name: string) => (had.get(name) ?? 0) / all
  for (const [name, expected] of Object.entries({ a: 0.6, b: 0.2, c: 0.2, a1: 0.3, a2: 0.3 }))
    expect([name, Math.abs(share(name) - expected) < 0.02]).toEqual([name, true])
})

test('who comes to wait in one process is next after one turn, whatever waits of another organisation', () => {
  let nowMs = 0
  const room = new CommonRoom(() => nowMs)
  const meter = meterOf({ requestsPerMinute: 600 })
  room.take([{ meter, need: 100, spare: 0 }], false, '0')
  const ask = (holder: string, ...names: string[]) => {
    const turns = names.map((organization) => ({ ...CONTENDER, organization }))
    return room.take([{ meter, need: 1, spare: 0, each: 1 }], false, holder, turns).organization
  }
  const served: string[] = []
  const visit = (...names: string[]) => {
    nowMs += 10
    for (const holder of ['1', '2', '3', '4']) served.push(ask(holder, 'many', ...(holder === '4' ? names : [])) ?? '')
  }
  for (let i = 0; i < 200; i++) visit()
  served.length = 0
  while (!served.includes('one')) visit('one')
  expect(served.filter((name) => name === 'many').length).toBeLessThanOrEqual(1)
})

test('a rate has no more than a provider reports, nothing until its reset, and less after a bare 429', () => {
  let nowMs = 0
  const room = new CommonRoom(() => nowMs)
  const meter = meterOf({ requestsPerMinute: 6000 })
  const free = () => granted(room.take([{ meter, need: 0, spare: 6000 }], false, 'a'))[0]
  const reports = { meter, level: 7, closedMs: 0, isRefusal: false }
  room.report([reports])
  expect(free()).toBe(7)
  room.report([{ ...reports, level: -3, closedMs: 500 }])
  nowMs = 500
  expect(room.take([{ meter, need: 1, spare: 0 }], false, 'a').waitMs).toBe(40)
  nowMs = 1000
  // 3 of it are paid back first.
  expect(free()).toBe(47)
  for (let i = 0; i < 5; i++) room.report([{ ...reports, level: 0, isRefusal: true }])
  nowMs = 1500
  expect(free()).toBe(40)
  // Nothing gathers for a burst.
  nowMs = 60_000
  expect(free()).toBe(60)
})

describe('in Redis', () => {
  let redis: RedisServer
  beforeAll(async () => {
    redis = await RedisServer.start()
  })
  afterAll(() => redis[Symbol.asyncDispose]())

  let number = 0
  test('what providers have shown is known to all', async () => {
    const nodes = [1, 2].map(() => new RedisRoom({ kind: 'single', url: redis.url }))
    const [one, other] = nodes
    const [meter] = metersOf({ requestsPerMinute: 6 }, 'reports')
    if (one === undefined || other === undefined || meter === undefined) throw new Error('no meter')
    const need = { meter, need: 1, spare: 0 }
    const reports = { meter, level: -1, closedMs: 30_000, isRefusal: false }
    one.report([reports, { ...reports, level: 0, isRefusal: true }])
    await one.take([], false)
    // Until the reset, and then as long as it takes for two to come back.
    expect((await other.take([need], false)).waitMs).toBeWithin(45_000, 30_000 + 20_000 / 0.8 + 1)
    for (const node of nodes) node.close()
  })

  test('a process that asks in vain keeps its places for as long as one that renews them', async () => {
    const node = new RedisRoom({ kind: 'single', url: redis.url })
    await using client = Object.assign(new Redis(redis.url), {
      async [Symbol.asyncDispose]() {
        client.disconnect()
      },
    })
    const meter = meterOf({ concurrentRequests: 1 }, 'kept')
    const key = `weir:{capacity}:${meter.name}`
    const ask = { meter, need: 1, spare: 0 }
    expect(granted(await node.take([ask], false))).toEqual([1])
    const held = async () => Object.entries(await client.hgetall(key)).find(([field]) => field.startsWith('h:'))
    const [field = '', text = ''] = (await held()) ?? []
    const endsMs = Number(text.split(' ')[1])
    await client.hset(key, field, `1 ${endsMs - 15_000}`)
    expect(granted(await node.take([ask], false))).toEqual([])
    expect(Number((await held())?.[1].split(' ')[1])).toBeGreaterThanOrEqual(endsMs)
    node.close()
  })

  test('after 429s as much comes back as in one process', async () => {
    let passedMs = 0
    const meter = meterOf({ requestsPerMinute: 60_000 }, 'shares')
    const key = `weir:{capacity}:${meter.name}`
    const [room, node] = [
      new CommonRoom(() => Date.now() + passedMs),
      new RedisRoom({ kind: 'single', url: redis.url }),
    ]
    await using client = Object.assign(new Redis(redis.url), {
      async [Symbol.asyncDispose]() {
        client.disconnect()
      },
    })
    const pass = async (ms: number) => {
      passedMs += ms
      for (const field of ['at', 'refused', 'closed']) await client.hincrby(key, field, -ms)
    }
    const refusal = { meter, level: -1e6, closedMs: 0, isRefusal: true }
    for (const beforeMs of [0, 2000, 100, 2000, 30_000, 120_000]) {
      await pass(beforeMs)
      room.report([refusal])
      node.report([refusal])
      await node.take([], false)
      for (const laterMs of beforeMs < 30_000 ? [1000] : [1000, 20_000, 25_000, 60_000, 60_000, 60_000]) {
        await pass(laterMs)
        const ask = { meter, need: 1, spare: 0 }
        const [here, there] = [room.take([ask], false, 'a').waitMs, (await node.take([ask], false)).waitMs]
        expect(here).toBeGreaterThan(1000)
        expect(Math.abs(there - here)).toBeLessThan(here / 200)
      }
    }
    node.close()
  })

  test('of a limit of nothing nothing is left, and what is no number gives nothing back', async () => {
    const [room, node] = [new CommonRoom(), new RedisRoom({ kind: 'single', url: redis.url })]
    const ask = { meter: meterOf({ spend: { total: 90 } }, 'spoilt'), need: 45, spare: 0 }
    const left = async () => [room.take([ask], false, 'a').left, (await node.take([ask], false)).left]
    const none = { ...ask, meter: { ...ask.meter, limit: 0 }, need: 0 }
    expect([room.take([none], false, 'a').left, (await node.take([none], false)).left]).toEqual([[0], [0]])
    expect(await left()).toEqual([[0.5], [0.5]])
    // A node of an earlier version sends it.
    node.give([{ meter: ask.meter, amount: Number.NaN }])
    expect(await left()).toEqual([[0], [0]])
    node.close()
  })

  property('the same is granted and given back as in one process', 6, async (random) => {
    const nodes = Array.from({ length: 3 }, () => new RedisRoom({ kind: 'single', url: redis.url }))
    await play(random, `p${number++}`, nodes)
    for (const node of nodes) node.close()
  })
})

const STALL_MS = 30

/** No rates: Redis has its own clock. */
async function play(random: Random, provider: string, nodes: readonly RedisRoom[]): Promise<void> {
  const room = new CommonRoom()
  const limits = { concurrentRequests: random.between(1, 12), spend: { month: random.between(10, 400), total: 900 } }
  const meters = metersOf(limits, provider)
  const held = nodes.map(() => new Map<Meter, number>())
  for (let step = 0; step < 60; step++) {
    const at = random.between(0, nodes.length - 1)
    const [node, mine] = [nodes[at], held[at]]
    if (node === undefined || mine === undefined) throw new Error('no such node')
    if (random.between(0, 2) === 0) {
      const amounts = meters.flatMap((meter) => {
        const amount = random.between(0, mine.get(meter) ?? 0)
        return amount === 0 ? [] : [{ meter, amount }]
      })
      if (amounts.length === 0) continue
      for (const { meter, amount } of amounts) mine.set(meter, (mine.get(meter) ?? 0) - amount)
      node.give(amounts)
      room.give(amounts, String(at))
      // Redis has taken it before another node asks.
      await node.take([], false)
    } else {
      const asks = meters.map((meter) => {
        return { meter, need: random.between(0, 4), spare: random.between(0, 4), each: random.between(0, 2) }
      })
      // Each has waited for another time: who comes first among equals does not hang on a millisecond.
      const turns = ['a', 'b b', 'c'].slice(random.between(0, 3)).map((organization, i): Contender => {
        return { organization, weight: i + 1, waitedMs: ((step * 7) % 61) * 1000 }
      })
      const isLow = random.between(0, 3) === 0
      const beganMs = performance.now()
      const [found, expected] = [await node.take(asks, isLow, turns), room.take(asks, isLow, String(at), turns)]
      // The machine stood still between the two: who waits may have been forgotten by one of them.
      if (performance.now() - beganMs > STALL_MS) return
      const shown = ({ waitMs, waits, left, ...rest }: Taken) => [rest, waitMs > 0, waits?.map((ms) => ms > 0)]
      expect(shown(found)).toEqual(shown(expected))
      const differences = found.left.map((part, i) => Math.abs(part - (expected.left[i] ?? -1)))
      expect(Math.max(...differences)).toBeLessThan(0.001)
      found.granted.forEach((amount, i) => {
        const meter = meters[i]
        if (meter !== undefined) mine.set(meter, (mine.get(meter) ?? 0) + amount)
      })
    }
  }
}

/** What a process holds of limits: while the shared room is away, after a reload, and by what providers report. */

import { expect, test } from 'bun:test'
import { CommonRoom, type RoomSource } from '../../src/capacity/common-room.ts'
import type { ScarceRoom } from '../../src/capacity/reported-rooms.ts'
import { Rooms } from '../../src/capacity/rooms.ts'

const TARGET = { provider: 'p', model: 'm' }
const DEMAND = { tokens: 1, microUsd: 1 }
const nobody = () => []
const AWAY = {
  take: () => Promise.reject(new Error('away')),
  give: () => undefined,
  renew: () => undefined,
  report: () => undefined,
}

function roomsOf(concurrentRequests: number): Rooms {
  const rooms = new Rooms(AWAY)
  rooms.use({ providers: { p: { concurrentRequests } }, targets: [] }, [TARGET], 1)
  return rooms
}

test('while the shared room is away, places that end are free for the next requests', async () => {
  const room = roomsOf(2).of(TARGET)
  for (let i = 0; i < 5; i++) {
    const pair = [await room?.enter(DEMAND, false, nobody), await room?.enter(DEMAND, false, nobody)]
    expect(pair.every((grant) => grant !== undefined)).toBe(true)
    expect(await room?.enter(DEMAND, false, nobody)).toBeUndefined()
    for (const grant of pair) grant?.ended(DEMAND)
    // It looks again after a moment in which nothing was free.
    while ((room?.waitMs(DEMAND) ?? 0) > 0) await Bun.sleep(1)
  }
})

test('while the room is away, long requests keep their places, and a node that knows no fleet takes 2 %', async () => {
  const rooms = new Rooms(AWAY)
  rooms.shareAmong(undefined)
  rooms.use({ providers: { p: { concurrentRequests: 200, spend: { total: 5000 } } }, targets: [] }, [TARGET], 2)
  const room = rooms.of(TARGET)
  const enter = async (microUsd: number) => (await room?.enter({ tokens: 1, microUsd }, false, nobody)) !== undefined
  expect([await enter(50), await enter(1)]).toEqual([true, false])
  rooms.shareAmong(10)
  // What it asked for in advance in vain is empty for a moment.
  const isWorthAsking = async () => {
    while ((room?.waitMs({ tokens: 1, microUsd: 0 }) ?? 0) > 0) await Bun.sleep(1)
  }
  await isWorthAsking()
  expect(await enter(0)).toBe(true)
  const { now } = Date
  try {
    for (const laterMs of [15_000, 30_000, 45_000]) {
      Date.now = () => now() + laterMs
      rooms.tick(performance.now() + laterMs)
    }
    await isWorthAsking()
    // Ten places of a process.
    const more = await Promise.all(Array.from({ length: 10 }, () => enter(0)))
    expect(more.filter(Boolean)).toHaveLength(8)
  } finally {
    Date.now = now
    rooms.close()
  }
})

test('a target whose money is spent holds up neither others of its provider nor smaller requests', async () => {
  const [source, other] = [new Source(), { provider: 'p', model: 'other' }]
  const rooms = new Rooms(source)
  const targets = [{ ...TARGET, limits: { spend: { total: 100 } } }]
  rooms.use({ providers: { p: { requestsPerMinute: 30 } }, targets }, [TARGET, other], 1)
  const costing = (microUsd: number) => ({ tokens: 1, microUsd })
  const [room, open] = [rooms.of(TARGET), rooms.of(other)]
  const grant = await room?.enter(costing(60), false, nobody)
  const untilMs = performance.now() + 60_000
  expect(await room?.enter(costing(50), false, nobody)).toBeUndefined()
  expect(await open?.enter(costing(50), false, nobody)).toBeDefined()
  // What runs may give back some of it; and what is there is not there for a larger one alone.
  expect(room?.comesTooLate(costing(50), untilMs)).toBe(false)
  grant?.ended(costing(60))
  expect([50, 40].map((cost) => room?.comesTooLate(costing(cost), untilMs))).toEqual([true, false])
  // A reload has a larger limit.
  const larger = [{ ...TARGET, limits: { spend: { total: 200 } } }]
  rooms.use({ providers: {}, targets: larger }, [TARGET, other], 1)
  expect(room?.comesTooLate(costing(50), untilMs)).toBe(false)
  expect(await room?.enter(costing(50), false, nobody)).toBeDefined()
  rooms.close()
})

test('what is not held in advance is not taken for empty when other limits are asked for', async () => {
  const rooms = new Rooms(new Source())
  // Of places 2 % are less than one; of requests each process holds 12.
  const limits = { concurrentRequests: 2, requestsPerMinute: 600 }
  rooms.use({ providers: { p: limits }, targets: [] }, [TARGET], 1)
  await Bun.sleep(0)
  expect(rooms.of(TARGET)?.waitMs(DEMAND)).toBe(0)
  expect(await rooms.of(TARGET)?.enter(DEMAND, false, nobody)).toBeDefined()
  rooms.close()
})

test('what a request took too little of counts for all: money when it ends, tokens when its process ends', async () => {
  const source = new Source()
  const rooms = new Rooms(source)
  rooms.use({ providers: { p: { spend: { total: 800 }, tokensPerMinute: 6000 } }, targets: [] }, [TARGET], 1)
  const leftOf = (meter: Parameters<CommonRoom['take']>[0][number]['meter']) =>
    source.room.take([{ meter, need: 0, spare: 0 }], false, 'another').left[0] ?? 0
  const grant = await rooms.of(TARGET)?.enter({ tokens: 10, microUsd: 100 }, false, nobody)
  grant?.ended({ tokens: 800, microUsd: 600 })
  // What it holds for requests to come is at most 0.1 % of the money.
  expect(leftOf(METER)).toBeCloseTo(0.25, 2)
  rooms.close()
  expect(leftOf(METER)).toBeCloseTo(0.25, 5)
  const tokens = { name: 'p/tokens', kind: 'rate', unit: 'tokens', limit: 6000 } as const
  expect(leftOf(tokens)).toBeCloseTo(0.2, 1)
})

test('while others run elsewhere, only tokens may come earlier than by themselves', async () => {
  const untilMs = performance.now() + 1000
  for (const [processes, limits, isLate] of [
    [1, { tokensPerMinute: 6 }, true],
    [2, { tokensPerMinute: 6 }, false],
    [2, { requestsPerMinute: 6 }, true],
  ] as const) {
    const rooms = new Rooms(new Source())
    rooms.use({ providers: { p: limits }, targets: [] }, [TARGET], processes)
    const room = rooms.of(TARGET)
    const grant = await room?.enter(DEMAND, false, nobody)
    expect(await room?.enter(DEMAND, false, nobody)).toBeUndefined()
    expect(room?.comesTooLate(DEMAND, untilMs)).toBe(false)
    grant?.ended(DEMAND)
    expect(room?.comesTooLate(DEMAND, untilMs)).toBe(isLate)
    rooms.close()
  }
})

test('a process takes no place back that it is just granted, and one that asks in vain keeps its places', async () => {
  const source = new Source()
  const rooms = new Rooms(source)
  rooms.use({ providers: { p: { concurrentRequests: 1 } }, targets: [] }, [TARGET], 2)
  const entering = rooms.of(TARGET)?.enter(DEMAND, false, nobody)
  // The room has granted it, and the process does not know of it yet.
  rooms.tick(performance.now() + 60_000)
  const meter = { name: 'p/concurrent_requests', kind: 'concurrency', unit: 'concurrent_requests', limit: 1 } as const
  const isFree = () => source.room.take([{ meter, need: 1, spare: 0 }], false, 'b').waitMs === 0
  expect([isFree(), (await entering) !== undefined]).toEqual([false, true])
  const { now } = Date
  try {
    for (const laterMs of [15_000, 30_000, 45_000]) {
      Date.now = () => now() + laterMs
      expect(await rooms.of(TARGET)?.enter(DEMAND, false, nobody)).toBeUndefined()
      expect(isFree()).toBe(false)
      while ((rooms.of(TARGET)?.waitMs(DEMAND) ?? 0) > 0) await Bun.sleep(1)
    }
  } finally {
    Date.now = now
    rooms.close()
  }
})

test('a call that is made again takes another of the requests', async () => {
  const rooms = new Rooms(AWAY)
  rooms.use({ providers: { p: { requestsPerMinute: 12 } }, targets: [] }, [TARGET], 1)
  const room = rooms.of(TARGET)
  const grant = await room?.enter(DEMAND, false, nobody)
  grant?.again()
  grant?.ended(DEMAND)
  expect(await room?.enter(DEMAND, false, nobody)).toBeUndefined()
})

test('a limit that a configuration takes away no longer holds for those who wait, nor is it shown', async () => {
  const rooms = roomsOf(1)
  const room = rooms.of(TARGET)
  const grant = await room?.enter(DEMAND, false, nobody)
  expect(await room?.enter(DEMAND, false, nobody)).toBeUndefined()
  rooms.use({ providers: {}, targets: [] }, [TARGET], 1)
  expect([rooms.of(TARGET), rooms.left()]).toEqual([undefined, {}])
  expect(room?.tryEnter(DEMAND)).toBeDefined()
  grant?.ended(DEMAND)
})

test('a process that has a smaller limit holds less of it in advance', async () => {
  const source = new Source()
  const rooms = new Rooms(source)
  for (const [requestsPerMinute, held] of [
    [600, 12],
    [300, 6],
  ] as const) {
    rooms.use({ providers: { p: { requestsPerMinute } }, targets: [] }, [TARGET], 1)
    await Bun.sleep(0)
    const taken = []
    // None of them asks for room before the next turn of the event loop.
    for (let grant = rooms.of(TARGET)?.tryEnter(DEMAND); grant; grant = rooms.of(TARGET)?.tryEnter(DEMAND))
      taken.push(grant)
    expect(taken).toHaveLength(held)
    for (const grant of taken) grant.ended(undefined)
    await Bun.sleep(0)
  }
  rooms.close()
})

/** A common room that can be away, and what its process has given back. */
class Source implements RoomSource {
  isAway = false
  asks = 0
  readonly room = new CommonRoom()

  take: RoomSource['take'] = async (asks, isLow) => {
    if (this.isAway) throw new Error('away')
    this.asks++
    return this.room.take(asks, isLow, 'a')
  }

  give: RoomSource['give'] = (amounts) => this.room.give(amounts, 'a')
  renew: RoomSource['renew'] = (held) => this.room.renew(held, 'a')
  report: RoomSource['report'] = (reports) => this.room.report(reports)
}

test('while the shared room is away, a process spends its part of the rest, which is counted later', async () => {
  const source = new Source()
  const rooms = new Rooms(source)
  rooms.shareAmong(4)
  rooms.use({ providers: { p: { spend: { total: 800 } } }, targets: [] }, [TARGET], 1)
  const room = rooms.of(TARGET)
  const pay = async (microUsd: number) => (await room?.enter({ tokens: 1, microUsd }, false, nobody)) !== undefined
  const patient = async (microUsd: number) => {
    while ((room?.waitMs({ tokens: 1, microUsd }) ?? 0) > 0) await Bun.sleep(1)
    return await pay(microUsd)
  }
  expect(await pay(200)).toBe(true)
  source.isAway = true
  // A quarter of 600.
  expect([await pay(100), await patient(60), await patient(50)]).toEqual([true, false, true])
  source.isAway = false
  const left = () => source.room.take([{ meter: METER, need: 0, spare: 0 }], false, 'b').left[0]
  expect(left()).toBe(0.75)
  // It looks each second whether the room is back.
  while (left() === 0.75) {
    await patient(60)
    await Bun.sleep(5)
  }
  expect(left()).toBe(0.5625)
})

test('a process that loses the shared room twice takes its part of what is left, not of the limit', async () => {
  const source = new Source()
  const rooms = new Rooms(source)
  rooms.shareAmong(4)
  const targets = ['p', 'q'].map((provider) => ({ provider, model: 'm' }))
  rooms.use({ providers: { p: { spend: { total: 800 } }, q: { requestsPerMinute: 600 } }, targets: [] }, targets, 1)
  const enter = async (provider: string, microUsd: number) =>
    (await rooms.of({ provider, model: 'm' })?.enter({ tokens: 1, microUsd }, false, nobody)) !== undefined
  const { now } = performance
  let laterMs = 0
  performance.now = () => now.call(performance) + laterMs
  try {
    expect(await enter('p', 400)).toBe(true)
    for (const [before, part] of [
      [20, 100],
      [0, 95],
    ] as const) {
      source.isAway = true
      const rest = part - before + 1
      // It learns what is left of its part while it is alone.
      expect([await enter('q', 1), await enter('p', before), await enter('p', rest)]).toEqual([true, true, false])
      source.isAway = false
      source.asks = 0
      while (source.asks === 0) {
        laterMs += 1001
        await enter('q', 1)
        await Bun.sleep(1)
      }
    }
  } finally {
    performance.now = now
    rooms.close()
  }
})

test('money that is used up stays so, however often the shared room is lost', async () => {
  const source = new Source()
  const rooms = new Rooms(source)
  rooms.shareAmong(4)
  const meter = { ...METER, limit: 80_000 }
  const targets = ['p', 'q'].map((provider) => ({ provider, model: 'm' }))
  const providers = { p: { spend: { total: meter.limit } }, q: { requestsPerMinute: 600 } }
  rooms.use({ providers, targets: [] }, targets, 1)
  const room = rooms.of({ provider: 'p', model: 'm' })
  const pay = async (microUsd: number) => (await room?.enter({ tokens: 1, microUsd }, false, nobody)) !== undefined
  const askOther = () => rooms.of({ provider: 'q', model: 'm' })?.enter(DEMAND, false, nobody)
  const [{ now }, { now: nowOnWall }] = [performance, Date]
  let laterMs = 0
  performance.now = () => now.call(performance) + laterMs
  Date.now = () => nowOnWall() + laterMs
  try {
    expect(await pay(meter.limit)).toBe(true)
    for (let losses = 0; losses < 3; losses++) {
      source.isAway = true
      await askOther()
      laterMs += 301
      expect(await pay(1)).toBe(false)
      // As after each request: it asks for what requests to come may need.
      laterMs += 301
      room?.topUp()
      await Bun.sleep(0)
      source.isAway = false
      source.asks = 0
      while (source.asks === 0) {
        laterMs += 1001
        await askOther()
        await Bun.sleep(0)
      }
    }
  } finally {
    performance.now = now
    Date.now = nowOnWall
    rooms.close()
  }
  expect(source.room.take([{ meter, need: 0, spare: 0 }], false, 'b').left).toEqual([0])
})

test('a process that starts while the shared room is away takes 2 % of money', async () => {
  const source = new Source()
  source.isAway = true
  const rooms = new Rooms(source)
  rooms.shareAmong(4)
  rooms.use({ providers: { p: { spend: { total: 5000 } } }, targets: [] }, [TARGET], 2)
  const pay = async (microUsd: number) =>
    (await rooms.of(TARGET)?.enter({ tokens: 1, microUsd }, false, nobody)) !== undefined
  // It asks in vain what is left.
  rooms.tick(performance.now() + 6000)
  await Bun.sleep(0)
  expect([await pay(50), await pay(1)]).toEqual([true, false])
  rooms.close()
})

test('a process that loses the shared room again and again keeps to its part all together', async () => {
  const source = new Source()
  const rooms = new Rooms(source)
  rooms.shareAmong(4)
  rooms.use({ providers: { p: { requestsPerMinute: 48 } }, targets: [] }, [TARGET], 1)
  const room = rooms.of(TARGET)
  const enter = async () => (await room?.enter(DEMAND, false, nobody)) !== undefined
  const { now } = performance
  let [laterMs, alone] = [0, 0]
  performance.now = () => now.call(performance) + laterMs
  try {
    for (let losses = 0; losses < 10; losses++) {
      source.isAway = true
      for (let i = 0; i < 4; i++) if (await enter()) alone++
      source.isAway = false
      // It looks whether the room is back.
      laterMs += 1001
      while (source.asks === 0) {
        await enter()
        await Bun.sleep(1)
      }
      source.asks = 0
    }
  } finally {
    performance.now = now
    rooms.close()
  }
  // The bucket of its part holds two, and another comes back in 5 s.
  expect(alone).toBeWithin(1, 4)
})

const METER = { name: 'p/spend.total', kind: 'total', unit: 'micro_usd', limit: 800 } as const

test('a limit that a provider reports to be scarce holds for all processes, and is forgotten later', async () => {
  const source = new Source()
  const [one, other] = [source, source].map((each) => {
    const news: ScarceRoom[] = []
    const rooms = new Rooms(each, (room) => void news.push(room))
    rooms.use({ providers: {}, targets: [] }, [TARGET], 1)
    return { rooms, news }
  })
  if (one === undefined || other === undefined) throw new Error('no rooms')
  const report = { unit: 'requests', remaining: 100, limit: 100, resetMs: 0 } as const
  one.rooms.hear(TARGET, [report], 0, false)
  expect([one.rooms.of(TARGET), one.news]).toEqual([undefined, []])
  one.rooms.hear(TARGET, [{ ...report, remaining: 5, resetMs: 57_000 }], 0, false)
  const [news] = one.news
  if (news === undefined) throw new Error('no news')
  other.rooms.receive(news)
  const enter = async ({ rooms }: typeof one) => (await rooms.of(TARGET)?.enter(DEMAND, false, nobody)) !== undefined
  // Two are left to requests that the provider has not counted.
  expect([await enter(one), await enter(other), await enter(one), await enter(other)]).toEqual([
    true,
    true,
    true,
    false,
  ])
  other.rooms.receive({ ...news, model: 'unknown' })
  for (const { rooms } of [one, other]) rooms.tick(performance.now() + 60_000)
  expect([one.rooms.of(TARGET), other.rooms.of(TARGET)]).toEqual([undefined, undefined])
})

test('what is left of a limit is shown as it is, also by a process that takes nothing of it', async () => {
  const source = new Source()
  const [busy, idle] = [new Rooms(source), new Rooms(source)]
  // Of the 12 requests of a bucket each holds one for requests to come.
  for (const rooms of [busy, idle]) rooms.use({ providers: { p: { requestsPerMinute: 72 } }, targets: [] }, [TARGET], 1)
  for (let i = 0; i < 6; i++) expect(await busy.of(TARGET)?.enter(DEMAND, false, nobody)).toBeDefined()
  // A minute later nothing of what the other took may seem to have come back: it takes on.
  for (let i = 0; i < 2; i++) {
    idle.tick(performance.now() + 60_000)
    await Bun.sleep(0)
  }
  const name = 'p/requests'
  expect(idle.left()[name]).toBeWithin(0.3, 0.6)
  expect(Math.abs((idle.left()[name] ?? 1) - (busy.left()[name] ?? 0))).toBeLessThan(0.1)
  for (const rooms of [busy, idle]) rooms.close()
})

test('a window without anything left is closed until its reset; a bucket that refills evenly is not', async () => {
  for (const [resetMs, atLeast, atMost] of [
    [20_000, 19_000, 24_000],
    [60_000, 500, 3000],
  ] as const) {
    const source = new Source()
    const rooms = new Rooms(source)
    rooms.use({ providers: { p: { requestsPerMinute: 100 } }, targets: [] }, [TARGET], 1)
    rooms.hear(TARGET, [{ unit: 'requests', remaining: 0, limit: 100, resetMs }], 0, true)
    const meter = { name: 'p/m/reported.requests', kind: 'rate', unit: 'requests', limit: 100 } as const
    expect(source.room.take([{ meter, need: 1, spare: 0 }], false, 'b').waitMs).toBeWithin(atLeast, atMost)
    rooms.close()
  }
})

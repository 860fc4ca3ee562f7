/**
 * The counters of budgets in both stores: windows in a time zone that changes, counters that end, how many there may
 * be, and that a request counts in all of its owners or in none.
 */

import { afterAll, beforeAll, beforeEach, describe, expect, setSystemTime, test } from 'bun:test'
import type { Limits } from '../../src/core/limits.ts'
import { type Account, type CounterAccount, type Hold, noCharge } from '../../src/ledger/ledger.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { COUNTERS_MAX } from '../../src/ledger/reservation-store.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { Random } from './random.ts'
import { START_MS, type Subject, subjects } from './subject.ts'

/** Counters that one call of Redis copies. */
const COPIES_AT_ONCE = 10_000
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

type Amounts = Omit<NonNullable<Limits['spend']>, 'strict' | 'onExhausted'>

function spend(amounts: Amounts): Limits {
  return { spend: { ...amounts, strict: false, onExhausted: 'finish' } }
}

function accountOf(budgets: readonly CounterAccount[], timeZone = 'UTC'): Account {
  return { organization: 'acme', organizationLimits: {}, key: 'k', keyLimits: {}, budgets, timeZone }
}

function holdOf(id: string, costMicroUsd: number): Hold {
  return { id, estimate: { inputTokens: 0, outputTokens: 0, costMicroUsd }, floorMicroUsd: costMicroUsd }
}

for (const subject of subjects()) {
  describe(`the store in ${subject.name}`, () => {
    beforeAll(() => subject.open())
    afterAll(() => subject.close())
    beforeEach(async () => {
      await subject.reset()
      at(subject, START_MS)
    })

    test('what was spent elsewhere counts until its window ends', async () => {
      const untilMs = Date.now() + HOUR_MS
      const limits = (): Limits => ({
        spend: { day: 100, strict: false, onExhausted: 'finish', before: { day: { microUsd: 90, untilMs } } },
      })
      const counter = { name: 'all', value: '', limits: limits() }
      const plain: Account = { organization: 'acme', organizationLimits: limits(), key: 'k', keyLimits: {} }
      for (const account of [plain, accountOf([counter])]) {
        const id = (name: string) => `${name} ${account.budgets?.length}`
        expect(await outcome(subject, account, id('small'), 5)).toBe('granted')
        expect(await outcome(subject, account, id('again'), 1)).toBe('granted')
        expect(await outcome(subject, account, id('large'), 50)).toBe('refused day')
        try {
          setSystemTime(untilMs + 1)
          expect(await outcome(subject, account, id('later'), 50)).toBe('granted')
        } finally {
          setSystemTime()
        }
      }
    })

    test('a request counts in all of its owners, or in none', async () => {
      const counters = Array.from({ length: 8 }, (_, i) => ({
        name: `b${i}`,
        value: '',
        limits: spend({ day: 10 - i }),
      }))
      const account = accountOf(counters)
      expect(await outcome(subject, account, 'a', 2)).toBe('granted')
      expect(await subject.store.reserve(account, holdOf('b', 2))).toMatchObject({
        outcome: 'refused',
        refusal: { scope: 'budget', counter: 7, limit: 'day', held: true },
      })
      const used = async () => {
        const { key, budgets = [] } = await subject.store.figures(account)
        return [key, ...budgets.map(({ usage }) => usage)].map(({ day, live }) => [day.held, day.spent, live].join())
      }
      expect(await used()).toEqual(Array.from({ length: 9 }, () => '2,0,1'))
      await settle(subject, account, 'a', 1)
      expect(await used()).toEqual(Array.from({ length: 9 }, () => '0,1,0'))
    })

    test('a later turn counts in its own owners alone, and changes nothing if it is refused', async () => {
      const counters = ['dear', 'cheap'].map((name) => ({
        name,
        value: '',
        limits: { concurrentRequests: 1, requestsPerMinute: 2, ...spend({ total: 10 }) },
      }))
      const [dear, cheap] = counters.map((counter) => accountOf([counter]))
      if (dear === undefined || cheap === undefined) throw new Error('Two accounts are needed.')
      const plain = accountOf([])
      const turn = (account: Account, number: number, cost: number) =>
        subject.store.reserve(account, { ...holdOf('a', cost), turn: number })
      const used = async () => {
        const { key, budgets = [] } = await subject.store.figures(accountOf(counters))
        return [key, ...budgets.map(({ usage }) => usage)].map(({ live, requests, total }) =>
          [live, requests, total.held, total.spent].join(),
        )
      }
      await turn(dear, 0, 3)
      await subject.store.extend(dear, 'a', { ...holdOf('a', 1).estimate }, holdOf('a', 3).estimate)
      expect(await used()).toEqual(['1,0,2,1', '1,1,2,1', '0,0,0,0'])
      expect(await turn(cheap, 1, 11)).toMatchObject({ outcome: 'refused', refusal: { scope: 'budget', counter: 0 } })
      expect(await used()).toEqual(['1,0,2,1', '1,1,2,1', '0,0,0,0'])
      expect(await turn(cheap, 1, 4)).toMatchObject({ outcome: 'granted' })
      // A counter whose limits the call does not have keeps the request in its minute.
      const moved = ['1,0,4,0', '0,1,0,0', '1,1,4,0']
      expect(await used()).toEqual(moved)
      // Late repetitions of both turns.
      expect(await turn(dear, 0, 3)).toMatchObject({ outcome: 'granted' })
      expect(await turn(cheap, 1, 4)).toMatchObject({ outcome: 'granted' })
      expect(await used()).toEqual(moved)
      expect(await turn(plain, 2, 5)).toMatchObject({ outcome: 'granted' })
      expect(await used()).toEqual(['1,0,5,0', '0,1,0,0', '0,1,0,0'])
      expect(await turn(dear, 3, 6)).toMatchObject({ outcome: 'granted' })
      await settle(subject, dear, 'a', 7)
      expect(await used()).toEqual(['0,0,0,7', '0,2,0,7', '0,1,0,0'])
      expect((await subject.audit('acme')).map(({ id, costMicroUsd }) => [id, costMicroUsd])).toEqual([['a', 7]])
    })

    test('a settlement is charged to its own counters, whichever the store knows the request in', async () => {
      const limits = { concurrentRequests: 1, requestsPerMinute: 2, ...spend({ hour: 10, total: 10 }) }
      const [dear, cheap, both] = ['dear', 'cheap', 'both'].map((name) => ({ name, value: '', limits }))
      if (dear === undefined || cheap === undefined || both === undefined) throw new Error('Three are needed.')
      const used = async () => {
        const { key, budgets = [] } = await subject.store.figures(accountOf([dear, cheap, both]))
        return [key, ...budgets.map(({ usage }) => usage)].map(({ live, requests, total, hour }) =>
          [live, requests, total.held, total.spent, hour.spent].join(),
        )
      }
      const [first, second, plain] = [accountOf([dear, both]), accountOf([cheap, both]), accountOf([])]
      await outcome(subject, first, 'a', 5)
      await settle(subject, second, 'a', 3)
      const moved = ['0,0,0,3,0', '0,1,0,0,0', '0,0,0,3,3', '0,0,0,3,3']
      expect(await used()).toEqual(moved)
      const again = (id: string) => {
        const charge = { ...noCharge('completed'), model: 'm', costMicroUsd: 3 }
        return subject.store.settle({ id, account: second, admittedMs: START_MS }, charge)
      }
      expect(await again('a')).toBe('already_settled')
      expect(await used()).toEqual(moved)
      await outcome(subject, plain, 'b', 5)
      await settle(subject, second, 'b', 2)
      expect(await used()).toEqual(['0,0,0,5,0', '0,1,0,0,0', '0,0,0,5,5', '0,0,0,5,5'])
      await outcome(subject, second, 'c', 5)
      await settle(subject, plain, 'c', 1)
      expect(await used()).toEqual(['0,0,0,6,0', '0,1,0,0,0', '0,1,0,5,5', '0,1,0,5,5'])
      // It was lost meanwhile, and its hour has ended.
      await outcome(subject, first, 'd', 4)
      at(subject, START_MS + HOUR_MS)
      await subject.store.reap('acme')
      expect(await again('d')).toBe('settled')
      expect(await used()).toEqual(['0,0,0,9,0', '0,0,0,0,0', '0,0,0,8,0', '0,0,0,8,0'])
    })

    test('the windows are those of the time zone', async () => {
      const account = accountOf([{ name: 'b', value: '', limits: spend({ day: 1, hour: 1 }) }], 'Asia/Kathmandu')
      at(subject, Date.UTC(2026, 10, 21, 18))
      expect(await outcome(subject, account, 'a', 1)).toBe('granted')
      await settle(subject, account, 'a', 1)
      at(subject, Date.UTC(2026, 10, 21, 18, 14, 59))
      expect(await outcome(subject, account, 'b', 1)).toBe('refused day')
      at(subject, Date.UTC(2026, 10, 21, 18, 15))
      expect(await outcome(subject, account, 'c', 1)).toBe('granted')
    })

    test('a time zone that changes opens no window twice', async () => {
      const counters = [{ name: 'b', value: '', limits: spend({ month: 1 }) }]
      const [utc, berlin] = [accountOf(counters), accountOf(counters, 'Europe/Berlin')]
      const spendIn = async (account: Account, id: string, ms: number) => {
        at(subject, ms)
        const found = await outcome(subject, account, id, 1)
        if (found === 'granted') await settle(subject, account, id, 1)
        return found
      }
      // Berlin's December begins an hour before that of UTC.
      const lastHour = Date.UTC(2026, 10, 30, 23, 30)
      expect(await spendIn(berlin, 'a', START_MS)).toBe('granted')
      // In UTC it is November still, which was open.
      expect(await spendIn(utc, 'b', lastHour)).toBe('refused month')
      expect(await spendIn(utc, 'c', lastHour + HOUR_MS)).toBe('granted')
      // Berlin's January has begun, and December of UTC goes on.
      expect(await spendIn(berlin, 'd', Date.UTC(2026, 11, 31, 23, 30))).toBe('refused month')
      expect(await spendIn(berlin, 'e', Date.UTC(2027, 0, 1))).toBe('granted')
      expect(await spendIn(utc, 'f', Date.UTC(2027, 0, 31, 23, 30))).toBe('refused month')
    })

    test('a clock goes forward and back, by an hour or half of one, and each window opens once', async () => {
      const spentAt = async (zone: string, window: 'hour' | 'day', times: readonly string[]) => {
        await subject.reset()
        const account = accountOf([{ name: 'b', value: '', limits: spend({ [window]: 1 }) }], zone)
        const found: string[] = []
        for (const time of times) {
          at(subject, Date.parse(`${time}Z`))
          const granted = (await outcome(subject, account, time, 1)) === 'granted'
          if (granted) await settle(subject, account, time, 1)
          found.push(`${time.slice(11)} ${granted}`)
        }
        return found
      }
      const lordHowe = ['14:59', '15:10', '15:29', '15:30', '16:00', '16:29', '16:30']
      // From 02:00 back to 01:30 at 15:00 UTC.
      expect(
        await spentAt(
          'Australia/Lord_Howe',
          'hour',
          lordHowe.map((time) => `2026-04-04T${time}`),
        ),
      ).toEqual([
        ...['14:59 true', '15:10 false', '15:29 false', '15:30 true', '16:00 false', '16:29 false', '16:30 true'],
      ])
      // From 02:00 on to 02:30 at 15:30 UTC.
      expect(
        await spentAt(
          'Australia/Lord_Howe',
          'hour',
          lordHowe.map((time) => `2026-10-03T${time}`),
        ),
      ).toEqual([
        ...['14:59 true', '15:10 false', '15:29 false', '15:30 true', '16:00 true', '16:29 false', '16:30 false'],
      ])
      // The hour from two to three comes twice, and both are hours.
      const berlin = ['00:30', '00:59', '01:00', '01:59', '02:00'].map((time) => `2026-10-25T${time}`)
      expect(await spentAt('Europe/Berlin', 'hour', berlin)).toEqual([
        ...['00:30 true', '00:59 false', '01:00 true', '01:59 false', '02:00 true'],
      ])
      // A day of 25 hours, and one of 23.
      const fall = ['2026-11-01T03:30', '2026-11-02T03:29', '2026-11-02T03:30', '2027-03-14T03:30', '2027-03-15T02:30']
      expect(await spentAt('America/St_Johns', 'day', fall)).toEqual([
        ...['03:30 true', '03:29 false', '03:30 true', '03:30 true', '02:30 true'],
      ])
    })

    test('whichever time zones follow each other, no day opens twice', async () => {
      const zones = ['Pacific/Kiritimati', 'Asia/Kolkata', 'Europe/Berlin', 'America/St_Johns', 'Pacific/Pago_Pago']
      const random = new Random(20261128)
      const counters = [{ name: 'b', value: '', limits: spend({ day: 1 }) }]
      const opened: number[] = []
      for (let step = 0; step < 400; step++) {
        const now = START_MS + step * (HOUR_MS / 2)
        at(subject, now)
        const account = accountOf(counters, zones[random.below(zones.length)])
        if ((await outcome(subject, account, `r${step}`, 1)) !== 'granted') continue
        await settle(subject, account, `r${step}`, 1)
        const day = (await subject.store.figures(account)).budgets?.[0]?.usage.day
        expect(day).toMatchObject({ spent: 1, held: 0 })
        opened.push(day?.window ?? 0)
        // It has begun in some zone.
        expect(opened.at(-1)).toBeLessThanOrEqual(dayOf(now + 14 * HOUR_MS))
      }
      expect(opened.length).toBeGreaterThan(6)
      expect(opened).toEqual([...new Set(opened)].sort((a, b) => a - b))
    })

    test('a reservation that is lost is charged to its counters, and corrected by its settlement', async () => {
      const account = accountOf([{ name: 'b', value: 'x', limits: spend({ total: 10 }) }])
      expect(await outcome(subject, account, 'a', 5)).toBe('granted')
      at(subject, START_MS + 60_000)
      await subject.store.reap('acme')
      const total = async () => (await subject.store.figures(account)).budgets?.[0]?.usage.total
      expect(await total()).toMatchObject({ spent: 5, held: 0 })
      await settle(subject, account, 'a', 3)
      expect(await total()).toMatchObject({ spent: 3, held: 0 })
    })

    test('a counter ends with the last of its windows, or when it was idle, and not before', async () => {
      const day = accountOf([{ name: 'b', value: 'x', limits: spend({ day: 5 }), isBounded: true }])
      const idle = accountOf([{ name: 's', value: 'y', limits: spend({ total: 5 }), idleMs: DAY_MS, isBounded: true }])
      const forever = accountOf([{ name: 't', value: 'z', limits: spend({ total: 5 }) }])
      // Who waits for longer than it may be idle has no more of its day.
      const both = accountOf([{ name: 'u', value: '', limits: spend({ day: 5, total: 5 }), idleMs: HOUR_MS }])
      const accounts = [day, idle, forever, both]
      for (const [i, account] of accounts.entries()) {
        await outcome(subject, account, `r${i}`, 2)
        await settle(subject, account, `r${i}`, 2)
      }
      const spent = async (account: Account) => {
        await reapAll(subject)
        return (await subject.store.figures(account)).budgets?.[0]?.usage.total.spent
      }
      const allSpent = async (hours: number) => {
        at(subject, START_MS + hours * HOUR_MS)
        const found: (number | undefined)[] = []
        for (const account of accounts) found.push(await spent(account))
        return found
      }
      expect(await allSpent(23)).toEqual([2, 2, 2, 2])
      // Reading keeps none.
      const kept: (number | undefined)[] = []
      for (const account of accounts) kept.push((await subject.store.figures(account)).budgets?.[0]?.keptMs)
      const dayEnd = START_MS + 41 * HOUR_MS
      expect(kept).toEqual([dayEnd, START_MS + DAY_MS, Number.MAX_SAFE_INTEGER, dayEnd])
      expect(await allSpent(24)).toEqual([2, 0, 2, 2])
      // Their day ends after 15 hours, and 26 hours later in every time zone.
      expect(await allSpent(40)).toEqual([2, 0, 2, 2])
      expect(await allSpent(41)).toEqual([0, 0, 2, 0])
    })

    test('a counter of a request that runs is kept', async () => {
      const idle = accountOf([{ name: 's', value: 'y', limits: spend({ total: 5 }), idleMs: 10_000, isBounded: true }])
      await outcome(subject, idle, 'a', 2)
      at(subject, START_MS + 20_000)
      subject.sweep?.()
      await subject.store.reap('acme')
      await settle(subject, idle, 'a', 2)
      expect((await subject.store.figures(idle)).budgets?.[0]?.usage.total).toMatchObject({ spent: 2, held: 0 })
    })

    test('there are at most so many: a new value is refused, and an old one is not', async () => {
      const account = (value: string, name = 'b') => {
        return accountOf([{ name, value, limits: spend({ day: 5 }), isBounded: name !== 'free' }])
      }
      await fill(subject, account('v').budgets?.[0], COUNTERS_MAX)
      expect(await outcome(subject, account('v7'), 'a', 1)).toBe('granted')
      expect(await outcome(subject, account('new'), 'b', 1)).toBe('crowded')
      // A budget whose counters callers do not make is not bounded.
      expect(await outcome(subject, account('', 'free'), 'c', 1)).toBe('granted')
      at(subject, START_MS + 3 * DAY_MS)
      await settle(subject, account('v7'), 'a', 1)
      await reapAll(subject)
      expect(await outcome(subject, account('new'), 'd', 1)).toBe('granted')
    })
  })
}

function at(subject: Subject, ms: number): void {
  subject.clock.now = ms
  subject.clock.witness = ms
}

async function outcome(subject: Subject, account: Account, id: string, cost: number): Promise<string> {
  const reply = await subject.store.reserve(account, holdOf(id, cost))
  return reply.outcome === 'refused' ? `refused ${reply.refusal.limit}` : reply.outcome
}

async function settle(subject: Subject, account: Account, id: string, costMicroUsd: number): Promise<void> {
  const admission = { id, account, admittedMs: subject.clock.now }
  expect(await subject.store.settle(admission, { ...noCharge('completed'), model: 'm', costMicroUsd })).toBe('settled')
}

/** Ends what is overdue, a thousand at a time. */
async function reapAll(subject: Subject): Promise<void> {
  if (subject.sweep === undefined) for (let i = 0; i <= COUNTERS_MAX / 1000; i++) await subject.store.reap('acme')
  else subject.sweep()
}

/** Makes counters with the values `v0`, `v1`, …; in Redis copies of the first, because that many calls take long. */
async function fill(subject: Subject, counter: CounterAccount | undefined, count: number): Promise<void> {
  if (counter === undefined) return
  const accountFor = (i: number) => accountOf([{ ...counter, value: `v${i}` }])
  if (subject.redis === undefined) {
    for (let i = 0; i < count; i++) await subject.store.reserve(accountFor(i), holdOf(`f${i}`, 0))
    for (let i = 0; i < count; i++) await settle(subject, accountFor(i), `f${i}`, 0)
    return
  }
  await outcome(subject, accountFor(0), 'f0', 0)
  await settle(subject, accountFor(0), 'f0', 0)
  const script = `
    local counter, kept = redis.call('HGET', KEYS[1], 'cb\\tv0'), redis.call('ZSCORE', KEYS[2], 'cb\\tv0')
    for i = ARGV[1], ARGV[2] do
      redis.call('HSET', KEYS[1], 'cb\\tv' .. i, counter)
      redis.call('ZADD', KEYS[2], kept, 'cb\\tv' .. i)
    end
    redis.call('HSET', KEYS[1], 'n', ARGV[2] + 1)`
  for (let from = 1; from < count; from += COPIES_AT_ONCE) {
    const last = Math.min(count, from + COPIES_AT_ONCE) - 1
    await subject.redis.eval(script, 2, redisKey('acme', 'counters'), redisKey('acme', 'ends'), from, last)
  }
}

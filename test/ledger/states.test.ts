/**
 * Every verb in every state, and every limit at its edge: tables with the outcome in the last columns, run on both
 * stores.
 */

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Limits } from '../../src/core/limits.ts'
import {
  type Account,
  type Admission,
  type Charge,
  type Estimate,
  type Hold,
  noCharge,
} from '../../src/ledger/ledger.ts'
import { addUsage } from '../../src/ledger/usage-figures.ts'
import { START_MS, type Subject, subjects, withoutRefusals } from './subject.ts'

const account: Account = { organization: 'acme', organizationLimits: {}, key: 'ci', keyLimits: {} }
const DAY_MS = 86_400_000
const MOST = Number.MAX_SAFE_INTEGER

function amounts(inputTokens: number, outputTokens: number, costMicroUsd: number): Estimate {
  return { inputTokens, outputTokens, costMicroUsd }
}

function hold(id: string, cost = 100, tokens = 10): Hold {
  return { id, estimate: amounts(tokens, 0, cost), floorMicroUsd: Math.min(30, cost), model: 'm' }
}

function admission(of: Account, id = 'r'): Admission {
  return { id, account: of, admittedMs: START_MS }
}

function charge(costMicroUsd: number): Charge {
  return { ...noCharge('completed'), ...amounts(10, 5, costMicroUsd), model: 'm' }
}

/**
 * How each state is reached: 100 held, a floor of 30. `posted` is live with 40 posted; `overdue` is live with an
 * expired lease.
 */
const reach: Readonly<Record<string, (subject: Subject) => Promise<void>>> = {
  none: async () => undefined,
  live: async ({ store }) => {
    await store.reserve(account, hold('r'))
  },
  posted: async (subject) => {
    await reach['live']?.(subject)
    await subject.store.extend(account, 'r', amounts(10, 2, 40), amounts(10, 2, 40))
  },
  overdue: async (subject) => {
    await reach['live']?.(subject)
    subject.clock.now += 30_000
  },
  settled: async (subject) => {
    await reach['live']?.(subject)
    await subject.store.settle(admission(account), charge(70))
  },
  lost: async (subject) => {
    await reach['overdue']?.(subject)
    await subject.store.reap('acme')
  },
  cancelled: async (subject) => {
    await reach['live']?.(subject)
    await subject.store.cancel(account, 'r')
  },
}

const verbs: Readonly<Record<string, (subject: Subject) => unknown>> = {
  reserve: async ({ store }) => (await store.reserve(account, hold('r'))).outcome,
  extend: ({ store }) => store.extend(account, 'r', amounts(10, 4, 60), amounts(10, 20, 150)),
  settle: ({ store }) => store.settle(admission(account), charge(80)),
  charge: ({ store }) => store.settle(admission(account), charge(80), { isDirect: true }),
  cancel: ({ store }) => store.cancel(account, 'r'),
  reap: ({ store }) => store.reap('acme'),
}

// state      verb     answer           spent held live
const table = `
  none        reserve  granted              0  100    1
  none        extend   unknown              0    0    0
  none        settle   unknown              0    0    0
  none        charge   settled             80    0    0
  none        cancel   cancelled            0    0    0
  none        reap     0                    0    0    0
  live        reserve  granted              0  100    1
  live        extend   extended            60   90    1
  live        settle   settled             80    0    0
  live        charge   settled             80    0    0
  live        cancel   cancelled            0    0    0
  live        reap     0                    0  100    1
  posted      reserve  granted             40   60    1
  posted      extend   extended            60   90    1
  posted      settle   settled             80    0    0
  posted      charge   settled             80    0    0
  posted      cancel   cancelled           40    0    0
  posted      reap     0                   40   60    1
  overdue     reserve  ended               30    0    0
  overdue     extend   extended            60   90    1
  overdue     settle   settled             80    0    0
  overdue     charge   settled             80    0    0
  overdue     cancel   cancelled            0    0    0
  overdue     reap     1                   30    0    0
  settled     reserve  ended               70    0    0
  settled     extend   ended               70    0    0
  settled     settle   already_settled     70    0    0
  settled     charge   already_settled     70    0    0
  settled     cancel   ended               70    0    0
  settled     reap     0                   70    0    0
  lost        reserve  ended               30    0    0
  lost        extend   ended               30    0    0
  lost        settle   settled             80    0    0
  lost        charge   settled             80    0    0
  lost        cancel   cancelled            0    0    0
  lost        reap     0                   30    0    0
  cancelled   reserve  ended                0    0    0
  cancelled   extend   ended                0    0    0
  cancelled   settle   cancelled            0    0    0
  cancelled   charge   cancelled            0    0    0
  cancelled   cancel   ended                0    0    0
  cancelled   reap     0                    0    0    0`
  .trim()
  .split('\n')
  .map((line) => line.trim().split(/\s+/))

/** A limit, the usage before, and one more: grants and refuses exactly at the edge. */
const edges: readonly [string, Limits, Hold[], Hold, Hold, string, number | undefined][] = [
  ['requests', { requestsPerMinute: 3 }, [hold('a'), hold('b')], hold('c'), hold('d'), 'requests', 20_000],
  ['no requests at all', { requestsPerMinute: 0 }, [], hold('x', 0, 0), hold('d'), 'requests', undefined],
  ['tokens', { tokensPerMinute: 100 }, [hold('a', 1, 60)], hold('c', 1, 40), hold('d', 1, 1), 'tokens', 600],
  ['one as large as the bucket', { tokensPerMinute: 100 }, [], hold('c', 1, 100), hold('d', 1, 50), 'tokens', 30_000],
  [
    'one larger than the bucket',
    { tokensPerMinute: 100 },
    [],
    hold('c', 1, 100),
    hold('d', 1, 101),
    'tokens',
    undefined,
  ],
  ['concurrent requests', { concurrentRequests: 2 }, [hold('a')], hold('c'), hold('d'), 'concurrent_requests', 1000],
  ['a day', spend({ day: 300 }), [hold('a')], hold('c', 200), hold('d', 1), 'day', 1000],
  ['a month', spend({ month: 300 }), [hold('a')], hold('c', 200), hold('d', 150), 'month', 5000],
  ['in total', spend({ total: 300 }), [hold('a')], hold('c', 200), hold('d', 300), 'total', 10_000],
  [
    'nearly the largest there is',
    spend({ total: MOST - 1 }),
    [hold('a', 1)],
    hold('c', MOST - 2),
    hold('d', 1),
    'total',
    1000,
  ],
  ['more than the whole limit', spend({ day: 300 }), [], hold('c', 300), hold('d', 301), 'day', undefined],
]

function spend(limits: { day?: number; month?: number; total?: number }): Limits {
  return { spend: { ...limits, strict: false, onExhausted: 'finish' } }
}

for (const subject of subjects()) {
  describe(`the store in ${subject.name}`, () => {
    beforeEach(async () => {
      await subject.reset()
      subject.clock.now = START_MS
      subject.clock.witness = START_MS
    })
    beforeAll(() => subject.open())
    afterAll(() => subject.close())

    for (const [state = '', verb = '', answer, spent, held, live] of table) {
      test(`${verb} in state ${state}: ${answer}`, async () => {
        await reach[state]?.(subject)
        expect(String(await verbs[verb]?.(subject))).toBe(answer ?? '')
        // The clock is 30 s ahead if a lease expired: reading must not end anything more.
        subject.clock.now -= state === 'overdue' && verb !== 'extend' ? 30_000 : 0
        const { organization, key } = await subject.store.figures(account)
        for (const scope of [organization, key]) {
          for (const { spent, held } of [scope.day, scope.month, scope.total])
            expect([spent, held]).toEqual([spent, held])
          expect([scope.total.spent, scope.total.held, scope.live]).toEqual([spent, held, live].map(Number))
        }
      })
    }

    for (const days of [0.5 / 24, 2 / 24, 1, 30, 32, 70, 450]) {
      test(`a settlement that comes ${days} days after its reservation was lost is charged once`, async () => {
        const { clock } = subject
        const settle = (id: string, cost: number) =>
          subject.store.settle(admission(account, id), charge(cost), { isDirect: true })
        const spent = async () => (await subject.store.figures(account)).organization.total.spent
        await reach['posted']?.(subject)
        clock.now += 30_000
        expect(await spent()).toBe(40)
        clock.now += days * DAY_MS
        clock.witness = clock.now
        expect(await spent()).toBe(40)
        expect(await settle('r', 70)).toBe('settled')
        expect(await settle('other', 100)).toBe('settled')
        expect(await spent()).toBe(170)
        const usage = [...(await subject.usage('acme')).values()].reduce(addUsage)
        expect(usage).toMatchObject({ costMicroUsd: 170, requests: 2, inputTokens: 20, outputTokens: 10 })
      })
    }

    test('a settlement that is cheaper than what was charged for lost ones takes no more than itself', async () => {
      const { clock } = subject
      await reach['posted']?.(subject)
      clock.now += 30_000
      await subject.store.reap('acme')
      clock.now += 32 * DAY_MS
      clock.witness = clock.now
      await subject.store.reap('acme')
      await subject.store.settle(admission(account, 'r'), charge(30), { isDirect: true })
      expect((await subject.store.figures(account)).organization.total.spent).toBe(40)
    })

    test('what lost requests were charged is not taken off a later request of their day', async () => {
      const { clock } = subject
      await reach['posted']?.(subject)
      clock.now += 30_000
      await subject.store.reap('acme')
      // The lost reservation is deleted, and that of a request ten hours later would still be there.
      clock.now = START_MS + 31 * DAY_MS + 60_000
      clock.witness = clock.now
      await subject.store.reap('acme')
      const later = { ...admission(account, 'later'), admittedMs: START_MS + 10 * 3_600_000 }
      await subject.store.settle(later, charge(70), { isDirect: true })
      expect((await subject.store.figures(account)).organization.total.spent).toBe(110)
    })

    for (const scope of ['organization', 'key'] as const) {
      for (const [name, limits, before, passes, fails, limit, waitMs] of edges) {
        test(`${name}, of the ${scope}`, async () => {
          const limited = { ...account, [`${scope}Limits`]: limits }
          for (const one of before) expect((await subject.store.reserve(limited, one)).outcome).toBe('granted')
          const none = limits.requestsPerMinute === 0
          expect((await subject.store.reserve(limited, passes)).outcome).toBe(none ? 'refused' : 'granted')
          const figures = withoutRefusals(await subject.store.figures(limited))
          const reply = await subject.store.reserve(limited, fails)
          expect(reply).toMatchObject({ outcome: 'refused', refusal: { scope, limit } })
          expect(reply.outcome === 'refused' && reply.refusal.waitMs).toBe(waitMs)
          // A refused request consumes nothing.
          expect(withoutRefusals(await subject.store.figures(limited))).toEqual(figures)
        })
      }
    }

    test('of several exceeded limits, the error names the one with the longest wait', async () => {
      const limited = { ...account, organizationLimits: { requestsPerMinute: 1 }, keyLimits: spend({ day: 100 }) }
      await subject.store.reserve(limited, hold('r'))
      // Ten seconds at most for what a running request holds, a minute for the next request.
      const held = await subject.store.reserve(limited, hold('b'))
      expect(held).toMatchObject({ refusal: { scope: 'organization', limit: 'requests' }, held: false })
      await subject.store.settle(admission(limited), charge(1))
      const spent = await subject.store.reserve(limited, hold('b'))
      expect(spent).toMatchObject({ refusal: { scope: 'key', limit: 'day' } })
    })

    test('a wait helps only if each limit that rejects does so for what is reserved', async () => {
      const limited = { ...account, organizationLimits: { requestsPerMinute: 10 }, keyLimits: spend({ day: 100 }) }
      for (let i = 0; i < 9; i++) await subject.store.reserve(limited, hold(`free-${i}`, 0))
      await subject.store.reserve(limited, hold('r'))
      // The budget, for ten seconds, because of a reservation; the requests, for six, are used.
      const reply = await subject.store.reserve(limited, hold('b'))
      expect(reply).toMatchObject({ refusal: { scope: 'key', limit: 'day', held: true }, held: false })
    })

    test.each([
      ['day', 15 * 3_600_000],
      ['month', (9 * 24 + 15) * 3_600_000],
      ['total', undefined],
    ] as const)('money spent in a %s refuses until it renews, money held for seconds', async (window, renewsMs) => {
      const limited = { ...account, keyLimits: spend({ [window]: 300 }) }
      const ask = async (cost: number) => {
        const reply = await subject.store.reserve(limited, hold('s', cost))
        return reply.outcome === 'refused' ? [reply.refusal.limit, reply.refusal.waitMs, reply.refusal.held] : reply
      }
      await subject.store.reserve(limited, hold('r', 200))
      // A fifth of the held money must be released, or all of it, or no release is enough.
      expect(await ask(140)).toEqual([window, 2000, true])
      expect(await ask(300)).toEqual([window, 10_000, true])
      expect(await ask(301)).toEqual([window, undefined, false])
      await subject.store.extend(limited, 'r', amounts(1, 1, 50), amounts(1, 1, 200))
      expect(await ask(250)).toEqual([window, 10_000, true])
      expect(await ask(251)).toEqual([window, renewsMs, false])
      await subject.store.settle(admission(limited), charge(200))
      expect(await ask(101)).toEqual([window, renewsMs, false])
      expect(await ask(100)).toMatchObject({ outcome: 'granted' })
    })

    test('the remaining rates are those of the scope with less', async () => {
      const limited = {
        ...account,
        organizationLimits: { requestsPerMinute: 60, tokensPerMinute: 6000 },
        keyLimits: { requestsPerMinute: 6, tokensPerMinute: 60_000 },
      }
      const reply = await subject.store.reserve(limited, hold('a', 1, 600))
      expect(reply).toMatchObject({
        rates: [
          { limit: 6, remaining: 5, resetMs: 10_000 },
          { limit: 6000, remaining: 5400, resetMs: 6000 },
        ],
      })
    })

    test('a bucket refills evenly, and tokens that a request did not use return, less what has drained', async () => {
      const limited = { ...account, organizationLimits: { tokensPerMinute: 600 } }
      const used = async () => (await subject.store.figures(limited)).organization.tokens
      await subject.store.reserve(limited, hold('r', 1, 400))
      subject.clock.now += 10_000
      subject.clock.witness += 10_000
      expect(await used()).toBe(300)
      // 15 of 400 were used; 100 of the 400 have drained already: 300 return, not 385.
      await subject.store.settle(admission(limited), charge(1))
      expect(await used()).toBe(0)
      await subject.store.reserve(limited, hold('s', 1, 600))
      expect(await used()).toBe(600)
    })

    test('unused tokens of several requests return as long as the bucket was never empty', async () => {
      const limited = { ...account, organizationLimits: { tokensPerMinute: 600 } }
      const used = async () => (await subject.store.figures(limited)).organization.tokens
      for (const one of [hold('r', 1, 100), hold('s', 1, 100), hold('t', 1, 400)])
        await subject.store.reserve(limited, one)
      subject.clock.now += 10_000
      // Each used 15 of 100; the 100 that have drained were granted to the other requests.
      await subject.store.settle(admission(limited), charge(1))
      await subject.store.settle(admission(limited, 's'), charge(1))
      expect(await used()).toBe(600 - 100 - 85 - 85)
    })

    test('tokens that may have drained do not return after the bucket was empty', async () => {
      const limited = { ...account, organizationLimits: { tokensPerMinute: 600 } }
      const used = async () => (await subject.store.figures(limited)).organization.tokens
      await subject.store.reserve(limited, hold('r', 1, 100))
      subject.clock.now += 9000
      await subject.store.reserve(limited, hold('s', 1, 30))
      subject.clock.now += 5000
      await subject.store.reserve(limited, hold('t', 1, 300))
      await subject.store.settle(admission(limited), charge(1))
      expect(await used()).toBe(300)
    })

    test('a rate limit added by a reload is not changed by requests from before it', async () => {
      const limits = { requestsPerMinute: 3, tokensPerMinute: 600 }
      for (const scope of ['organizationLimits', 'keyLimits'] as const) {
        await subject.reset()
        const limited = { ...account, [scope]: limits }
        const used = async () => (await subject.store.figures(limited))[scope === 'keyLimits' ? 'key' : 'organization']
        for (const id of ['r', 's', 't']) await subject.store.reserve(account, hold(id, 1, 10))
        for (const id of ['u', 'v', 'w']) await subject.store.reserve(limited, hold(id, 1, 200))
        await subject.store.settle(admission(account), charge(1))
        await subject.store.extend(account, 's', amounts(1, 1, 1), amounts(1, 1, 1))
        await subject.store.cancel(account, 't')
        expect(await used()).toMatchObject({ requests: 3, tokens: 600 })
        // Nor do they delay its drain: time passed while only they ran counts.
        subject.clock.now += 20_000
        await subject.store.settle(admission(account, 's'), charge(1))
        expect(await used()).toMatchObject({ requests: 2, tokens: 400 })
        expect((await subject.store.reserve(limited, hold('x', 1, 200))).outcome).toBe('granted')
        expect((await subject.store.reserve(limited, hold('y', 1, 1))).outcome).toBe('refused')
      }
    })

    test('a limit lowered meanwhile leaves no bucket below empty', async () => {
      const limited = (tokensPerMinute: number) => ({ ...account, organizationLimits: { tokensPerMinute } })
      await subject.store.reserve(limited(6000), hold('r', 1, 100))
      subject.clock.now += 1000
      await subject.store.reserve(limited(6000), hold('s', 1, 0))
      await subject.store.settle(admission(limited(60)), charge(1))
      expect((await subject.store.figures(limited(60))).organization.tokens).toBe(0)
    })

    test('a stream that outlives its day is not stopped by the next one', async () => {
      const limited = { ...account, organizationLimits: spend({ day: 100, total: 1000 }) }
      await subject.store.reserve(limited, hold('r', 10))
      subject.clock.now += 20 * 3_600_000
      subject.clock.witness = subject.clock.now
      await subject.store.extend(limited, 'r', amounts(1, 1, 5), amounts(1, 1, 10))
      expect((await subject.store.reserve(limited, hold('s', 100))).outcome).toBe('granted')
      expect(await subject.store.extend(limited, 'r', amounts(1, 1, 9), amounts(1, 1, 50))).toBe('extended')
      expect((await subject.store.figures(limited)).organization.day).toMatchObject({ spent: 0, held: 100 })
    })

    test('more tokens never refuse a stream: they are charged if there is room, or once they are used', async () => {
      const limited = { ...account, keyLimits: { tokensPerMinute: 100 } }
      const used = async () => (await subject.store.figures(limited)).key.tokens
      await subject.store.reserve(limited, hold('r', 1, 90))
      expect(await subject.store.extend(limited, 'r', amounts(10, 10, 1), amounts(10, 150, 1))).toBe('extended')
      expect(await used()).toBe(90)
      expect(await subject.store.extend(limited, 'r', amounts(10, 140, 1), amounts(10, 150, 1))).toBe('extended')
      expect(await used()).toBe(150)
    })

    test('a budget keeps the cheapest request that it refused, until there is room for it', async () => {
      const limited = { ...account, keyLimits: spend({ total: 100 }) }
      const refused = async () => (await subject.store.figures(limited)).key.total.refused
      const ask = (id: string, cost: number) => subject.store.reserve(limited, hold(id, cost))
      await subject.store.reserve(limited, { ...hold('lost', 60), floorMicroUsd: 60 })
      // Only what runs is in its way.
      await ask('held', 50)
      expect(await refused()).toBe(0)
      subject.clock.now += 31_000
      subject.clock.witness = subject.clock.now
      await subject.store.reap('acme')
      await ask('large', 101)
      expect(await refused()).toBe(101)
      for (const [id, cost, left] of [
        ['a', 50, 50],
        ['b', 45, 45],
        ['c', 70, 45],
        ['d', 101, 45],
      ] as const) {
        await ask(id, cost)
        expect(await refused()).toBe(left)
      }
      // It was charged too much: the cheapest would pass now, and only the next refusal counts.
      await subject.store.settle(admission(limited, 'lost'), charge(20))
      await ask('e', 90)
      expect(await refused()).toBe(90)
    })

    test('a limit of 0 keeps what it refused, from the first request on and in each window anew', async () => {
      const limited = { ...account, keyLimits: spend({ day: 0 }) }
      const day = async () => (await subject.store.figures(limited)).key.day
      const first = (await day()).window
      await subject.store.reserve(limited, hold('a', 50))
      await subject.store.reserve(limited, hold('b', 40))
      expect(await day()).toEqual({ window: first, spent: 0, held: 0, refused: 40 })
      subject.clock.now += DAY_MS
      subject.clock.witness = subject.clock.now
      expect(await day()).toEqual({ window: first + 1, spent: 0, held: 0, refused: 0 })
      await subject.store.reserve(limited, hold('c', 60))
      expect(await day()).toEqual({ window: first + 1, spent: 0, held: 0, refused: 60 })
    })

    test('an extension in money is all or nothing, and progress is posted in any case', async () => {
      const limited = { ...account, keyLimits: spend({ total: 150 }) }
      const total = async () => (await subject.store.figures(limited)).key.total
      await subject.store.reserve(limited, hold('r'))
      expect(await subject.store.extend(limited, 'r', amounts(1, 1, 50), amounts(1, 1, 151))).toBe('exhausted')
      expect(await total()).toEqual({ window: 0, spent: 50, held: 50, refused: 0 })
      expect(await subject.store.extend(limited, 'r', amounts(1, 1, 50), amounts(1, 1, 150))).toBe('extended')
      expect(await total()).toEqual({ window: 0, spent: 50, held: 100, refused: 0 })
      // Repeated and stale calls change nothing.
      expect(await subject.store.extend(limited, 'r', amounts(1, 1, 20), amounts(1, 1, 100))).toBe('extended')
      expect(await total()).toEqual({ window: 0, spent: 50, held: 100, refused: 0 })
      // Actual usage may exceed what is held.
      expect(await subject.store.extend(limited, 'r', amounts(1, 1, 170), amounts(1, 1, 200))).toBe('exhausted')
      expect(await total()).toEqual({ window: 0, spent: 170, held: 0, refused: 0 })
    })

    test('a limit lowered below what is held refuses new requests and lets running ones finish', async () => {
      await subject.store.reserve(account, hold('r'))
      const lowered = { ...account, organizationLimits: spend({ day: 50 }) }
      expect((await subject.store.reserve(lowered, hold('s', 1))).outcome).toBe('refused')
      expect(await subject.store.extend(lowered, 'r', amounts(1, 1, 60), amounts(1, 1, 60))).toBe('extended')
      expect(await subject.store.settle(admission(lowered), charge(80))).toBe('settled')
    })

    test('a day renews at midnight UTC, and never comes back', async () => {
      const limited = { ...account, organizationLimits: spend({ day: 100 }) }
      const outcome = async (id: string) => (await subject.store.reserve(limited, hold(id))).outcome
      const set = (ms: number) => {
        subject.clock.now = ms
        subject.clock.witness = ms
      }
      set(Date.UTC(2028, 1, 29, 23, 59, 59, 999))
      expect([await outcome('a'), await outcome('b')]).toEqual(['granted', 'refused'])
      set(Date.UTC(2028, 2, 1))
      expect([await outcome('c'), await outcome('d')]).toEqual(['granted', 'refused'])
      set(Date.UTC(2028, 1, 29, 12))
      expect(await outcome('e')).toBe('refused')
    })

    test('a month renews at its end, also of a leap year and of a year, and a day within it does not', async () => {
      const limited = { ...account, organizationLimits: spend({ month: 100 }) }
      const outcome = async (id: string) => (await subject.store.reserve(limited, hold(id))).outcome
      const set = (ms: number) => {
        subject.clock.now = ms
        subject.clock.witness = ms
      }
      set(Date.UTC(2028, 1, 28, 23, 59, 59, 999))
      expect([await outcome('a'), await outcome('b')]).toEqual(['granted', 'refused'])
      set(Date.UTC(2028, 1, 29))
      expect(await outcome('c')).toBe('refused')
      set(Date.UTC(2028, 2, 1))
      expect([await outcome('d'), await outcome('e')]).toEqual(['granted', 'refused'])
      set(Date.UTC(2028, 11, 31, 23, 59, 59, 999))
      expect([await outcome('f'), await outcome('g')]).toEqual(['granted', 'refused'])
      set(Date.UTC(2029, 0, 1))
      expect([await outcome('h'), await outcome('i')]).toEqual(['granted', 'refused'])
    })

    // The in-memory store has no clock but its gateway's own.
    test.skipIf(subject.name === 'memory')('one wrong clock does not renew a budget', async () => {
      const limited = { ...account, organizationLimits: spend({ day: 100 }) }
      expect((await subject.store.reserve(limited, hold('a'))).outcome).toBe('granted')
      subject.clock.now += 86_400_000
      expect((await subject.store.reserve(limited, hold('b'))).outcome).toBe('refused')
      subject.clock.witness += 86_400_000
      expect((await subject.store.reserve(limited, hold('b'))).outcome).toBe('granted')
    })

    const watched = {
      ...account,
      organization: 'a',
      organizationLimits: spend({ total: 1000 }),
      alertShares: [0.5, 0.8],
    }
    const settle = (id: string, cost: number) =>
      subject.store.settle(admission(watched, id), charge(cost), { isDirect: true })
    const recorded = async () => {
      const found = await subject.crossings()
      return found.filter(({ key, budget }) => key === undefined && budget === 'total')
    }

    test('exactly a share of a limit is recorded, and nothing less', async () => {
      await settle('a', 499)
      expect(await recorded()).toEqual([])
      await settle('b', 1)
      const [found, ...others] = await recorded()
      expect([found, others]).toMatchObject([{ organization: 'a', spentMicroUsd: 500, limitMicroUsd: 1000 }, []])
      if (found !== undefined) await subject.take([found])
      await settle('c', 299)
      expect(await recorded()).toEqual([])
      await settle('d', 700)
      expect(await recorded()).toMatchObject([{ spentMicroUsd: 1499, limitMicroUsd: 1000 }])
    })

    test('each budget has its own shares', async () => {
      const both = { ...watched, organizationLimits: spend({ day: 1000, total: 100_000 }) }
      await subject.store.settle(admission(both, 'a'), charge(500), { isDirect: true })
      expect((await subject.crossings()).map(({ budget }) => budget)).toEqual(['day'])
    })

    test('of several records of a window, the one with the most spent stays', async () => {
      for (const [id, cost] of [['long', 600] as const, ['short', 300] as const])
        await subject.store.reserve(watched, { ...hold(id, cost), floorMicroUsd: cost })
      subject.clock.now += 31_000
      subject.clock.witness = subject.clock.now
      await subject.store.reap('a')
      // The lost ones have cost 900. Corrected, the spend is below both shares, and reaches one of them again.
      await settle('long', 0)
      await settle('more', 250)
      expect((await subject.store.figures(watched)).organization.total.spent).toBe(550)
      expect(await recorded()).toMatchObject([{ spentMicroUsd: 900, limitMicroUsd: undefined }])
    })

    test('an invalid amount is rejected, and changes nothing', async () => {
      for (const bad of [-1, 0.5, MOST + 1, Number.NaN, Number.POSITIVE_INFINITY]) {
        expect(async () => subject.store.reserve(account, hold('r', bad))).toThrow(RangeError)
        expect(async () => subject.store.extend(account, 'r', amounts(bad, 0, 0), amounts(0, 0, 0))).toThrow(RangeError)
        expect(async () => subject.store.settle(admission(account), charge(bad), { isDirect: true })).toThrow(
          RangeError,
        )
      }
      expect((await subject.store.figures(account)).organization.live).toBe(0)
    })

    test('amounts near 2^53 stay exact', async () => {
      const big = MOST - 12_345
      await subject.store.reserve(account, hold('r', big, MOST))
      expect((await subject.store.figures(account)).key.day.held).toBe(big)
      await subject.store.extend(account, 'r', amounts(1, 1, big - 1), amounts(1, 1, 1))
      expect((await subject.store.figures(account)).key.month).toMatchObject({ spent: big - 1, held: 1 })
      await subject.store.settle(admission(account), charge(big + 1))
      expect((await subject.store.figures(account)).organization.total).toMatchObject({ spent: big + 1, held: 0 })
      const [usage] = (await subject.usage('acme')).values()
      expect(usage?.costMicroUsd).toBe(big + 1)
      await subject.store.settle(admission(account, 'more'), charge(MOST), { isDirect: true })
      expect((await subject.store.figures(account)).organization.total.spent).toBe(MOST)
    })
  })
}

/** The behaviour that every ledger guarantees through its public interface: one suite, run for each kind. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { alertLedger } from '../../src/assembly/alert-ledger.ts'
import { type LedgerPlace, openAccountUsageReader, openAuditLog, openUsageLog } from '../../src/assembly/open-ledger.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import type { Limits } from '../../src/core/limits.ts'
import {
  type Account,
  type Charge,
  type Hold,
  type Ledger,
  noCharge,
  type Reservation,
} from '../../src/ledger/ledger.ts'
import { rateLimitHeaders } from '../../src/ledger/rate-limit-headers.ts'
import { remainingLimits } from '../../src/ledger/remaining.ts'
import { groupUsage } from '../../src/ledger/usage-log.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { openLedger } from '../support/open-ledger.ts'
import { Random, randomSeed } from './random.ts'

export interface Installation {
  readonly name: string
  open(): Promise<void>
  /** The place of the next ledger to open. */
  readonly place: LedgerPlace
  /** Opens it; absent: `openLedger` does. */
  ledger?(): Promise<Ledger>
  close(): Promise<void>
}

let made = 0

export function accountOf(
  organizationLimits: Limits = {},
  keyLimits: Limits = {},
  organization = `org-${made++}`,
): Account {
  return { organization, organizationLimits, key: 'ci', keyLimits }
}

export function holdOf(costMicroUsd: number, tokens = 10): Hold {
  return {
    id: `r${made++}-${process.pid}`,
    estimate: { inputTokens: tokens, outputTokens: 0, costMicroUsd },
    floorMicroUsd: Math.min(costMicroUsd, 30),
    model: 'm',
  }
}

export function chargeOf(costMicroUsd: number, model = 'm'): Charge {
  return {
    ...noCharge('completed'),
    ...{ inputTokens: 10, cachedInputTokens: 4, outputTokens: 5, costMicroUsd },
    ...{ model, provider: 'p' },
  }
}

export function spend(limits: { day?: number; month?: number; total?: number }): Limits {
  return { spend: { ...limits, strict: false, onExhausted: 'finish' } }
}

/** Makes a reservation that must be refused; returns the error. */
async function refused(ledger: Ledger, account: Account, hold: Hold): Promise<CallerError> {
  try {
    await ledger.reserve(account, hold)
  } catch (error) {
    if (error instanceof CallerError) return error
    throw error
  }
  throw new Error('The reservation was granted; a refusal was expected.')
}

export function conformance(installation: Installation): void {
  describe(`the ${installation.name} ledger`, () => {
    let ledger: Ledger
    const openNext = () => installation.ledger?.() ?? openLedger(installation.place)

    beforeAll(() => installation.open())
    beforeEach(async () => {
      ledger = await openNext()
    })
    afterEach(() => ledger.close())
    afterAll(() => installation.close())

    const reopen = async () => {
      await ledger.close()
      ledger = await openNext()
    }
    const figuresOf = async (account: Account) => {
      const reading = await openAccountUsageReader(installation.place)
      const figures = await reading.read(account)
      await reading.close()
      return figures
    }

    test('a reservation reports its held amount and the remaining rates', async () => {
      const account = accountOf({ requestsPerMinute: 60, tokensPerMinute: 1000 })
      const hold = holdOf(100, 400)
      const reservation = await ledger.reserve(account, hold)
      expect(reservation).toMatchObject({ id: hold.id, account, held: hold.estimate })
      expect(Math.abs(reservation.admittedMs - Date.now())).toBeLessThan(5000)
      expect(rateLimitHeaders(reservation)).toEqual({
        'x-ratelimit-limit-requests': '60',
        'x-ratelimit-remaining-requests': '59',
        'x-ratelimit-reset-requests': '1s',
        'x-ratelimit-limit-tokens': '1000',
        'x-ratelimit-remaining-tokens': '600',
        'x-ratelimit-reset-tokens': '24s',
      })
      expect(rateLimitHeaders(await ledger.reserve(accountOf(), holdOf(1)))).toEqual({})
    })

    test('settling twice charges once', async () => {
      const account = accountOf()
      const reservation = await ledger.reserve(account, holdOf(100))
      expect(await ledger.settle(reservation, chargeOf(70))).toBe('settled')
      expect(await ledger.settle(reservation, chargeOf(90))).toBe('already_settled')
      await reopen()
      const { organization, key } = await figuresOf(account)
      expect([organization.total, key.day.spent, organization.live]).toEqual([
        { window: 0, spent: 70, held: 0, refused: 0 },
        70,
        0,
      ])
    })

    test('extending a reservation succeeds while the limit has room, and reports when it has none', async () => {
      const account = accountOf(spend({ month: 200 }))
      const reservation = await ledger.reserve(account, holdOf(100))
      const amounts = (costMicroUsd: number) => ({ inputTokens: 10, outputTokens: 1, costMicroUsd })
      expect(await ledger.extend(reservation, amounts(50), amounts(200))).toBe(true)
      expect(await ledger.extend(reservation, amounts(60), amounts(201))).toBe(false)
      expect(await ledger.settle(reservation, chargeOf(250))).toBe('settled')
    })

    test('a reservation that has ended cannot be extended, and the reply reports that', async () => {
      const reservation = await ledger.reserve(accountOf(), holdOf(100))
      await ledger.settle(reservation, chargeOf(70))
      const grown = (async () =>
        ledger.extend(reservation, reservation.held, { ...reservation.held, costMicroUsd: 200 }))()
      expect(await grown.catch((error) => error.kind)).toBe('ledger_unavailable')
    })

    test('a request that costs nothing is granted on a used-up budget and on an overdrawn one', async () => {
      const account = accountOf(spend({ day: 100 }), spend({ total: 100 }))
      const reservation = await ledger.reserve(account, holdOf(100))
      const free = { ...holdOf(0), floorMicroUsd: 0 }
      await ledger.settle(await ledger.reserve(account, free), chargeOf(0))
      expect(await ledger.settle(reservation, chargeOf(250))).toBe('settled')
      await ledger.settle(await ledger.reserve(account, { ...holdOf(0), floorMicroUsd: 0 }), chargeOf(0))
      expect((await refused(ledger, account, holdOf(1))).kind).toBe('quota_exhausted')
      expect((await figuresOf(account)).organization.live).toBe(0)
    })

    describe('refusals', () => {
      test('a rate limit: the error names the limit, its scope and when to retry', async () => {
        const account = accountOf({ requestsPerMinute: 2 })
        await ledger.reserve(account, holdOf(1))
        await ledger.reserve(account, holdOf(1))
        const failure = await refused(ledger, account, holdOf(1))
        expect([failure.kind, failure.code, failure.type]).toEqual(['rate_limited', 'rate_limit_exceeded', 'requests'])
        expect(failure.detail.retryAfterSeconds).toBeGreaterThanOrEqual(29)
        expect(failure.detail.retryAfterSeconds).toBeLessThanOrEqual(30)
        expect(failure.message).toContain(`2 requests per minute for organisation '${account.organization}'`)
        expect(failure.detail.headers?.['x-ratelimit-remaining-requests']).toBe('0')
      })

      test('token and concurrency limits have their own error types', async () => {
        const account = accountOf({}, { tokensPerMinute: 100, concurrentRequests: 1 })
        await ledger.reserve(account, holdOf(1, 90))
        const tokens = await refused(ledger, account, holdOf(1, 20))
        expect([tokens.kind, tokens.type]).toEqual(['rate_limited', 'tokens'])
        const places = await refused(ledger, account, holdOf(1, 10))
        expect([places.type, places.detail.retryAfterSeconds]).toEqual(['concurrent_requests', 1])
        expect(places.message).toContain("1 concurrent request for key 'ci'")
      })

      test('a limit of 0 rejects every request', async () => {
        const failure = await refused(ledger, accountOf({}, { requestsPerMinute: 0 }), holdOf(1))
        expect([failure.kind, failure.type]).toEqual(['exceeds_limit', 'requests'])
        expect(failure.message).toBe("Key 'ci' is limited to 0 requests per minute, so every request is rejected.")
      })

      test('a request that can never be granted gets an error without a time to retry', async () => {
        const account = accountOf({ tokensPerMinute: 100 })
        const failure = await refused(ledger, account, holdOf(1, 101))
        expect([failure.kind, failure.type, failure.detail.retryAfterSeconds]).toEqual([
          'exceeds_limit',
          'tokens',
          undefined,
        ])
        expect(failure.row.headers).toEqual({ 'x-should-retry': 'false' })
        expect(failure.message).toContain('101 tokens')
      })

      test('a spend limit: the error names the limit, its scope and when it renews', async () => {
        const account = accountOf(spend({ day: 5_000_000 }), spend({ total: 1_500_000 }))
        await ledger.settle(await ledger.reserve(account, holdOf(1_500_000)), chargeOf(1_500_000))
        const total = await refused(ledger, account, holdOf(1))
        expect([total.kind, total.code, total.detail.retryAfterSeconds]).toEqual([
          'quota_exhausted',
          'insufficient_quota',
          undefined,
        ])
        expect(total.message).toBe(
          'This request may cost $0.000001, more than is left of the total spend limit of $1.50 ' +
            "for key 'ci'. The limit does not renew.",
        )
        const other = { ...account, key: 'other', keyLimits: {} }
        await ledger.settle(await ledger.reserve(other, holdOf(3_500_000)), chargeOf(3_500_000))
        const day = await refused(ledger, other, holdOf(1))
        const midnight = new Date((dayOf(Date.now()) + 1) * 86_400_000).toISOString().slice(0, 19)
        expect(day.message).toBe(
          `This request may cost $0.000001, more than is left of the ` +
            `daily spend limit of $5.00 for organisation '${account.organization}'. The limit renews at ${midnight}Z.`,
        )
        const large = await refused(ledger, other, holdOf(5_000_001))
        expect(large.kind).toBe('quota_exhausted')
        expect(large.message).toContain('This request may cost $5.000001, more than the daily spend limit of $5.00')
      })

      test('held money: retry in 1 to 10 seconds; spent money, or a request too dear: no retry', async () => {
        const account = accountOf({}, spend({ day: 1_000_000 }))
        const running = await ledger.reserve(account, holdOf(600_000))
        const failure = await refused(ledger, account, holdOf(520_000))
        expect([failure.kind, failure.row.status, failure.code, failure.type]).toEqual([
          ...['rate_limited', 429],
          ...['rate_limit_exceeded', 'spend'],
        ])
        // A fifth of the held money must be released.
        expect([failure.detail.retryAfterSeconds, failure.row.headers]).toEqual([2, undefined])
        expect(failure.message).toBe(
          'This request may cost $0.52, more than running requests leave of the daily spend limit of $1.00 ' +
            "for key 'ci'. Try again in 2 s.",
        )
        expect((await refused(ledger, account, holdOf(1_000_000))).detail.retryAfterSeconds).toBe(10)
        expect((await refused(ledger, account, holdOf(1_000_001))).kind).toBe('quota_exhausted')
        await ledger.settle(running, chargeOf(500_000))
        const spent = await refused(ledger, account, holdOf(500_001))
        expect([spent.code, spent.type, spent.detail.retryAfterSeconds, spent.row.headers]).toEqual([
          ...['insufficient_quota', 'insufficient_quota', undefined],
          { 'x-should-retry': 'false' },
        ])
        expect((await ledger.reserve(account, holdOf(500_000))).held.costMicroUsd).toBe(500_000)
      })
    })

    test('of 300 concurrent requests, exactly as many are granted as the budget allows', async () => {
      const account = accountOf(spend({ day: 1003 }))
      const outcomes = await Promise.allSettled(
        Array.from({ length: 300 }, async () => ledger.reserve(account, holdOf(7))),
      )
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(Math.floor(1003 / 7))
    })

    test('usage contains settled requests by day, key and model, without those that reached no provider', async () => {
      const account = accountOf()
      const settle = async (of: Account, settlement: Charge) => {
        await ledger.settle(await ledger.reserve(of, holdOf(100)), settlement)
      }
      const other = { ...account, key: 'dev' }
      await settle(account, chargeOf(70))
      await settle(account, chargeOf(30, 'n'))
      await settle(other, { ...chargeOf(5), estimated: true, images: 2 })
      await settle(account, { ...chargeOf(0), model: '', outcome: 'refused' })
      await reopen()
      const log = await openUsageLog(installation.place)
      const today = dayOf(Date.now())
      const query = { sinceDay: today, untilDay: today + 1, organization: account.organization }
      const rows = await log.read(query)
      expect(
        groupUsage(rows, ['model']).map(({ names, figures }) => [...names, figures.requests, figures.costMicroUsd]),
      ).toEqual([
        ['m', 2, 75],
        ['n', 1, 30],
      ])
      expect(groupUsage(rows, ['organization'])[0]?.figures).toEqual({
        requests: 3,
        estimatedRequests: 1,
        inputTokens: 30,
        cachedInputTokens: 12,
        outputTokens: 15,
        images: 2,
        costMicroUsd: 105,
      })
      expect(await log.read({ ...query, key: 'dev' })).toHaveLength(1)
      expect(await log.read({ ...query, untilDay: today })).toEqual([])
      await log.close()
    })

    test('law: for each tag, its values and requests without it add up to what was charged', async () => {
      const account = accountOf()
      const random = new Random(randomSeed('tags'))
      const served: {
        readonly project: string | undefined
        readonly team: string | undefined
        readonly cost: bigint
      }[] = []
      const serve = async () => {
        const [project, team] = [random.pick([undefined, 'a', 'b', 'a/b']), random.pick([undefined, 'x', 'a'])]
        const tags = [project && `project=${project}`, team && `team=${team}`].filter(Boolean).join(',')
        const cost = random.pick([0, 1, random.below(1e6), 2 ** 40 + random.below(1e6)])
        const hold = { ...holdOf(random.below(1e6)), tags }
        const key = random.pick(['ci', 'dev'])
        const charge = { ...chargeOf(cost, random.pick(['m', 'n'])), provider: random.pick(['p', 'q']), tags }
        await ledger.settle(await ledger.reserve({ ...account, key }, hold), charge)
        served.push({ project, team, cost: BigInt(cost) })
      }
      for (let i = 0; i < 20; i++) await Promise.all(Array.from({ length: 1 + random.below(6) }, serve))
      await reopen()
      const log = await openUsageLog(installation.place)
      const rows = await log.read({ sinceDay: 0, untilDay: 1e6, organization: account.organization })
      await log.close()
      for (const tag of ['project', 'team'] as const) {
        const expected = new Map<string, bigint>()
        for (const one of served) expected.set(one[tag] ?? '', (expected.get(one[tag] ?? '') ?? 0n) + one.cost)
        const groups = groupUsage(rows, [`tag:${tag}`])
        expect(groups.map(({ names, figures }) => [names[0] ?? '', BigInt(figures.costMicroUsd)] as const)).toEqual(
          [...expected].sort(([a], [b]) => (a < b ? -1 : 1)),
        )
        expect(groups.reduce((sum, { figures }) => sum + figures.requests, 0)).toBe(served.length)
      }
      const audit = await openAuditLog(installation.place)
      let tagged = 0n
      const query = { sinceMs: 0, untilMs: 1e14, organization: account.organization }
      for await (const page of audit.read(query))
        for (const row of page) if (row.tags.includes('team=x')) tagged += BigInt(row.costMicroUsd)
      await audit.close()
      expect(tagged).toBe(served.reduce((sum, { team, cost }) => sum + (team === 'x' ? cost : 0n), 0n))
    })

    test('a settlement that reaches a share of a limit is recorded, and stays until it is taken', async () => {
      const alerts = alertLedger(installation.place, () => [])
      const reader = await alerts.reader()
      const plain = accountOf(spend({ total: 1000 }), spend({ day: 500 }))
      const account = { ...plain, alertShares: [0.5, 0.8] }
      const { organization } = account
      const recorded = async (count: number) => {
        // The embedded ledger commits to its file every 20 ms.
        for (let i = 0; i < 100 && (await own()).length < count; i++) await Bun.sleep(10)
        return await own()
      }
      const own = async () => (await reader.read([organization])).filter((one) => one.organization === organization)
      await ledger.settle(await ledger.reserve(plain, holdOf(100)), chargeOf(100))
      await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(149))
      await reopen()
      expect(await own()).toEqual([])
      const next = await ledger.reserve(account, holdOf(100))
      await ledger.extend(next, { ...next.held, costMicroUsd: 1 }, next.held)
      const [crossing, ...others] = await recorded(1)
      const day = { budget: 'day', window: dayOf(Date.now()), key: 'ci', limitMicroUsd: 500 }
      expect([crossing, others]).toMatchObject([{ organization, ...day }, []])
      expect(crossing?.spentMicroUsd).toBe(250)
      await ledger.settle(next, chargeOf(400))
      await reopen()
      // The record was read before more was spent.
      if (crossing !== undefined) await reader.take([crossing])
      const found = await recorded(2)
      expect(found.map(({ key, budget, spentMicroUsd }) => [key ?? '', budget, spentMicroUsd]).sort()).toEqual([
        ['', 'total', 649],
        ['ci', 'day', 649],
      ])
      await reader.take(found)
      expect(await own()).toEqual([])
      alerts.close()
    })

    test('the figures show what is left while the ledger is open', async () => {
      const account = accountOf({ requestsPerMinute: 10, concurrentRequests: 3 }, spend({ day: 1000 }))
      await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(40))
      const held: Reservation = await ledger.reserve(account, holdOf(200))
      await ledger.extend(held, held.held, held.held)
      // The embedded ledger commits to its file every 20 ms; readers are not notified.
      let figures = await figuresOf(account)
      for (let i = 0; i < 100 && figures.organization.live === 0; i++) {
        await Bun.sleep(10)
        figures = await figuresOf(account)
      }
      const limits = remainingLimits(account.organizationLimits, figures.organization)
      expect(limits.map(({ limit, used }) => [limit.name, used])).toEqual([
        ['requests', 2],
        ['concurrent_requests', 1],
      ])
      const [day] = remainingLimits(account.keyLimits, figures.key)
      expect(day).toMatchObject({ limit: { name: 'day' }, most: 1000, used: 240, left: 760 })
      expect(day?.renewsAtMs).toBe((dayOf(Date.now()) + 1) * 86_400_000)
    })

    test('it is ready, and has nothing pending once all requests are settled', async () => {
      const reservation = await ledger.reserve(accountOf(), holdOf(1))
      await ledger.settle(reservation, chargeOf(1))
      for (let i = 0; i < 100 && ledger.health().pending > 0; i++) await Bun.sleep(10)
      expect(ledger.health()).toEqual({ ready: true, up: true, complaint: undefined, pending: 0 })
    })
  })
}

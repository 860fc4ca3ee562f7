/**
 * A reservation refused because of other reservations is retried: how often, when, and how many wait at once. The test
 * controls time.
 */

import { describe, expect, test } from 'bun:test'
import { laterOf } from '../../src/core/later.ts'
import type { LimitName } from '../../src/core/limits.ts'
import type { Account, Hold } from '../../src/ledger/ledger.ts'
import { SettlementsInFlight } from '../../src/ledger/redis/delivery/settlements-in-flight.ts'
import type { Time } from '../../src/ledger/redis/node-time.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { RedisLink } from '../../src/ledger/redis/redis-link.ts'
import { ReserveRetry } from '../../src/ledger/redis/reserving/reserve-retry.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import type { ReserveReply, ScopeName } from '../../src/ledger/reservation-store.ts'
import { TIMED_OUT } from '../../src/redis/redis-errors.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { breakConnections, failureOf, totals, until } from './seen.ts'

const { directory } = opened()

type Refused = Extract<ReserveReply, { outcome: 'refused' }>

const GRANTED: ReserveReply = { outcome: 'granted', admittedMs: 1, rates: [] }

function refused(held: boolean, limit: LimitName = 'concurrent_requests', scope: ScopeName = 'key'): Refused {
  return { outcome: 'refused', refusal: { scope, limit, waitMs: 1000, held }, rates: [], held }
}

/** The pending waits, in the order in which they began; the test ends each. */
class Waits {
  readonly ms: number[] = []
  private readonly ends: (() => void)[] = []

  readonly after = (ms: number): Promise<void> => {
    this.ms.push(ms)
    return new Promise((resolve) => this.ends.push(resolve))
  }

  get open(): number {
    return this.ends.length
  }

  async end(): Promise<void> {
    this.ends.shift()?.()
    await Bun.sleep(0)
  }
}

function setting(answers: readonly ReserveReply[]) {
  const [waits, settlementsInFlight, left] = [new Waits(), new SettlementsInFlight(), [...answers]]
  let asked = 0
  const ask = async (): Promise<ReserveReply> => {
    asked += 1
    return left.shift() ?? refused(true)
  }
  const patience = new ReserveRetry(settlementsInFlight, waits.after)
  return { waits, settlementsInFlight, patience, ask, asked: () => asked }
}

const account = { ...accountOf(), keyLimits: { concurrentRequests: 2 }, organizationLimits: { concurrentRequests: 3 } }

const inFlight = () => ({ organization: account.organization, place: -1, listeners: undefined })

describe('a reservation that is refused', () => {
  test('for a reason other than held amounts: is not retried', async () => {
    const { patience, ask, asked, waits, settlementsInFlight } = setting([])
    settlementsInFlight.begin(inFlight())
    const first = refused(false)
    expect(await patience.retry(account, first, ask)).toBe(first)
    expect([asked(), waits.ms]).toEqual([0, []])
  })

  test.each([
    ['granted at the second attempt', [GRANTED], [30], 1],
    ['granted at the third', [refused(true), GRANTED], [30, 70], 2],
    ['refused by all three', [refused(true), refused(true)], [30, 70], 2],
    ['refused at the second for a reason other than held amounts', [refused(false)], [30], 1],
  ] as const)('because of what other processes hold: %s', async (_, answers, waited, count) => {
    const { patience, ask, asked, waits } = setting(answers)
    const reply = patience.retry(account, refused(true), ask)
    while (waits.open > 0) await waits.end()
    expect(await reply).toEqual(answers.at(-1) ?? GRANTED)
    expect([asked(), waits.ms]).toEqual([count, [...waited]])
  })

  test('because of what this process holds: is retried as soon as that is settled', async () => {
    const { patience, ask, asked, waits, settlementsInFlight } = setting([GRANTED])
    const settling = inFlight()
    settlementsInFlight.begin(settling)
    const reply = patience.retry(account, refused(true), ask)
    await Bun.sleep(0)
    expect([asked(), waits.ms]).toEqual([0, [100]])
    settlementsInFlight.end(settling)
    expect(await reply).toBe(GRANTED)
    expect(asked()).toBe(1)
  })

  test('because of what this process holds on to: waits 100 ms, then as for other processes', async () => {
    const { patience, ask, asked, waits, settlementsInFlight } = setting([])
    settlementsInFlight.begin(inFlight())
    const reply = patience.retry(account, refused(true), ask)
    while (waits.open > 0) await waits.end()
    expect((await reply).outcome).toBe('refused')
    expect([asked(), waits.ms]).toEqual([3, [100, 30, 70]])
  })
})

describe('a flood of them', () => {
  test.each([
    ["a key's concurrency limit has as many waiters as places", refused(true), 2],
    [
      "an organisation's concurrency limit has as many waiters as places",
      refused(true, 'concurrent_requests', 'organization'),
      3,
    ],
    ['256 wait for a budget', refused(true, 'day'), 256],
    ['256 wait for a rate', refused(true, 'tokens'), 256],
  ])('%s', async (_, first, most) => {
    const { patience, ask, asked, waits } = setting([])
    const replies = Array.from({ length: most + 5 }, () => patience.retry(account, first, ask))
    await Bun.sleep(0)
    expect(waits.open).toBe(most)
    for (const reply of replies.slice(most)) expect(await reply).toBe(first)
    expect(asked()).toBe(0)
    // Waiters of another limit or organisation are counted separately.
    const { limit, scope } = first.refusal
    const elsewhere = patience.retry(account, refused(true, limit === 'month' ? 'day' : 'month', scope), ask)
    await Bun.sleep(0)
    expect(waits.open).toBe(most + 1)
    const other = patience.retry({ ...account, organization: 'other' }, first, ask)
    await Bun.sleep(0)
    expect(waits.open).toBe(most + 2)
    while (waits.open > 0) await waits.end()
    await Promise.all([...replies, elsewhere, other])
    // After they are gone there is room again.
    const next = Array.from({ length: most }, () => patience.retry(account, first, ask))
    await Bun.sleep(0)
    expect(waits.open).toBe(most)
    while (waits.open > 0) await waits.end()
    await Promise.all(next)
  })
})

/** A disk that never completes a commit. */
class StuckOutbox extends Outbox {
  override add(): void {}
}

test('a settlement whose commit hangs does not block a refused caller for ever', async () => {
  await using server = await RedisServer.start()
  const link = new RedisLink({ kind: 'single', url: server.socket })
  await link.start()
  const waits: { readonly ms: number; readonly end: () => void }[] = []
  const time: Time = {
    now: Date.now,
    every: (ms, call) => {
      if (ms <= 100) waits.push({ ms, end: call })
      else if (ms === 2000) setTimeout(call, 0)
      return () => undefined
    },
  }
  const ledger = new RedisLedger(link, new StuckOutbox(directory()), 'refuse', time)
  const one = accountOf({ concurrentRequests: 1 })
  const reservation = await ledger.reserve(one, holdOf(100))
  void ledger.settle(reservation, chargeOf(70))
  const second = failureOf(ledger.reserve(one, holdOf(100)))
  for (const [i, ms] of [100, 30, 70].entries()) {
    await until(() => waits.length > i)
    expect(waits[i]?.ms).toBe(ms)
    waits[i]?.end()
  }
  expect(await second).toBe('rate_limited')
  expect(waits).toHaveLength(3)
  // The refused request consumed nothing.
  expect(await totals(server, one)).toEqual({ spent: 0, held: 100, live: 1 })
  await ledger.close()
})

test('a call without a reply, then a refusal: what it holds is given back, not what the next one holds', async () => {
  await using server = await RedisServer.start()
  const link = new RedisLink({ kind: 'single', url: server.socket })
  await link.start()
  const { store } = link
  const unanswered: Hold[] = []
  const cancelled: string[] = []
  // The first call of each reservation gets no reply; the test executes it later.
  const lossy: typeof store = Object.create(store, {
    reserve: {
      value: (account: Account, hold: Hold) => {
        if (unanswered.some(({ id }) => id === hold.id)) return store.reserve(account, hold)
        unanswered.push(hold)
        return laterOf(Promise.reject(new Error(TIMED_OUT)))
      },
    },
    cancel: {
      value: async (account: Account, id: string, turn: number) => {
        const reply = await store.cancel(account, id, turn)
        cancelled.push(id)
        return reply
      },
    },
  })
  Object.defineProperty(link, 'store', { value: lossy })
  const ledger = new RedisLedger(link, new Outbox(directory()), 'refuse')
  const narrow = accountOf({}, spend({ day: 50 }))
  const wide = { ...narrow, keyLimits: {} }
  const [first, alone] = [holdOf(100), holdOf(100)]
  expect(await failureOf(ledger.reserve(narrow, first))).toBe('quota_exhausted')
  const next = await ledger.reserve(wide, { ...first, turn: 1 })
  expect(await failureOf(ledger.reserve(narrow, alone))).toBe('quota_exhausted')
  for (const hold of unanswered) await store.reserve(wide, hold)
  await until(async () => cancelled.includes(alone.id) && (await totals(server, narrow)).live === 1)
  expect(await totals(server, narrow)).toEqual({ spent: 0, held: 100, live: 1 })
  // Cancellations that Redis may have lost are sent again, but not those that a later turn has followed.
  const [before, client] = [cancelled.length, server.client()]
  await breakConnections(client)
  await until(() => cancelled.length > before)
  expect(cancelled.slice(before)).toEqual([alone.id])
  await ledger.settle(next, chargeOf(70))
  await until(() => ledger.health().pending === 0)
  expect(await totals(server, narrow)).toEqual({ spent: 70, held: 0, live: 0 })
  await ledger.close()
})

test('a cancellation leaves later turns, whether they came before it or come after it', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const account = accountOf()
  const [live, later] = [holdOf(100), holdOf(100)]
  await store.reserve(account, { ...live, turn: 1 })
  expect(await store.cancel(account, live.id, 0)).toBe('ended')
  expect(await store.cancel(account, later.id, 0)).toBe('cancelled')
  expect((await store.reserve(account, later)).outcome).toBe('ended')
  expect((await store.reserve(account, { ...later, turn: 1 })).outcome).toBe('granted')
  expect(await totals(server, account)).toEqual({ spent: 0, held: 200, live: 2 })
})

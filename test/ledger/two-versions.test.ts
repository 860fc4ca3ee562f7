/**
 * A node of an earlier version and one of this version on one Redis, as during the upgrade of a fleet: neither loses or
 * doubles a charge. `fixtures/ledger/earlier-redis-ledger.js` is the ledger of the earlier version, as `bun build` made
 * it of `src/ledger/redis/redis-ledger.ts`; never regenerate it.
 */

import { expect, test } from 'bun:test'
import type { Account, Hold, Ledger, Reservation } from '../../src/ledger/ledger.ts'
import { openReader, RedisAuditLog } from '../../src/ledger/redis/readers/redis-readers.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { Random, randomSeed } from './random.ts'
import { RedisServer } from './redis-server.ts'
import { failureOf, totals, until } from './seen.ts'

const EARLIER = '../fixtures/ledger/earlier-redis-ledger.js'
const KEEP_MS = 1e15
const { directory } = opened()

/** The ledger of the node `earlier` and the one of this version. */
async function nodes(server: RedisServer): Promise<readonly [Ledger, Ledger]> {
  // While a busy machine restores lost data, Redis may need longer than 250 ms.
  const place = { kind: 'single', url: server.socket, timeoutMs: 20_000 } as const
  const { RedisLedger: Earlier }: { readonly RedisLedger: typeof RedisLedger } = await import(EARLIER)
  const open = (Kind: typeof RedisLedger) => {
    return Kind.open(place, directory(), 'refuse', { keepMs: KEEP_MS })
  }
  return [await open(Earlier), await open(RedisLedger)]
}

async function audited(server: RedisServer, account: Account): Promise<ReadonlyMap<string, number>> {
  const log = await openReader(RedisAuditLog, { kind: 'single', url: server.socket })
  const costs = new Map<string, number>()
  const all = { sinceMs: 0, untilMs: 1e14, organization: account.organization }
  for await (const page of log.read(all)) for (const { id, costMicroUsd } of page) costs.set(id, costMicroUsd)
  await log.close()
  return costs
}

test('law: random requests of both versions are charged once each, also over a loss of all data', async () => {
  const seed = randomSeed('two versions')
  const random = new Random(seed)
  await using server = await RedisServer.start()
  const ledgers = await nodes(server)
  const account = accountOf(spend({ total: 1e9 }), { tokensPerMinute: 1e6 })
  // The earlier version knows no budgets, and no requests that go on to a candidate under other budgets.
  const counted = ['dear', 'cheap'].map((value) => ({
    ...account,
    budgets: [{ name: 'model', value, limits: spend({ day: 1e9 }) }],
  }))
  const running: { readonly ledger: Ledger; readonly hold: Hold; reservation: Reservation; turn: number }[] = []
  const charged = new Map<string, number>()
  const ofBudgets = [0, 0]
  const countedIn = (turn: number) => counted[turn % 2] ?? account
  const client = server.client()
  for (let step = 0; step < 600; step++) {
    if (running.length < 20 && random.oneIn(2)) {
      const ledger = random.pick(ledgers)
      const own = ledger === ledgers[1] ? countedIn(0) : account
      const hold = holdOf(100 + random.below(400))
      running.push({ ledger, hold, reservation: await ledger.reserve(own, hold), turn: 0 })
      continue
    }
    const [one] = running.splice(random.below(running.length), 1)
    if (one === undefined) continue
    const cost = random.below(500)
    while (one.ledger === ledgers[1] && random.oneIn(3)) {
      one.turn += 1
      const hold = { ...one.hold, turn: one.turn }
      one.reservation = await one.ledger.reserve(countedIn(one.turn), hold, one.reservation)
    }
    if (random.oneIn(3)) {
      const amounts = (costMicroUsd: number) => ({ inputTokens: 1, outputTokens: 1, costMicroUsd })
      // One that was lost with the data cannot grow; it is charged all the same.
      const extending = Promise.resolve(one.ledger.extend(one.reservation, amounts(cost), amounts(600)))
      expect(await failureOf(extending)).toMatch(step > 300 ? /^none$|^ledger_unavailable$|has expired/ : /^none$/)
    }
    await one.ledger.settle(one.reservation, chargeOf(cost))
    charged.set(one.reservation.id, cost)
    if (one.ledger === ledgers[1]) ofBudgets[one.turn % 2] = (ofBudgets[one.turn % 2] ?? 0) + cost
    if (step === 300) {
      await until(async () => (await totals(server, account)).live === running.length)
      await client.flushall()
    }
  }
  for (const { ledger, reservation, turn } of running) {
    await ledger.settle(reservation, chargeOf(10))
    charged.set(reservation.id, 10)
    if (ledger === ledgers[1]) ofBudgets[turn % 2] = (ofBudgets[turn % 2] ?? 0) + 10
  }
  const spent = [...charged.values()].reduce((sum, cost) => sum + cost, 0)
  await until(
    async () => (await totals(server, account)).live === 0 && ledgers.every((one) => one.health().pending === 0),
  )
  expect([seed, await totals(server, account)]).toEqual([seed, { spent, held: 0, live: 0 }])
  for (const [i, own] of counted.entries()) {
    const { budgets: [counter] = [] } = await new RedisStore(client, client).figures(own)
    expect([seed, i, counter?.usage.live, counter?.usage.total]).toMatchObject([
      seed,
      i,
      0,
      { spent: ofBudgets[i], held: 0 },
    ])
  }
  // Rows of before the loss are in the outboxes of their nodes alone.
  for (const [id, cost] of await audited(server, account))
    expect([seed, id, cost]).toEqual([seed, id, charged.get(id) ?? -1])
  await Promise.all(ledgers.map((ledger) => ledger.close()))
})

test('both versions hold one budget: of 100 requests at once exactly 50 pass', async () => {
  await using server = await RedisServer.start()
  const ledgers = await nodes(server)
  const account = accountOf(spend({ total: 5000 }))
  const asked = Array.from({ length: 100 }, (_, i) => Promise.resolve(ledgers[i % 2]?.reserve(account, holdOf(100))))
  const failures = await Promise.all(asked.map(failureOf))
  expect(failures.filter((failure) => failure === 'none').length).toBe(50)
  expect(await totals(server, account)).toEqual({ spent: 0, held: 5000, live: 50 })
  await Promise.all(ledgers.map((ledger) => ledger.close()))
})

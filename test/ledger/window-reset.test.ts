/**
 * Days and months of budgets that started too early because a clock was ahead: they are reported, and a command resets
 * them.
 */

import { beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type LedgerPlace,
  openAccountUsageReader,
  openAuditLog,
  openUsageLog,
  openWindowReset,
} from '../../src/assembly/open-ledger.ts'
import type { BudgetConfig } from '../../src/core/budget-config.ts'
import { budgetLimits } from '../../src/core/limits.ts'
import { uncountedTags } from '../../src/core/tags.ts'
import { auditedUsage } from '../../src/ledger/audited-usage.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { openLedgerDatabase } from '../../src/ledger/embedded/ledger-database.ts'
import type { Account } from '../../src/ledger/ledger.ts'
import { Upkeep } from '../../src/ledger/redis/maintenance/upkeep.ts'
import { ORGANIZATIONS_KEY } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import type { ScopeUsage } from '../../src/ledger/reservation-store.ts'
import { noUsage } from '../../src/ledger/usage-figures.ts'
import { dayOf, monthOf, windowsIn } from '../../src/ledger/window.ts'
import { firstDayNow } from '../../src/ledger/window-reset.ts'
import { untilHourIsSafe } from '../support/half-hour.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { RedisServer } from './redis-server.ts'

beforeEach(untilHourIsSafe)

const AHEAD_MS = 40 * 86_400_000
const account = accountOf(spend({ day: 200 }))
const timezone = 'Asia/Kolkata'
const PERSON = 'person'
// Reports do not count the tag `session`.
const budgets: readonly BudgetConfig[] = [
  budgetOf('person', 200, { tag: PERSON }),
  budgetOf('session', 200, { tag: 'session' }),
  budgetOf('all', 1000),
]

function budgetOf(name: string, most: number, per?: BudgetConfig['per']): BudgetConfig {
  const spend = { hour: most, day: most, week: most, month: most, strict: false, onExhausted: 'finish' as const }
  return { name, per, match: {}, limits: { spend }, except: new Map(), onExhausted: 'refuse' }
}

/** An account whose requests count in three counters. */
function countedAccount(person = 'ada'): Account {
  const counters = budgets.map(({ name, per, limits }) => ({ name, value: per === undefined ? '' : person, limits }))
  return { ...account, organizationLimits: {}, budgets: counters, timeZone: timezone }
}

function taggedCharge(cost: number, person = 'ada') {
  return { ...chargeOf(cost), tags: `${PERSON}=${person}` }
}

/** Runs the reset as the command does. */
async function reset(place: LedgerPlace): Promise<number> {
  const [windows, log, audit] = [await openWindowReset(place), await openUsageLog(place), await openAuditLog(place)]
  try {
    const organization = { id: account.organization, budgets, timezone }
    const usage = await log.read({ sinceDay: 0, untilDay: Number.MAX_SAFE_INTEGER, organization: organization.id })
    const sinceDay = firstDayNow(organization, Date.now())
    return await windows.reset(organization, await auditedUsage(organization.id, usage, sinceDay, audit))
  } finally {
    await Promise.all([windows.close(), log.close(), audit.close()])
  }
}

async function expectNow(place: LedgerPlace, spent: number): Promise<void> {
  const usageReader = await openAccountUsageReader(place)
  const { organization, key } = await usageReader.read(account)
  const now = { window: dayOf(Date.now()), spent, held: 0, refused: 0 }
  for (const scope of [organization, key] satisfies ScopeUsage[]) {
    expect(scope.day).toEqual(now)
    expect(scope.month).toEqual({ ...now, window: monthOf(Date.now()) })
    expect(scope.total.spent).toBe(spent)
  }
  await usageReader.close()
}

/** Expects what each counter has spent, by its name, in the present windows of the time zone. */
async function expectCounters(
  place: LedgerPlace,
  person: string,
  spent: Readonly<Record<string, number>>,
): Promise<void> {
  const reader = await openAccountUsageReader(place)
  const { budgets: found = [] } = await reader.read(countedAccount(person))
  const { windows, ends } = windowsIn(timezone, Date.now())
  for (const [at, [name, amount]] of Object.entries(spent).entries()) {
    for (const [i, limit] of budgetLimits.entries()) {
      // Without a limit of the total the counters have ended while the clock was ahead.
      if (limit.name === 'total') continue
      const budget = found[at]?.usage[limit.name]
      const wanted = { window: windows[i] ?? 0, spent: amount, held: 0, refused: 0 }
      expect([name, limit.name, budget]).toEqual([name, limit.name, wanted])
      expect(found[at]?.endsMs[limit.name]).toBe(ends[i])
    }
  }
  await reader.close()
}

function placeIn({ socket: url }: RedisServer): LedgerPlace {
  return { ledger: { kind: 'redis', redis: { kind: 'single', url } }, ledgerUnreachable: 'refuse', dataDir: '' }
}

/** The upkeep of a node, and the organisations that it has reported. */
function upkeepOf(client: ConstructorParameters<typeof Upkeep>[0]) {
  const ahead: string[] = []
  const timely: string[] = []
  const none = () => undefined
  const upkeep = new Upkeep(client, {
    isConfigured: () => false,
    keepAuditMs: 1e9,
    measured: none,
    alarmed: none,
    calmed: none,
    timely: (organization) => timely.push(organization),
    denied: none,
    undurable: none,
    ahead: (organization) => ahead.push(organization),
  })
  return { upkeep, ahead, timely }
}

test('windows in Redis are set back to today', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const place = placeIn(server)
  const charge = async (cost: number, ms: number) => {
    const store = new RedisStore(client, client, () => ms, `local now = ${ms}\n`)
    const hold = holdOf(cost)
    await store.reserve(account, hold)
    expect(await store.settle({ id: hold.id, account, admittedMs: ms }, chargeOf(cost))).toBe('settled')
  }
  await charge(100, Date.now())
  await charge(30, Date.now() + AHEAD_MS)
  await charge(50, Date.now())
  await client.sadd(ORGANIZATIONS_KEY, account.organization)
  const { upkeep, ahead, timely } = upkeepOf(client)
  await upkeep.look()
  await upkeep.look()
  expect(ahead).toEqual([account.organization])
  expect(await reset(place)).toBe(4)
  await expectNow(place, 180)
  expect(await reset(place)).toBe(0)
  await upkeep.look()
  await upkeep.look()
  expect([ahead, timely]).toEqual([[account.organization], [account.organization]])
  // The rest of the day's budget is unchanged.
  const { outcome } = await new RedisStore(client, client).reserve(account, holdOf(21))
  expect(outcome).toBe('refused')
  upkeep.close()
})

test('in the embedded ledger, while no gateway has it open', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
  const place: LedgerPlace = { ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir }
  const serve = async (cost: number, ms: number) => {
    const ledger = EmbeddedLedger.open(dataDir, { clock: { now: () => ms } })
    await ledger.settle(await ledger.reserve(account, holdOf(cost)), chargeOf(cost))
    await ledger.close()
  }
  await serve(100, Date.now())
  await serve(30, Date.now() + AHEAD_MS)
  const early = EmbeddedLedger.open(dataDir)
  expect(early.health()).toMatchObject({ ready: true, complaint: expect.stringContaining('weir ledger reset-window') })
  await expect(reset(place)).rejects.toThrow('in use')
  await reset(place).catch(() => undefined)
  await early.close()
  expect(await reset(place)).toBe(4)
  await expectNow(place, 130)
  const ledger = EmbeddedLedger.open(dataDir)
  expect(ledger.health().complaint).toBeUndefined()
  await ledger.close()
  rmSync(dataDir, { recursive: true, force: true })
})

test('counters of budgets in Redis are set back to the windows of their time zone', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const place = placeIn(server)
  const charge = async (cost: number, ms: number, person = 'ada') => {
    const store = new RedisStore(client, client, () => ms, `local now = ${ms}\n`)
    const [hold, of] = [holdOf(cost), countedAccount(person)]
    await store.reserve(of, hold)
    expect(await store.settle({ id: hold.id, account: of, admittedMs: ms }, taggedCharge(cost, person))).toBe('settled')
  }
  await charge(100, Date.now())
  await charge(15, Date.now(), 'bob')
  await charge(30, Date.now() + AHEAD_MS)
  await charge(50, Date.now())
  await client.sadd(ORGANIZATIONS_KEY, account.organization)
  const { upkeep, ahead, timely } = upkeepOf(client)
  // As an earlier version has left it: the organisation and its key are set back, and the counters are not.
  const store = new RedisStore(client, client)
  expect(await store.reset(account.organization, account.key, [195, 195, 195], [195, 195, 195])).toBe(4)
  await upkeep.look()
  await upkeep.look()
  expect(ahead).toEqual([account.organization])
  expect(await reset(place)).toBe(12)
  await expectCounters(place, 'ada', { person: 180, session: 80, all: 195 })
  // This one had ended by the wrong clock.
  await expectCounters(place, 'bob', { person: 15, session: 0, all: 195 })
  expect(await reset(place)).toBe(0)
  await upkeep.look()
  expect([ahead, timely]).toEqual([[account.organization], [account.organization]])
  // The rest of the budgets is exact.
  expect((await store.reserve(countedAccount(), holdOf(21))).outcome).toBe('refused')
  expect((await store.reserve(countedAccount(), holdOf(20))).outcome).toBe('granted')
  upkeep.close()
})

test('counters of budgets in the embedded ledger', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
  const place: LedgerPlace = { ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir }
  const serve = async (cost: number, ms: number, person = 'ada') => {
    const ledger = EmbeddedLedger.open(dataDir, { clock: { now: () => ms } })
    await ledger.settle(ledger.reserve(countedAccount(person), holdOf(cost)), taggedCharge(cost, person))
    ledger.tend()
    await ledger.close()
  }
  await serve(100, Date.now())
  await serve(15, Date.now(), 'bob')
  await serve(30, Date.now() + AHEAD_MS)
  await serve(50, Date.now())
  // As an earlier version has left it: the organisation and its key are set back, and the counters are not.
  const file = openLedgerDatabase(dataDir).database
  file.run("UPDATE scope SET day = ?, month = ? WHERE key NOT LIKE 'b%'", [dayOf(Date.now()), monthOf(Date.now())])
  file.close()
  const early = EmbeddedLedger.open(dataDir)
  expect(early.health()).toMatchObject({ ready: true, complaint: expect.stringContaining('weir ledger reset-window') })
  await early.close()
  expect(await reset(place)).toBe(12)
  await expectCounters(place, 'ada', { person: 180, session: 80, all: 195 })
  // This one had ended by the wrong clock.
  await expectCounters(place, 'bob', { person: 15, session: 0, all: 195 })
  expect(await reset(place)).toBe(0)
  const ledger = EmbeddedLedger.open(dataDir)
  expect(ledger.health().complaint).toBeUndefined()
  expect(() => ledger.reserve(countedAccount(), holdOf(21))).toThrow()
  await ledger.settle(ledger.reserve(countedAccount(), holdOf(20)), taggedCharge(20))
  await ledger.close()
  rmSync(dataDir, { recursive: true, force: true })
})

test('what a node has spent in a counter is set back with it, so that the node takes nothing for lost', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const { organization } = account
  const ms = Date.now() + AHEAD_MS
  const store = new RedisStore(client, client, () => ms, `local now = ${ms}\n`)
  const { epoch } = await store.enter(organization, { node: 'n', epoch: 0, legacyEpoch: 0 }, 0)
  // It has nothing to give back.
  const nothing = { ...noUsage, organization, key: '', day: 0, series: '', number: 0, last: 0 }
  expect(await store.restore(epoch, 'n', nothing)).toBe('all')
  const [hold, of] = [holdOf(30), countedAccount()]
  await store.reserve(of, hold)
  const from = { node: 'n', epoch }
  expect(await store.settle({ id: hold.id, account: of, admittedMs: ms }, taggedCharge(30), { from })).toBe('settled')
  const present = new RedisStore(client, client)
  const part = async () => (await present.countersOfNode(organization, 'n', ['all'], [])).parts.get('all')
  expect((await part())?.windows).toEqual(windowsIn(timezone, ms).windows)
  expect(await present.resetCounters(organization, timezone, ['all', 'absent'], new Map())).toBe(4)
  expect(await part()).toEqual({ windows: [...windowsIn(timezone, Date.now()).windows], spent: [30, 30, 30, 30, 30] })
  expect(await present.resetCounters(organization, timezone, ['all'], new Map())).toBe(0)
})

test('usage that a wrong clock has summed up by day counts in the hour of each request', async () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
  const place: LedgerPlace = { ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir }
  const serve = async (cost: number, ms: number) => {
    const ledger = EmbeddedLedger.open(dataDir, { clock: { now: () => ms } })
    await ledger.settle(ledger.reserve(countedAccount(), holdOf(cost)), {
      ...taggedCharge(cost),
      tags: uncountedTags(`${PERSON}=ada`),
    })
    await ledger.close()
  }
  const { starts } = windowsIn(timezone, Date.now())
  const [day = 0, hour = 0] = [starts[0], starts[3]]
  // The hours of UTC and of the zone are half an hour apart.
  await serve(1, day - 31 * 60_000)
  await serve(2, Math.max(day, hour - 31 * 60_000))
  await serve(4, hour)
  await serve(8, hour + AHEAD_MS)
  await reset(place)
  const reader = await openAccountUsageReader(place)
  const found = (await reader.read(countedAccount())).budgets?.[0]?.usage
  const isFirstHour = hour - 31 * 60_000 < day
  expect([found?.day.spent, found?.hour.spent]).toEqual([14, isFirstHour ? 14 : 12])
  await reader.close()
  rmSync(dataDir, { recursive: true, force: true })
})

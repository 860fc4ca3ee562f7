/**
 * Days and months of budgets that started too early because a clock was ahead: they are reported, and a command resets
 * them.
 */

import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  type LedgerPlace,
  openAccountUsageReader,
  openUsageLog,
  openWindowReset,
} from '../../src/assembly/open-ledger.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { Upkeep } from '../../src/ledger/redis/maintenance/upkeep.ts'
import { ORGANIZATIONS_KEY } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import type { ScopeUsage } from '../../src/ledger/reservation-store.ts'
import { dayOf, monthOf } from '../../src/ledger/window.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { RedisServer } from './redis-server.ts'

const AHEAD_MS = 40 * 86_400_000
const account = accountOf(spend({ day: 200 }))

/** Runs the reset as the command does. */
async function reset(place: LedgerPlace): Promise<number> {
  const [windows, log] = [await openWindowReset(place), await openUsageLog(place)]
  try {
    const query = { sinceDay: 0, untilDay: Number.MAX_SAFE_INTEGER, organization: account.organization }
    return await windows.reset(account.organization, await log.read(query))
  } finally {
    await Promise.all([windows.close(), log.close()])
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

test('windows in Redis are set back to today', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const place: LedgerPlace = {
    ledger: { kind: 'redis', redis: { kind: 'single', url: server.socket } },
    ledgerUnreachable: 'refuse',
    dataDir: '',
  }
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

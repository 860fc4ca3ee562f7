/** A reset of a counter whose windows began too early because a clock was ahead: it renews at the present end. */

import { beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Config } from '../../src/config/config.ts'
import { counterAccount } from '../../src/gateway/request-budgets.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { type Account, noCharge } from '../../src/ledger/ledger.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { windowsIn } from '../../src/ledger/window.ts'
import { counterUsagesOf } from '../../src/reports/counter-usage.ts'
import { KeyAdministration } from '../../src/reports/key-administration.ts'
import { RedisServer } from '../ledger/redis-server.ts'
import { checked } from '../support/admin.ts'
import { untilHourIsSafe } from '../support/half-hour.ts'

beforeEach(untilHourIsSafe)

const AHEAD_MS = 40 * 86_400_000
const ZONE = 'Asia/Tokyo'
const CHARGE = { ...noCharge('completed'), model: 'm', costMicroUsd: 60 }
const HOLD = { id: 'r', estimate: { inputTokens: 1, outputTokens: 1, costMicroUsd: 60 }, floorMicroUsd: 0 }
const COUNTER = { organization: 'acme', name: 'person', value: 'ann', reason: 'the clock was ahead' }

function configOf(dataDir: string): Config {
  const budgets = [{ name: 'person', per: 'tag:person', limits: { spend: { day: 1 } } }]
  const organizations = [{ id: 'acme', timezone: ZONE, budgets, keys: [] }]
  const config = { tags: ['person'], organizations }
  return { ...checked({ providers: { up: 'http://127.0.0.1:9' }, config }), dataDir }
}

function accountIn({ organizations }: Config): Account {
  const budgets = (organizations[0]?.budgets ?? []).map((budget) => counterAccount(budget, 'ann'))
  return { organization: 'acme', organizationLimits: {}, key: 'k', keyLimits: {}, budgets, timeZone: ZONE }
}

function reset(config: Config) {
  return new KeyAdministration(config, { source: 'cli', actor: 'test' }).budgetChanges.reset(COUNTER)
}

async function expectPresent(config: Config): Promise<void> {
  const renewsAtMs = windowsIn(ZONE, Date.now()).ends[0] ?? 0
  expect(await counterUsagesOf(config, {})).toMatchObject([{ value: 'ann', used: 0, held: 0, renewsAtMs }])
}

test('embedded: while no gateway has it open', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'weir-budget-reset-'))
  const config = configOf(directory)
  const early = EmbeddedLedger.open(directory, { clock: { now: () => Date.now() + AHEAD_MS } })
  early.settle(early.reserve(accountIn(config), HOLD), CHARGE)
  await early.close()
  const running = EmbeddedLedger.open(directory)
  await expect(reset(config)).rejects.toThrow('weir ledger reset-window --org acme')
  await running.close()
  await reset(config)
  await expectPresent(config)
  rmSync(directory, { recursive: true })
})

test('redis', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const directory = mkdtempSync(join(tmpdir(), 'weir-budget-reset-'))
  const ledger = { kind: 'redis', redis: { kind: 'single', url: server.socket } } as const
  const config: Config = { ...configOf(directory), ledger }
  const [account, ms] = [accountIn(config), Date.now() + AHEAD_MS]
  const store = new RedisStore(client, client, () => ms, `local now = ${ms}\n`)
  await store.reserve(account, HOLD)
  expect(await store.settle({ id: HOLD.id, account, admittedMs: ms }, CHARGE)).toBe('settled')
  await reset(config)
  await expectPresent(config)
  rmSync(directory, { recursive: true })
})

/** The rows of budgets: from the limits of the configuration and what the ledger has of them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { budgetRow, usedUpAt } from '../../src/admin/budget-rows.ts'
import { readSpend } from '../../src/admin/spend-figures.ts'
import { openAccountUsageReader } from '../../src/assembly/open-ledger.ts'
import { limitTable } from '../../src/core/limits.ts'
import { noCharge } from '../../src/ledger/ledger.ts'
import { readLimitUsages } from '../../src/reports/limit-usage.ts'
import { checked } from '../support/admin.ts'
import { openLedger } from '../support/open-ledger.ts'

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-budgets-'))
})

afterAll(() => rm(folder, { recursive: true, force: true }))

const key = (id: string, more: object = {}) => ({ id, key: `key-of-${id}-0123456789`, ...more })

test('organisations always, keys if they were used, the fullest first', async () => {
  const config = checked(
    {
      providers: { fake: 'http://127.0.0.1:9/v1' },
      config: {
        organizations: [
          {
            id: 'acme',
            limits: { spend: { day: 1, total: 100 }, requests_per_minute: 60 },
            keys: [key('ci'), key('free')],
          },
          { id: 'idle', limits: { concurrent_requests: 4 }, keys: [key('other')] },
          { id: 'none', keys: [key('last')] },
        ],
      },
    },
    folder,
  )
  const limits = { spend: { day: 400_000, strict: false, onExhausted: 'finish' } } as const
  const organizationLimits = config.organizations[0]?.limits ?? {}
  const account = { organization: 'acme', organizationLimits, key: 'ci', keyLimits: limits }
  const ledger = await openLedger(config)
  const estimate = { inputTokens: 10, outputTokens: 10, costMicroUsd: 300_000 }
  await ledger.reserve(account, { id: 'one', estimate, floorMicroUsd: 0 })
  await ledger.close()
  const reader = await openAccountUsageReader(config)
  const limited = [
    { id: 'ci', organization: 'acme', limits },
    { id: 'free', organization: 'acme', limits },
  ]
  const rows = (await readLimitUsages(reader, config.organizations, limited)).map((usage) => budgetRow(usage))
  await reader.close()
  expect(
    rows.map(({ organization, key, limit, amount, used, held }) => [organization, key, limit, amount, used, held]),
  ).toEqual([
    ['acme', 'ci', 'spend.day', 400_000, 0, 300_000],
    ['acme', null, 'spend.day', 1_000_000, 0, 300_000],
    ['acme', null, 'requests_per_minute', 60, 1, 0],
    ['acme', null, 'spend.total', 100_000_000, 0, 300_000],
    ['idle', null, 'concurrent_requests', 4, 0, 0],
  ])
  const [day] = rows
  expect(day?.renews_at).toBe(new Date(Math.ceil(Date.now() / 86_400_000) * 86_400_000).toISOString())
})

test.each([
  ['half of it is left at half an hour of spend', { amount: 100, used: 40, held: 10 }, 100, '2026-11-21T12:30:00.000Z'],
  ['it renews before', { amount: 100, used: 0, held: 0 }, 8, null],
  ['nothing was spent in the last hour', { amount: 100, used: 99, held: 0 }, 0, null],
  ['nothing is left', { amount: 100, used: 90, held: 10 }, 0, '2026-11-21T12:00:00.000Z'],
  ['it is no money', { amount: 100, used: 40, held: 0, unit: 'requests' }, 100, null],
] as const)('a budget is used up: %s', (_name, given, lastHour, expected) => {
  const row = {
    ...{ organization: 'acme', key: null, limit: 'spend.day', unit: 'micro_usd' as const },
    ...{ renews_at: '2026-11-22T00:00:00.000Z', used_up_at: null, state: 'ok' as const },
  }
  expect(usedUpAt({ ...row, ...given }, lastHour, Date.parse('2026-11-21T12:00:00Z'))).toBe(expected)
})

test.each([
  [{ used: 79, held: 21 }, [], 'ok'],
  [{ used: 80 }, [], 'near'],
  [{ used: 49 }, [0.9, 0.5], 'ok'],
  [{ used: 50 }, [0.9, 0.5], 'near'],
  [{ used: 61, isRefusing: true }, [0.9], 'refusing'],
  [{ used: 0, amount: 0 }, [], 'ok'],
] as const)('the state of a spend limit of 100, %j with alerts at %j: %s', (given, shares, state) => {
  const limit = limitTable.find(({ name }) => name === 'day')
  if (limit === undefined) throw new Error('there is no daily limit')
  const usage = { organization: 'acme', key: null, limit, amount: 100, held: 0, isRefusing: false, ...given }
  expect(budgetRow({ ...usage, renewsAtMs: undefined }, shares).state).toBe(state)
})

test('the spend of the last hour is that of the running hour and of the rest of the one before', async () => {
  const own = await mkdtemp(join(tmpdir(), 'weir-spend-'))
  const config = checked({ providers: { fake: 'http://127.0.0.1:9/v1' } }, own)
  const account = { organization: 'test', organizationLimits: {}, key: 'test-key', keyLimits: {} }
  const ledger = await openLedger(config)
  const estimate = { inputTokens: 10, outputTokens: 10, costMicroUsd: 600 }
  const reservation = await ledger.reserve(account, { id: 'one', estimate, floorMicroUsd: 0 })
  const charge = { ...noCharge('completed'), model: 'm', provider: 'fake', inputTokens: 10, costMicroUsd: 600 }
  await ledger.settle(reservation, charge)
  await ledger.close()
  const { admittedMs } = reservation
  const hourEndMs = Math.ceil((admittedMs + 1) / 3_600_000) * 3_600_000
  const now = await readSpend(config, admittedMs)
  expect([now.lastHour('test', null), now.lastHour('test', 'test-key'), now.lastHour('other', null)]).toEqual([
    600, 600, 0,
  ])
  expect((await readSpend(config, hourEndMs + 900_000)).lastHour('test', null)).toBe(450)
  expect((await readSpend(config, hourEndMs + 3_600_000)).lastHour('test', null)).toBe(0)
  await rm(own, { recursive: true, force: true })
})

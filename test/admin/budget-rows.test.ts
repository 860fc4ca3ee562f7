/** The rows of budgets: from the limits of the configuration and what the ledger has of them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readBudgets } from '../../src/admin/budget-rows.ts'
import { openAccountUsageReader, openLedger } from '../../src/assembly/open-ledger.ts'
import { checked } from '../support/admin.ts'

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
  const rows = await readBudgets(reader, config.organizations, limited)
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

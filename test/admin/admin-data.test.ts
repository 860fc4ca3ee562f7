/** The answers of the admin API after a pause in which nobody asked, from a real ledger, with a clock of the test. */

import { expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AdminData } from '../../src/admin/admin-data.ts'
import { counterAccount } from '../../src/gateway/request-budgets.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { noCharge } from '../../src/ledger/ledger.ts'
import { COUNTERS_READ_MAX } from '../../src/reports/counter-usage.ts'
import { use } from '../cli/world.ts'
import { adminParts, checked } from '../support/admin.ts'
import { openLedger } from '../support/open-ledger.ts'

test('budgets and the status have what was spent while nobody asked', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-admin-'))
  const base = checked({ providers: { fake: 'http://127.0.0.1:9/v1' } }, folder)
  const config = { ...base, dataDir: folder, organizations: base.organizations.map(limited) }
  const owner = { organization: config.organizations[0]?.id ?? '', key: 'ci' }
  const ledger = await openLedger(config)
  let nowMs = 0
  const data = new AdminData(adminParts({ config }).supervision, () => nowMs)
  const figures = async () => {
    const [{ rows }, status] = await Promise.all([
      data.budgets({ organization: undefined, key: undefined }),
      data.status(),
    ])
    return [rows[0]?.used, status.cost_today_micro_usd]
  }
  try {
    expect(await figures()).toEqual([0, 0])
    await use(ledger, owner, 'small', { cost: 125 })
    await ledger.close()
    nowMs += 3 * 3_600_000
    expect(await figures()).toEqual([125, 125])
  } finally {
    data.close()
    await rm(folder, { recursive: true })
  }
})

test('counters beyond those that are read are counted, and a search finds them', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-admin-'))
  const count = COUNTERS_READ_MAX + 20
  const budgets = [{ name: 'person', per: 'tag:person', limits: { spend: { month: 1 } } }]
  const organizations = [{ id: 'acme', budgets, keys: [{ id: 'k', key: 'a-key-of-the-test-0123456789' }] }]
  const given = { providers: { fake: 'http://127.0.0.1:9/v1' }, config: { organizations, tags: ['person'] } }
  const config = { ...checked(given, folder), dataDir: folder }
  const [budget] = config.organizations[0]?.budgets ?? []
  if (budget === undefined) throw new Error('The configuration has no budget.')
  const ledger = EmbeddedLedger.open(folder)
  for (let i = 0; i < count; i++) {
    const account = { organization: 'acme', organizationLimits: {}, key: 'k', keyLimits: {} }
    const counted = { ...account, budgets: [counterAccount(budget, `p${i}`)], timeZone: 'UTC' }
    const estimate = { inputTokens: 0, outputTokens: 0, costMicroUsd: 1 }
    const reservation = ledger.reserve(counted, { id: `r${i}`, estimate, floorMicroUsd: 0 })
    ledger.settle(reservation, { ...noCharge('completed'), ...estimate, model: 'm' })
  }
  await ledger.close()
  const data = new AdminData(adminParts({ config }).supervision, () => 0)
  try {
    const found = async (value: number) => {
      const { rows } = await data.budgets({ search: `p${value}` })
      return rows.filter((row) => row.value === `p${value}`).map(({ used }) => used)
    }
    // The first and the last, by number and by name.
    for (const value of [0, 9999, count - 1]) expect(await found(value)).toEqual([1])
    const counts = async (filter: Parameters<AdminData['budgets']>[0]) => {
      const { rows, more, total } = await data.budgets(filter)
      return [rows.length, more, total]
    }
    expect(await counts({})).toEqual([1000, count - 1000, count])
    expect(await counts({ organization: 'acme', limit: 5 })).toEqual([5, count - 5, count])
    expect(await counts({ organization: 'other' })).toEqual([0, 0, 0])
    expect(await counts({ name: 'person' })).toEqual([1000, count - 1000, count])
    expect(await counts({ search: 'PERSON month' })).toEqual([1000, count - 1000, count])
    expect(await counts({ search: `p${count - 1} spend.month` })).toEqual([1, 0, count])
    expect(await counts({ name: 'person', search: 'p10019 day' })).toEqual([0, 0, count])
  } finally {
    data.close()
    await rm(folder, { recursive: true })
  }
})

function limited<T extends object>(organization: T) {
  return { ...organization, limits: { spend: { day: 5_000_000 } } }
}

/** Very many counters: how many of an organisation are listed, those that refuse, and what a new one would get. */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { counterAccount } from '../../src/gateway/request-budgets.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { EmbeddedAccountUsageReader } from '../../src/ledger/embedded/sqlite-readers.ts'
import { LEDGER_FILE } from '../../src/ledger/embedded/state-tables.ts'
import { noCharge } from '../../src/ledger/ledger.ts'
import { COUNTERS_MAX } from '../../src/ledger/reservation-store.ts'
import { COUNTERS_READ_MAX, counterUsagesOf, spentOfCounter } from '../../src/reports/counter-usage.ts'
import { checked } from '../support/admin.ts'

test('10,000 counters of an organisation are read, and those that refuse whichever they are', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'weir-counters-'))
  try {
    const limits = { spend: { total: 100, strict: false, onExhausted: 'finish' as const } }
    const account = (value: string) => ({
      ...{ organization: 'acme', organizationLimits: {}, key: 'k', keyLimits: {} },
      budgets: [{ name: 'person', value, limits }],
    })
    const hold = (id: string, costMicroUsd: number) => ({
      ...{ id, estimate: { inputTokens: 1, outputTokens: 1, costMicroUsd }, floorMicroUsd: 0 },
    })
    const ledger = EmbeddedLedger.open(directory)
    const reader = new EmbeddedAccountUsageReader(directory)
    for (const value of ['ann', 'zoe']) {
      const reservation = ledger.reserve(account(value), hold(value, 60))
      ledger.settle(reservation, { ...noCharge('completed'), model: 'm', costMicroUsd: 60 })
    }
    expect(() => ledger.reserve(account('zoe'), hold('refused', 41))).toThrow('more than is left')
    await ledger.close()
    const copyCounter = (count: number, name: string) => {
      using file = new Database(join(directory, LEDGER_FILE))
      const columns = file.query<{ name: string }, []>("SELECT name FROM pragma_table_info('scope')").all()
      const names = columns.map((column) => column.name)
      const copied = names.map((column) => (column === 'key' ? `'bperson' || char(9) || '${name}' || i` : column))
      file.run(
        `INSERT INTO scope (${names})
           WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
           SELECT ${copied} FROM scope, n WHERE key = 'bperson' || char(9) || 'ann'`,
      )
    }
    copyCounter(COUNTERS_READ_MAX, 'v')
    expect(await reader.counters(['acme'], 'refused')).toEqual([['person\tzoe']])
    const budgets = [{ name: 'person', per: 'tag:person', limits: { spend: { total: 0.0001 } } }]
    const config = {
      ...checked({
        providers: { up: 'http://127.0.0.1:9' },
        models: { m: { targets: [{ provider: 'up', model: 'a' }], price: { input: 1, output: 1 } } },
        config: { tags: ['person'], organizations: [{ id: 'acme', budgets, keys: [] }] },
      }),
      dataDir: directory,
    }
    const refusing = await counterUsagesOf(config, { isRefusing: true })
    expect(refusing.map(({ value, isRefusing }) => [value, isRefusing])).toEqual([['zoe', true]])
    const limited: string[] = []
    const all = await counterUsagesOf(config, { limited: (...of) => limited.push(of.join(' ')) })
    expect([all.length, limited]).toEqual([COUNTERS_READ_MAX, [`acme ${COUNTERS_READ_MAX + 2} 2`]])
    const found = await counterUsagesOf(config, { value: 'zoe', limited: (...of) => limited.push(of.join(' ')) })
    expect([found.length, limited.length]).toEqual([1, 1])
    const preview = async (value: string) => {
      const [counter] = account(value).budgets
      const bounded = { ...account(value), budgets: counter && [{ ...counter, isBounded: true }] }
      return (await reader.preview(bounded, hold('next', 1))).outcome
    }
    expect([await preview('ann'), await preview('new')]).toEqual(['granted', 'granted'])
    copyCounter(COUNTERS_MAX - COUNTERS_READ_MAX - 2, 'w')
    expect([await preview('ann'), await preview('new')]).toEqual(['granted', 'crowded'])
  } finally {
    rmSync(directory, { recursive: true })
  }
})

test('what was spent at a reset is left out until its window ends, or its counter', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'weir-reset-'))
  try {
    const limits = { spend: { day: 1, total: 1 } }
    const budgets = [
      { name: 'person', per: 'tag:person', limits },
      { name: 'run', per: 'tag:person', limits: { spend: { total: 1 } }, idle_hours: 2 },
    ]
    const organizations = [{ id: 'acme', budgets, keys: [] }]
    const given = { providers: { up: 'http://127.0.0.1:9' }, config: { tags: ['person'], organizations } }
    const config = { ...checked(given), dataDir: directory }
    const [owner] = config.organizations
    const [person, run] = owner?.budgets ?? []
    if (owner === undefined || person === undefined || run === undefined) throw new Error('There are two budgets.')
    const ledger = EmbeddedLedger.open(directory)
    const account = { organization: 'acme', organizationLimits: {}, key: 'k', keyLimits: {} }
    const counters = [person, run].map((budget) => counterAccount(budget, 'ann'))
    const estimate = { inputTokens: 1, outputTokens: 1, costMicroUsd: 60 }
    const before = Date.now()
    const reservation = ledger.reserve({ ...account, budgets: counters }, { id: 'r', estimate, floorMicroUsd: 0 })
    ledger.settle(reservation, { ...noCharge('completed'), model: 'm', costMicroUsd: 60 })
    const after = Date.now()
    await ledger.close()
    const total = async (budget: typeof run) => (await spentOfCounter(config, owner, budget, 'ann')).total
    expect(await total(person)).toEqual({ microUsd: 60 })
    const { microUsd, untilMs = 0 } = (await total(run)) ?? {}
    expect([microUsd, untilMs >= before + 7_200_000, untilMs <= after + 7_200_000]).toEqual([60, true, true])
  } finally {
    rmSync(directory, { recursive: true })
  }
})

/** The limits of spend that the ledger recorded without one: of lost reservations and of sums that were given back. */

import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { budgetLimits } from '../../src/core/limits.ts'
import { openSqliteKeyStore } from '../../src/keys/sqlite-key-store.ts'
import type { SpendCrossing } from '../../src/ledger/spend-crossing.ts'
import { dayOf, windowEndIn, windowsIn } from '../../src/ledger/window.ts'
import { spendsOfCrossings } from '../../src/process/watchers/crossing-limits.ts'
import { checked } from '../support/admin.ts'

const folder = mkdtempSync(join(tmpdir(), 'weir-crossings-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const keys = [{ id: 'ci', key: 'a-key-of-the-test-0123456789', limits: { spend: { month: 2 } } }]
const budgets = [
  { name: 'person', per: 'tag:person', limits: { spend: { hour: 1, day: 1, week: 1, month: 1, total: 1 } } },
]
const organizations = [
  { id: 'acme', limits: { spend: { day: 5 } }, keys },
  {
    id: 'north',
    timezone: 'Europe/Berlin',
    budgets,
    keys: [{ id: 'n', key: 'another-key-of-the-test-01234', limits: {} }],
  },
]
const models = { m: { targets: [{ provider: 'up', model: 'm' }], price: { input: 1, output: 1 } } }
const config = checked(
  { providers: { up: 'http://127.0.0.1:1' }, models, config: { organizations, tags: ['person'] } },
  folder,
)

function crossing(more: Partial<SpendCrossing>): SpendCrossing {
  const unknown = { key: undefined, limitMicroUsd: undefined, isRefusal: false }
  return { organization: 'acme', budget: 'day', window: dayOf(0), spentMicroUsd: 7, ...unknown, ...more }
}

test('they are those of the configuration and of the stored keys; a limit that was recorded stays', async () => {
  const store = openSqliteKeyStore(join(folder, 'data'))
  const limits = { spend: { total: 3_000_000, strict: false, onExhausted: 'finish' } } as const
  await store.create({ id: 'made', organization: 'acme', sha256: 'x', shown: 'y', createdMs: 1, limits })
  await store.close()
  const crossings = [
    crossing({}),
    crossing({ budget: 'month' }),
    crossing({ key: 'ci', budget: 'month' }),
    crossing({ key: 'ci', budget: 'month', limitMicroUsd: 9 }),
    crossing({ key: 'made', budget: 'total', window: 0 }),
    crossing({ key: 'made', organization: 'other', budget: 'total' }),
    crossing({ key: 'gone' }),
  ]
  const spends = await spendsOfCrossings(config, crossings)
  expect(spends.map((spend) => spend?.limitMicroUsd)).toEqual([5_000_000, 0, 2_000_000, 9, 3_000_000, 0, 0])
  expect(spends[0]).toMatchObject({ organization: 'acme', key: null, window: 'day', spentMicroUsd: 7 })
  expect([spends[0]?.endMs, spends[4]?.endMs]).toEqual([86_400_000, undefined])
})

test('the windows of a counter end in the time zone of its organisation, and other limits are no spend', async () => {
  // The day of 25 hours, and the week and the month that it is in.
  const at = Date.UTC(2026, 9, 25, 12)
  const end = Date.UTC(2026, 9, 25, 23)
  const windows = {
    hour: Date.UTC(2026, 9, 25, 13),
    day: end,
    week: end,
    month: Date.UTC(2026, 9, 31, 23),
    total: undefined,
  }
  const zoned = windowsIn('Europe/Berlin', at).windows
  const of = (budget: SpendCrossing['budget'], window: number | undefined) =>
    crossing({ organization: 'north', counter: 'person\tann', budget, window: window ?? 0 })
  const spends = await spendsOfCrossings(
    config,
    budgetLimits.map(({ name }, i) => of(name, zoned[i])),
  )
  expect(spends.map((spend) => spend?.endMs)).toEqual(budgetLimits.map(({ window }) => windows[window]))
  expect(spends[0]).toMatchObject({ budget: { name: 'person', value: 'ann' }, limitMicroUsd: 1_000_000 })
  const ofTokens = { ...of('day', 1), budget: 'tokens_a_day' as never }
  expect(await spendsOfCrossings(config, [ofTokens])).toEqual([undefined])
})

test.each(['UTC', 'Pacific/Kiritimati', 'Pacific/Niue', 'Asia/Kathmandu', 'Australia/Lord_Howe', 'America/St_Johns'])(
  'a window of %s ends where the calendar ends it, whichever time it is asked of',
  (zone) => {
    for (let ms = Date.UTC(2026, 0, 1); ms < Date.UTC(2027, 0, 1); ms += 223.3 * 3_600_000) {
      const { windows, ends } = windowsIn(zone, ms)
      const found = budgetLimits.map(({ window }, i) => windowEndIn(zone, window, windows[i] ?? 0) ?? ends[i])
      expect([ms, ...found]).toEqual([ms, ...ends])
    }
  },
)

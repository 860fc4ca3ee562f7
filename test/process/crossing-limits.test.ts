/** The limits of spend that the ledger recorded without one: of lost reservations and of sums that were given back. */

import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqliteKeyStore } from '../../src/keys/sqlite-key-store.ts'
import type { SpendCrossing } from '../../src/ledger/spend-crossing.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { spendsOfCrossings } from '../../src/process/watchers/crossing-limits.ts'
import { checked } from '../support/admin.ts'

const folder = mkdtempSync(join(tmpdir(), 'weir-crossings-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const keys = [{ id: 'ci', key: 'a-key-of-the-test-0123456789', limits: { spend: { month: 2 } } }]
const organizations = [{ id: 'acme', limits: { spend: { day: 5 } }, keys }]
const models = { m: { targets: [{ provider: 'up', model: 'm' }], price: { input: 1, output: 1 } } }
const config = checked({ providers: { up: 'http://127.0.0.1:1' }, models, config: { organizations } }, folder)

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
  expect(spends.map(({ limitMicroUsd }) => limitMicroUsd)).toEqual([5_000_000, 0, 2_000_000, 9, 3_000_000, 0, 0])
  expect(spends[0]).toMatchObject({ organization: 'acme', key: null, window: 'day', spentMicroUsd: 7 })
  expect([spends[0]?.endMs, spends[4]?.endMs]).toEqual([86_400_000, undefined])
})

/** The answers of the admin API after a pause in which nobody asked, from a real ledger, with a clock of the test. */

import { expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AdminData } from '../../src/admin/admin-data.ts'
import { openLedger } from '../../src/assembly/open-ledger.ts'
import { use } from '../cli/world.ts'
import { adminParts, checked } from '../support/admin.ts'

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

function limited<T extends object>(organization: T) {
  return { ...organization, limits: { spend: { day: 5_000_000 } } }
}

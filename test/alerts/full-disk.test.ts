/** Alerts while their queue cannot be written, as on a full disk. */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Occurrence } from '../../src/alerts/alert.ts'
import { Alerts } from '../../src/alerts/alerts.ts'
import type { HookConfig } from '../../src/core/alerts-config.ts'
import { ALERT_SECRET, webhook } from '../support/webhook.ts'

const FULL: Occurrence = { type: 'disk.full', fields: { data_dir: '/data', free_bytes: 0 } }

function hookOf(url: string): HookConfig {
  const names = { key: 'hook', label: 'hook', format: 'weir', secret: ALERT_SECRET } as const
  return { ...names, url, events: ['*'] }
}

/** The lock of another writer stands for a full disk: each write fails, and reading works. */
function unwritable(dataDir: string): Disposable {
  const database = new Database(join(dataDir, 'alerts.sqlite'))
  database.run('BEGIN IMMEDIATE')
  return { [Symbol.dispose]: () => database.close() }
}

test('what begins is posted once from memory, and its end, or it is queued with the same id', async () => {
  using hook = webhook()
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-full-'))
  const logger = pino({ level: 'silent' })
  const alerts = new Alerts({ dataDir, config: { hooks: [hookOf(hook.url)], spend: [] }, node: 'n', logger })
  const statusOf = ({ id, status }: { readonly [name: string]: unknown }) => `${id} ${status}`
  {
    using _ = unwritable(dataDir)
    alerts.hold('disk.full', [FULL])
    alerts.hold('disk.full', [FULL])
    const [firing] = await hook.until(1)
    expect(firing).toMatchObject({ type: 'disk.full', status: 'firing' })
    alerts.hold('disk.full', [])
    const all = await hook.until(2)
    expect(all.map(statusOf)).toEqual([`${firing?.['id']} firing`, `${firing?.['id']} resolved`])
    alerts.hold('disk.full', [FULL])
    await hook.until(3)
  }
  // There is space again: it is kept, and ends with the same id.
  alerts.hold('disk.full', [FULL])
  await hook.until(4)
  expect(alerts.hold('disk.full', [])).toBe(1)
  const [, , posted, queued, ended] = await hook.until(5)
  expect([queued?.['id'], ended?.['id'], ended?.['status']]).toEqual([posted?.['id'], posted?.['id'], 'resolved'])
  await alerts.close()
  rmSync(dataDir, { recursive: true, force: true })
})

test('a file that cannot be opened at all', async () => {
  using hook = webhook()
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-full-'))
  writeFileSync(join(dataDir, 'alerts.sqlite'), 'no database')
  const logger = pino({ level: 'silent' })
  const alerts = new Alerts({ dataDir, config: { hooks: [hookOf(hook.url)], spend: [] }, node: 'n', logger })
  for (let i = 0; i < 3; i++) alerts.hold('disk.full', [FULL])
  await hook.until(1)
  alerts.hold('disk.full', [])
  expect((await hook.until(2)).map(({ status }) => status)).toEqual(['firing', 'resolved'])
  await alerts.close()
  rmSync(dataDir, { recursive: true, force: true })
})

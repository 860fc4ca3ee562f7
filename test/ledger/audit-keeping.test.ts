/** `audit.keep_days` limits how long a gateway's files keep single requests. The usage sums stay. */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { LEDGER_FILE } from '../../src/ledger/embedded/state-tables.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { OUTBOX_FILE } from '../../src/ledger/redis/outbox/outbox-schema.ts'
import { directories } from '../support/directories.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { logged } from './seen.ts'

const DAY_MS = 86_400_000
const START_MS = Date.UTC(2026, 10, 1)
const newDirectory = directories()

/** The days after the first on which the kept requests ended, and how many requests the sums have. */
function kept(path: string): readonly [days: readonly number[], requests: number] {
  const database = new Database(path)
  const days = database.query<{ ended: number }, []>('SELECT ended_ms AS ended FROM request ORDER BY 1').all()
  const sum = database.query<{ n: number }, []>('SELECT sum(requests) AS n FROM usage').get()
  database.close()
  return [days.map(({ ended }) => Math.floor((ended - START_MS) / DAY_MS)), sum?.n ?? 0]
}

test('the embedded ledger deletes requests that are too old, and no usage', async () => {
  const directory = newDirectory()
  const account = accountOf()
  const clock = { ms: START_MS, now: () => clock.ms }
  const ledger = EmbeddedLedger.open(directory, { clock, keepMs: 7 * DAY_MS })
  for (let day = 0; day < 20; day++) {
    clock.ms = START_MS + day * DAY_MS
    await ledger.settle(await ledger.reserve(account, holdOf(10)), chargeOf(3))
    // Requests are expired after the commit, not with it.
    while (ledger.health().pending > 0) await Bun.sleep(5)
  }
  await ledger.close()
  expect(kept(join(directory, LEDGER_FILE))).toEqual([[12, 13, 14, 15, 16, 17, 18, 19], 20])
})

test('the outbox deletes requests that are too old, and no usage', async () => {
  const directory = newDirectory()
  const account = accountOf()
  let now = START_MS
  const outbox = new Outbox(directory, () => now, 7 * DAY_MS)
  for (let day = 0; day < 20; day++) {
    now = START_MS + day * DAY_MS
    await logged(outbox, { id: `r-${day}`, account, admittedMs: now, charge: chargeOf(3), heldMicroUsd: 10 }, true)
  }
  outbox.close()
  expect(kept(join(directory, OUTBOX_FILE))).toEqual([[12, 13, 14, 15, 16, 17, 18, 19], 20])
})

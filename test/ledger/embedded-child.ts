/**
 * The ledger of a gateway in a process that a test can kill. `streams DIR [AT ONCE]` runs requests until it is killed;
 * `full DIR` fills the disk, frees it and reports what happened.
 */

import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CallerError } from '../../src/core/caller-error.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import { PENDING_MAX } from '../../src/ledger/embedded/journal.ts'
import { EmbeddedAccountUsageReader } from '../../src/ledger/embedded/sqlite-readers.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { Random } from './random.ts'

const [, , mode = '', directory = '', atOnce = '20'] = process.argv
const account = accountOf({}, {}, 'acme')

/** Prints `id cost` of each settlement once it is in the file. */
async function streams(): Promise<void> {
  const ledger = EmbeddedLedger.open(directory)
  const random = new Random(process.pid)
  for (;;) {
    const settled: string[] = []
    for (let i = 0; i < Number(atOnce); i++) {
      const hold = holdOf(100)
      const reservation = await ledger.reserve(account, hold)
      if (random.oneIn(2))
        await ledger.extend(reservation, { ...hold.estimate, costMicroUsd: random.below(120) }, hold.estimate)
      if (random.oneIn(4)) continue
      const cost = random.below(150)
      await ledger.settle(reservation, chargeOf(cost))
      settled.push(`${hold.id} ${cost}\n`)
    }
    while (ledger.health().pending > 0) await Bun.sleep(1)
    process.stdout.write(settled.join(''))
  }
}

async function full(): Promise<void> {
  const ledger = EmbeddedLedger.open(directory)
  const settle = async (cost: number) => ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(cost))
  await settle(1)
  while (ledger.health().pending > 0) await Bun.sleep(1)
  const ballast = join(directory, 'ballast')
  const written = fill(ballast)
  let granted = 0
  let failure: CallerError | undefined
  while (failure === undefined && granted <= PENDING_MAX + 1) {
    try {
      await settle(2)
      granted += 1
    } catch (error) {
      if (!(error instanceof CallerError)) throw error
      failure = error
    }
    if (granted % 500 === 0) await Bun.sleep(25)
  }
  const during = ledger.health()
  rmSync(ballast)
  while (ledger.health().pending > 0) await Bun.sleep(5)
  await settle(3)
  const after = ledger.health()
  await ledger.close()
  const again = EmbeddedLedger.open(directory)
  await again.close()
  const { organization } = await new EmbeddedAccountUsageReader(directory).read(account)
  console.log(
    JSON.stringify({
      written,
      granted,
      spent: organization.total.spent,
      failure: failure?.kind,
      during,
      after: { ready: after.ready, complaint: after.complaint },
    }),
  )
}

/** Fills the disk to its last byte; returns the number of blocks written. */
function fill(path: string): number {
  let blocks = 0
  try {
    for (;;) {
      writeFileSync(path, new Uint8Array(4096), { flag: 'a' })
      blocks += 1
    }
  } catch {
    return blocks
  }
}

await (mode === 'full' ? full() : streams())

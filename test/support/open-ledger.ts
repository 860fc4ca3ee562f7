/** The ledger of a gateway's only worker. */

import { type LedgerPlace, openWorkerLedger } from '../../src/assembly/open-ledger.ts'
import type { Ledger } from '../../src/ledger/ledger.ts'

export async function openLedger(place: LedgerPlace): Promise<Ledger> {
  return (await openWorkerLedger(place, 'owner', true, () => {})).ledger
}

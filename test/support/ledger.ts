/** An in-process ledger without limits: it records reservations until they are settled, and admits everything. */

import { type Later, laterOf } from '../../src/core/later.ts'
import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../../src/ledger/ledger.ts'

export class UnlimitedLedger implements Ledger {
  private readonly live = new Set<string>()

  /** The number of reservations that are not settled. */
  get reservations(): number {
    return this.live.size
  }

  reserve(account: Account, hold: Hold): Later<Reservation> {
    return laterOf(
      (async () => {
        this.live.add(hold.id)
        return { id: hold.id, account, held: hold.estimate, admittedMs: Date.now() }
      })(),
    )
  }

  extend(_reservation: Reservation, _soFar: Estimate, _wanted: Estimate): Later<boolean> {
    return laterOf(Promise.resolve<boolean>(true))
  }

  settle(reservation: Reservation, _actual: Charge): Later<'settled' | 'already_settled'> {
    return laterOf(
      Promise.resolve<'settled' | 'already_settled'>(this.live.delete(reservation.id) ? 'settled' : 'already_settled'),
    )
  }

  health(): LedgerHealth {
    return { ready: true, up: true, pending: 0 }
  }

  async askHealth(): Promise<LedgerHealth> {
    return this.health()
  }

  async close(): Promise<void> {}
}

/** The same with everything that it was given. */
export class RecordingLedger extends UnlimitedLedger {
  readonly holds: Hold[] = []
  readonly settlements: Charge[] = []

  override reserve(account: Account, hold: Hold): Later<Reservation> {
    this.holds.push(hold)
    return super.reserve(account, hold)
  }

  override settle(reservation: Reservation, actual: Charge): Later<'settled' | 'already_settled'> {
    this.settlements.push(actual)
    return super.settle(reservation, actual)
  }
}

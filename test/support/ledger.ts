/** An in-process ledger without limits: it records reservations until they are settled, and admits everything. */

import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../../src/ledger/ledger.ts'

export class UnlimitedLedger implements Ledger {
  private readonly live = new Set<string>()

  /** The number of reservations that are not settled. */
  get reservations(): number {
    return this.live.size
  }

  async reserve(account: Account, hold: Hold): Promise<Reservation> {
    this.live.add(hold.id)
    return { id: hold.id, account, held: hold.estimate, admittedMs: Date.now() }
  }

  async extend(_reservation: Reservation, _soFar: Estimate, _wanted: Estimate): Promise<boolean> {
    return true
  }

  async settle(reservation: Reservation, _actual: Charge): Promise<'settled' | 'already_settled'> {
    return this.live.delete(reservation.id) ? 'settled' : 'already_settled'
  }

  health(): LedgerHealth {
    return { ready: true, up: true, pending: 0 }
  }

  async askHealth(): Promise<LedgerHealth> {
    return this.health()
  }

  async close(): Promise<void> {}
}

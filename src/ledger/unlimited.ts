/** A ledger in process that knows no limits: it remembers what is reserved until it is settled, and refuses nothing. */

import type { Account, Amounts, Hold, Ledger, Reservation, Settlement } from './ledger.ts'

export class UnlimitedLedger implements Ledger {
  private readonly live = new Set<string>()

  /** How many reservations are not settled yet. */
  get reservations(): number {
    return this.live.size
  }

  async reserve(account: Account, hold: Hold): Promise<Reservation> {
    this.live.add(hold.id)
    return { id: hold.id, account, held: hold.amounts }
  }

  async extend(_reservation: Reservation, _soFar: Amounts, _wanted: Amounts): Promise<boolean> {
    return true
  }

  async settle(reservation: Reservation, _actual: Settlement): Promise<'settled' | 'already_settled'> {
    return this.live.delete(reservation.id) ? 'settled' : 'already_settled'
  }

  async close(): Promise<void> {}
}

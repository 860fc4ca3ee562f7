/** The ledger of the process that owns it. Turns the replies of the store into results and errors. */

import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../ledger.ts'
import { fullError, isHeld, reservationOf } from '../refusal.ts'
import type { Clock } from './monotonic-clock.ts'
import { OwnedStore } from './owned-store.ts'

export class EmbeddedLedger implements Ledger {
  constructor(private readonly owned: OwnedStore) {}

  /**
   * Opens the ledger of a directory. Reservations that the last process still held are lost: each is charged the
   * greater of its progress and its floor, at once. `keepMs` is how long single requests are kept. Throws
   * `LedgerFileError` if another process uses the directory, or if the file cannot be used.
   */
  static open(directory: string, clock?: Clock, keepMs?: number): EmbeddedLedger {
    return new EmbeddedLedger(OwnedStore.open(directory, { clock, keepMs }))
  }

  reserve(account: Account, hold: Hold): Reservation {
    const { owned } = this
    if (owned.isFull()) throw fullError()
    return reservationOf(account, hold, owned.store.reserve(account, hold), owned.clock.now())
  }

  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): boolean {
    return isHeld(this.owned.store.extend(reservation.account, reservation.id, soFar, wanted))
  }

  /**
   * A reservation that the store does not know was settled: all reservations are from this process, and the store keeps
   * lost ones.
   */
  settle(reservation: Reservation, charge: Charge): 'settled' | 'already_settled' {
    return this.owned.store.settle(reservation, charge) === 'settled' ? 'settled' : 'already_settled'
  }

  health(): LedgerHealth {
    return this.owned.health()
  }

  /** The same as `health`: the store is in this process. */
  async askHealth(): Promise<LedgerHealth> {
    return this.owned.health()
  }

  async close(): Promise<void> {
    this.owned.close()
  }
}

/**
 * The embedded ledger of a worker, which owns it or calls its owner over the socket. A worker that calls may take the
 * ledger over when the owner is gone. Reservations that the former owner granted still end over the socket, which then
 * leads to this process.
 */

import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../../ledger.ts'
import { LedgerServer } from './ledger-server.ts'
import { SharedLedger } from './shared-ledger.ts'

export class WorkerLedger implements Ledger {
  private constructor(
    private own: LedgerServer | undefined,
    private readonly shared: SharedLedger | undefined,
  ) {}

  /** Other workers may call it. Throws like `LedgerServer`. */
  static owning(...[directory, options]: ConstructorParameters<typeof LedgerServer>): WorkerLedger {
    return new WorkerLedger(new LedgerServer(directory, options), undefined)
  }

  /** Resolves like `SharedLedger.open`. */
  static async calling(directory: string): Promise<WorkerLedger> {
    return new WorkerLedger(undefined, await SharedLedger.open(directory))
  }

  /** Owns the ledger from now on. Throws like `LedgerServer`, `LedgerInUseError` if the owner still runs. */
  takeOver(...[directory, options]: ConstructorParameters<typeof LedgerServer>): void {
    this.own ??= new LedgerServer(directory, { ...options, isTakeover: true })
  }

  reserve(account: Account, hold: Hold, before?: Reservation): ReturnType<Ledger['reserve']> {
    const ledger = before === undefined ? this.current : this.ledgerOf(before)
    return ledger.reserve(account, hold, before)
  }

  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): ReturnType<Ledger['extend']> {
    return this.ledgerOf(reservation).extend(reservation, soFar, wanted)
  }

  settle(reservation: Reservation, charge: Charge): ReturnType<Ledger['settle']> {
    return this.ledgerOf(reservation).settle(reservation, charge)
  }

  health(): LedgerHealth {
    return this.current.health()
  }

  askHealth(): Promise<LedgerHealth> {
    return this.current.askHealth()
  }

  async close(): Promise<void> {
    try {
      await this.shared?.close()
    } finally {
      this.own?.close()
    }
  }

  private get current(): Ledger {
    if (this.own !== undefined) return this.own.ledger
    if (this.shared === undefined) throw new Error('A ledger is either owned or called.')
    return this.shared
  }

  private ledgerOf(reservation: Reservation): Ledger {
    return this.shared?.holds(reservation) === true ? this.shared : this.current
  }
}

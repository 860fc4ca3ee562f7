/**
 * The ledger of a single process: a store in memory with a journal in `data_dir`. Turns the store's replies into
 * results and errors, and ends overdue reservations every 5 s.
 */

import { CallerError } from '../../core/caller-error.ts'
import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../ledger.ts'
import { isHeld, refusalError } from '../refusal.ts'
import { TERMS } from '../reservation-store.ts'
import { AHEAD_ADVICE, isAhead } from '../window-reset.ts'
import { type Lock, lockDirectory } from './directory-lock.ts'
import { Journal } from './journal.ts'
import { type Clock, MemoryStore } from './memory-store.ts'
import { SteadyClock } from './monotonic-clock.ts'

/** How often overdue reservations are ended, also in organisations that send no requests. */
const REAP_MS = 5000

export class EmbeddedLedger implements Ledger {
  private readonly timer: ReturnType<typeof setInterval>

  private constructor(
    private readonly lock: Lock,
    private readonly journal: Journal,
    private readonly store: MemoryStore,
    private readonly clock: Clock,
    /** Set if the window of a budget is in the future, so that the budget does not renew in time. */
    private readonly warning: string | undefined,
  ) {
    this.timer = setInterval(() => store.reapAll(), REAP_MS)
    this.timer.unref()
  }

  /**
   * Opens the ledger of a directory. Reservations that the last process still held are lost: each is charged the
   * greater of its progress and its floor, at once. `keepMs` is how long single requests are kept. Throws
   * `LedgerFileError` if another process uses the directory, or if the file cannot be used.
   */
  static open(directory: string, clock: Clock = new SteadyClock(), keepMs?: number): EmbeddedLedger {
    const lock = lockDirectory(directory)
    try {
      const journal = new Journal(directory, () => clock.now(), { keepMs })
      const store = new MemoryStore(clock, journal, { ...TERMS, endedMs: 0 })
      const { scopes, live } = journal.load()
      store.restore(scopes, live)
      store.loseAll()
      journal.fill()
      const first = scopes.find(({ windows }) => isAhead(windows, clock.now()))
      const warning = first && `${first.organization}: ${AHEAD_ADVICE}.`
      return new EmbeddedLedger(lock, journal, store, clock, warning)
    } catch (error) {
      lock.release()
      throw error
    }
  }

  reserve(account: Account, hold: Hold): Reservation {
    if (this.isFull()) {
      throw new CallerError('ledger_unavailable', 'The ledger cannot be written at the moment. Try again in 5 s.', {
        retryAfterSeconds: 5,
      })
    }
    const reply = this.store.reserve(account, hold)
    switch (reply.outcome) {
      case 'granted':
        return { id: hold.id, account, held: hold.estimate, admittedMs: reply.admittedMs, rates: reply.rates }
      case 'refused':
        throw refusalError(account, hold, reply.refusal, reply.rates, this.clock.now())
      case 'ended':
        throw new Error(`Reservation '${hold.id}' has already ended. Use a new id for each request.`)
    }
  }

  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): boolean {
    return isHeld(this.store.extend(reservation.account, reservation.id, soFar, wanted))
  }

  /**
   * A reservation that the store does not know was settled: all reservations are from this process, and the store keeps
   * lost ones.
   */
  settle(reservation: Reservation, charge: Charge): 'settled' | 'already_settled' {
    return this.store.settle(reservation, charge) === 'settled' ? 'settled' : 'already_settled'
  }

  health(): LedgerHealth {
    const { pending } = this.journal
    const complaint = this.journal.complaint ?? this.warning
    const up = !this.journal.isFull
    return { ready: up, up, complaint, pending }
  }

  /** The same as `health`: the store is in this process. */
  async askHealth(): Promise<LedgerHealth> {
    return this.health()
  }

  async close(): Promise<void> {
    clearInterval(this.timer)
    try {
      this.journal.close()
    } finally {
      this.lock.release()
    }
  }

  /**
   * True if too many changes wait because a file cannot be written. If they wait only because a burst came between two
   * groups, they are written now.
   */
  private isFull(): boolean {
    return this.journal.isFull && !this.journal.makeRoom()
  }
}

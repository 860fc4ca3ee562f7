/**
 * The ledger of a single process: the book in memory, its journal in `data_dir`. Owns what becomes of a verb's answer,
 * and the beat of the reaper.
 */

import { CallerError } from '../../core/caller-error.ts'
import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation } from '../ledger.ts'
import { isHeld, refusalError } from '../refusal.ts'
import { TERMS } from '../reservation-store.ts'
import { AHEAD_ADVICE, isAhead } from '../window-reset.ts'
import { type Lock, lockDirectory } from './directory-lock.ts'
import { Journal, PENDING_MAX } from './journal.ts'
import { type Clock, MemoryStore } from './memory-store.ts'
import { SteadyClock } from './monotonic-clock.ts'
import type { ScopeState } from './store-state.ts'

/** How often organisations that have gone quiet are looked at. */
const REAP_MS = 5000

export class EmbeddedLedger implements Ledger {
  private readonly timer: ReturnType<typeof setInterval>

  private constructor(
    private readonly lock: Lock,
    private readonly journal: Journal,
    private readonly book: MemoryStore,
    private readonly clock: Clock,
    /** A budget that does not renew in time. */
    private readonly alarm: string | undefined,
  ) {
    this.timer = setInterval(() => book.reapAll(), REAP_MS)
    this.timer.unref()
  }

  /**
   * Opens the ledger of a directory. What the last process still held is lost with it: it is charged the greater of its
   * progress and its floor, at once. `keepMs`: how long single requests are kept. Throws `LedgerFileError` where
   * another process has the directory, or the file cannot be used.
   */
  static open(directory: string, clock: Clock = new SteadyClock(), keepMs?: number): EmbeddedLedger {
    const lock = lockDirectory(directory)
    try {
      const journal = new Journal(directory, () => clock.now(), keepMs)
      const book = new MemoryStore(clock, journal, { ...TERMS, endedMs: 0 })
      const { scopes, live } = journal.load()
      book.restore(scopes, live)
      book.loseAll()
      journal.commit()
      const isEarly = ({ budgets }: ScopeState) =>
        isAhead(
          budgets.map(({ window }) => window),
          clock.now(),
        )
      const first = scopes.find(isEarly)
      const alarm = first && `${first.organization}: ${AHEAD_ADVICE}.`
      return new EmbeddedLedger(lock, journal, book, clock, alarm)
    } catch (error) {
      lock.release()
      throw error
    }
  }

  async reserve(account: Account, hold: Hold): Promise<Reservation> {
    if (this.isFull()) {
      throw new CallerError('ledger_unavailable', 'The ledger cannot be written at the moment.', {
        retryAfterSeconds: 5,
      })
    }
    const reply = this.book.reserve(account, hold)
    switch (reply.outcome) {
      case 'granted':
        return { id: hold.id, account, held: hold.estimate, admittedMs: reply.admittedMs, rates: reply.rates }
      case 'refused':
        throw refusalError(account, hold, reply.refusal, reply.rates, this.clock.now())
      case 'ended':
        throw new Error(`The reservation '${hold.id}' has ended: an id is for one request.`)
    }
  }

  async extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): Promise<boolean> {
    return isHeld(this.book.extend(reservation.account, reservation.id, soFar, wanted))
  }

  /**
   * Its own reservations are all it is ever asked about, and a lost one is remembered: what the book does not know has
   * been settled.
   */
  async settle(reservation: Reservation, charge: Charge): Promise<'settled' | 'already_settled'> {
    return this.book.settle(reservation, charge) === 'settled' ? 'settled' : 'already_settled'
  }

  health(): LedgerHealth {
    const { pending } = this.journal
    const complaint = this.journal.complaint ?? this.alarm
    const up = pending <= PENDING_MAX
    return { ready: up, up, complaint, pending }
  }

  /** The store is in this process: what is known is what is so now. */
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
   * More waits than may, and the file does not take it. A burst that merely outran the beat is committed here and now.
   */
  private isFull(): boolean {
    if (this.journal.pending <= PENDING_MAX) return false
    return this.journal.complaint !== undefined || !this.journal.commit()
  }
}

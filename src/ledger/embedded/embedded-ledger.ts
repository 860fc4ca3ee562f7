/**
 * The ledger of the process that owns it: the store in memory, its journal in `data_dir`, the lock on that directory,
 * and a timer that ends overdue reservations every 5 s, and follows steps of the system time.
 */

import type { Account, Charge, Estimate, Hold, Ledger, LedgerHealth, Reservation, Settled } from '../ledger.ts'
import { fullError, isHeld, reservationOf } from '../refusal.ts'
import { TERMS } from '../reservation-store.ts'
import { AHEAD_ADVICE, begunWindows, isAhead, windowsAhead } from '../window-reset.ts'
import { type Lock, lockDirectory } from './directory-lock.ts'
import { Journal } from './journal.ts'
import { type Clock, SteadyClock } from './monotonic-clock.ts'
import { FullStore } from './socket/full-store.ts'
import type { ScopeState } from './store-state.ts'

/** How often overdue reservations are ended, also in organisations that send no requests. */
const REAP_MS = 5000

export interface EmbeddedLedgerOptions {
  readonly clock?: Clock | undefined
  /** How long single requests are kept. */
  readonly keepMs?: number | undefined
  /**
   * True if the callers of the last owner may still run: then its live reservations get a whole lease. Else they are
   * lost at once: each is charged the greater of its progress and its floor.
   */
  readonly isTakeover?: boolean | undefined
  /** Called whenever changes have been appended to the journal's file. */
  readonly appended?: (() => void) | undefined
  /** Called after a large step of the system time, in milliseconds. */
  readonly stepped?: ((stepMs: number) => void) | undefined
}

export class EmbeddedLedger implements Ledger {
  private readonly timer: ReturnType<typeof setInterval>

  private constructor(
    readonly store: FullStore,
    private readonly clock: Clock,
    private readonly journal: Journal,
    private readonly lock: Lock,
    /**
     * After a takeover: the requests whose end the last owner wrote shortly before its own. Their callers may not have
     * heard of it, and end them again.
     */
    readonly recentlyEnded: ReadonlySet<string>,
    /** Set if the window of a budget is in the future, so that the budget does not renew in time. */
    private warning: string | undefined,
    private readonly stepped: EmbeddedLedgerOptions['stepped'],
  ) {
    this.timer = setInterval(() => this.tend(), REAP_MS)
    this.timer.unref()
  }

  /**
   * Opens the ledger of a directory. Throws `LedgerFileError` if another process uses the directory, or if the file
   * cannot be used.
   */
  static open(
    directory: string,
    { clock = new SteadyClock(), keepMs, isTakeover = false, appended, stepped }: EmbeddedLedgerOptions = {},
  ): EmbeddedLedger {
    const lock = lockDirectory(directory)
    try {
      const journal = new Journal(directory, () => clock.now(), { keepMs, appended })
      const store = new FullStore(clock, journal, { ...TERMS, endedMs: 0 })
      const { scopes, reservations } = journal.load()
      store.restore(scopes, reservations)
      if (isTakeover) store.renewAll()
      else store.loseAll()
      journal.fill()
      const warning = warningOf(scopes, clock.now())
      const recentlyEnded = isTakeover ? journal.recentlyEnded() : new Set<string>()
      return new EmbeddedLedger(store, clock, journal, lock, recentlyEnded, warning, stepped)
    } catch (error) {
      lock.release()
      throw error
    }
  }

  reserve(account: Account, hold: Hold): Reservation {
    if (this.isFull()) throw fullError()
    return reservationOf(account, hold, this.store.reserve(account, hold), this.clock.now())
  }

  extend(reservation: Reservation, soFar: Estimate, wanted: Estimate): boolean {
    return isHeld(this.store.extend(reservation.account, reservation.id, soFar, wanted))
  }

  /**
   * A reservation that the store does not know was settled: all reservations are from this process, and the store keeps
   * lost ones.
   */
  settle(reservation: Reservation, charge: Charge): Settled {
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
    this.closeNow()
  }

  /** Writes what is still in memory, and releases the directory. Throws if changes are lost. */
  closeNow(): void {
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
  isFull(): boolean {
    return this.journal.isFull && !this.journal.makeRoom()
  }

  /** Whether all changes are in the journal's file. */
  get isWritten(): boolean {
    return this.journal.isWritten
  }

  /** Called every few seconds. */
  tend(): void {
    const stepMs = this.clock.follow?.() ?? 0
    if (stepMs !== 0) {
      this.store.shift(stepMs)
      this.warning = warningOf(this.store.scopes(), this.clock.now())
      this.stepped?.(stepMs)
    }
    this.store.reapAll()
  }
}

function warningOf(scopes: Iterable<ScopeState>, nowMs: number): string | undefined {
  const begun = begunWindows(nowMs)
  for (const scope of scopes) {
    const isEarly = scope.key.startsWith('b')
      ? windowsAhead(scope, begun).includes(true)
      : isAhead(scope.windows, nowMs)
    if (isEarly) return `${scope.organization}: ${AHEAD_ADVICE}.`
  }
  return undefined
}

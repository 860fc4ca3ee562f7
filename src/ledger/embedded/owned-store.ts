/**
 * What the process that owns an embedded ledger has open: the store in memory, its journal in `data_dir`, the lock on
 * that directory, and a timer that ends overdue reservations every 5 s, and follows steps of the system time.
 */

import type { LedgerHealth } from '../ledger.ts'
import { TERMS } from '../reservation-store.ts'
import { AHEAD_ADVICE, isAhead } from '../window-reset.ts'
import { type Lock, lockDirectory } from './directory-lock.ts'
import { Journal } from './journal.ts'
import { type Clock, SteadyClock } from './monotonic-clock.ts'
import { FullStore } from './socket/full-store.ts'
import type { ScopeState } from './store-state.ts'

/** How often overdue reservations are ended, also in organisations that send no requests. */
const REAP_MS = 5000

interface OwnedStoreOptions {
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

export class OwnedStore {
  private readonly timer: ReturnType<typeof setInterval>

  private constructor(
    readonly store: FullStore,
    readonly clock: Clock,
    private readonly journal: Journal,
    private readonly lock: Lock,
    /**
     * After a takeover: the requests whose end the last owner wrote shortly before its own. Their callers may not have
     * heard of it, and end them again.
     */
    readonly recentlyEnded: ReadonlySet<string>,
    /** Set if the window of a budget is in the future, so that the budget does not renew in time. */
    private warning: string | undefined,
    private readonly stepped: OwnedStoreOptions['stepped'],
  ) {
    this.timer = setInterval(() => this.tend(), REAP_MS)
    this.timer.unref()
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

  /**
   * Opens the store of a directory. Throws `LedgerFileError` if another process uses the directory, or if the file
   * cannot be used.
   */
  static open(
    directory: string,
    { clock = new SteadyClock(), keepMs, isTakeover = false, appended, stepped }: OwnedStoreOptions = {},
  ): OwnedStore {
    const lock = lockDirectory(directory)
    try {
      const journal = new Journal(directory, () => clock.now(), { keepMs, appended })
      const store = new FullStore(clock, journal, { ...TERMS, endedMs: 0 })
      const { scopes, live, lost } = journal.load()
      store.restore(scopes, [...live, ...lost])
      if (isTakeover) store.renewAll()
      else store.loseAll()
      journal.fill()
      const warning = warningOf(scopes, clock.now())
      const recentlyEnded = isTakeover ? journal.recentlyEnded() : new Set<string>()
      return new OwnedStore(store, clock, journal, lock, recentlyEnded, warning, stepped)
    } catch (error) {
      lock.release()
      throw error
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

  health(): LedgerHealth {
    const { pending } = this.journal
    const complaint = this.journal.complaint ?? this.warning
    const up = !this.journal.isFull
    return { ready: up, up, complaint, pending }
  }

  /** Writes what is still in memory, and releases the directory. Throws if changes are lost. */
  close(): void {
    clearInterval(this.timer)
    try {
      this.journal.close()
    } finally {
      this.lock.release()
    }
  }
}

function warningOf(scopes: Iterable<ScopeState>, nowMs: number): string | undefined {
  // The dates of counters are those of a time zone.
  for (const { organization, key, windows } of scopes)
    if (!key.startsWith('b') && isAhead(windows, nowMs)) return `${organization}: ${AHEAD_ADVICE}.`
  return undefined
}

/** The counters of an organisation's budgets: which there are, how many there may be, and when each ends. */

import { budgetLimits } from '../../core/limits.ts'
import type { CounterAccount } from '../ledger.ts'
import { COUNTERS_MAX } from '../reservation-store.ts'
import { NEVER_MS, type ZonedWindows } from '../window.ts'
import { HAS_ENDED, newCounter, type ScopeState } from './store-state.ts'

/** How often counters that have ended are looked for: all of them are visited. */
const SWEEP_MS = 60_000
/** The same while there are as many as there may be. */
const CROWDED_SWEEP_MS = 1000

const NONE_OPEN: readonly number[] = budgetLimits.map(() => 0)
/** Of a counter that is gone: no window of it is open. */
const NO_ZONED: ZonedWindows = { windows: NONE_OPEN, starts: NONE_OPEN, ends: budgetLimits.map(() => NEVER_MS) }

export class Counters {
  /** By `b` and the counter's name. */
  readonly scopes = new Map<string, ScopeState>()
  /** How many the organisation has beside those in `scopes`: for a store of one request. */
  elsewhere = 0
  private sweptMs = 0

  /** `dropped` gets each counter that has ended. */
  constructor(
    private readonly organization: string,
    private readonly dropped: (scope: ScopeState) => void,
  ) {}

  /** A counter, a new one if there is none: it is dropped unless it is stored in `scopes`. */
  open(key: string, now: number, zoned = NO_ZONED): ScopeState {
    const known = this.scopes.get(key)
    if (known !== undefined && !this.drop(known, now)) return known
    return newCounter(this.organization, key, now, zoned)
  }

  /** True if the counter is stored. */
  has(scope: ScopeState): boolean {
    return this.scopes.get(scope.key) === scope
  }

  /**
   * The place of the first counter that would be new and has no room among those that there may be; -1 if there is
   * none. `opened` are the scopes of `budgets`.
   */
  crowded(budgets: readonly CounterAccount[], opened: readonly ScopeState[], now: number): number {
    if (this.size + budgets.length <= COUNTERS_MAX) return -1
    const isNew = (scope: ScopeState, i: number) => budgets[i]?.isBounded === true && !this.has(scope)
    if (!opened.some(isNew)) return -1
    this.sweep(now, CROWDED_SWEEP_MS)
    return this.size + opened.filter(isNew).length > COUNTERS_MAX ? opened.findIndex(isNew) : -1
  }

  private get size(): number {
    return this.scopes.size + this.elsewhere
  }

  /** Drops counters that have ended, at most once in a time. */
  sweep(now: number, everyMs = SWEEP_MS): void {
    if (this.scopes.size === 0 || now - this.sweptMs < everyMs) return
    this.sweptMs = now
    for (const scope of this.scopes.values()) this.drop(scope, now)
  }

  /** Drops a counter if it has ended; whether it has. */
  private drop(scope: ScopeState, now: number): boolean {
    if (now < scope.untilMs || scope.live > 0) return false
    this.scopes.delete(scope.key)
    scope.untilMs = HAS_ENDED
    this.dropped(scope)
    return true
  }
}

/** The data of the store in memory: the state of scopes (organisations and keys) and of reservations. */

import { budgetLimits, byName, rateLimits, type UnitAmounts } from '../../core/limits.ts'
import type { ListMember } from '../../core/member-list.ts'
import type { Budget, ScopeUsage } from '../reservation-store.ts'
import { budgetWindows } from '../window.ts'

/** Amounts stop growing here, at $9.0 billion: larger sums would not be exact. */
export const AMOUNT_MAX = Number.MAX_SAFE_INTEGER

/** The bucket of one rate limit; `rate-bucket.ts` has its arithmetic. */
export interface Bucket {
  used: number
  /** When it was drained last. */
  at: number
  /** How many times it became empty before the time of a drain, so that capacity went by unused. */
  idled: number
}

export interface BudgetState {
  spent: number
  held: number
  /** As in `Budget`, in the window `refusedIn`: a refused request opens no window. */
  refused: number
  refusedIn: number
}

/** What a budget's spend was when it reached a threshold, or when the budget first refused a request. */
export interface BudgetCrossing {
  /** Its index in `budgetLimits`. */
  readonly budget: number
  readonly window: number
  readonly spent: number
  /** `NO_LIMIT` if it was not known. */
  readonly limit: number
  readonly isRefusal: boolean
}

export const NO_CROSSINGS: readonly BudgetCrossing[] = []

/** One organisation, or one key of it. */
export interface ScopeState {
  readonly organization: string
  /** '' for the organisation itself, else `k` and the key's id. */
  readonly key: string
  /** When it was advanced last. */
  at: number
  /** In the order of `rateLimits`. */
  readonly rates: readonly Bucket[]
  /** Count of live reservations. */
  live: number
  /**
   * The windows of the budgets, in the order of `budgetLimits`. Reservations keep the array of their admission, so a
   * new window is written to a new array.
   */
  windows: readonly number[]
  /** In the order of `budgetLimits`. */
  readonly budgets: readonly BudgetState[]
  /** Since the last group of the journal; for each window the one with the largest spend. */
  crossings: readonly BudgetCrossing[]
  /** Mark of the journal: it has changed since the last group. */
  isChanged: boolean
}

type ReservationPhase = 'live' | 'settled' | 'lost' | 'cancelled'

/** A reservation. Its `place` is that in the journal's list of what SQLite gets next. */
export interface ReservationState extends ListMember {
  readonly id: string
  readonly organization: string
  state: ReservationPhase
  /** When the lease expires; for an ended reservation, when it is dropped. */
  dueMs: number
  readonly admittedMs: number
  readonly key: string
  /** The series of its usage if it is never settled: as in `usage-series.ts`, without the hour. */
  readonly series: string
  readonly inputTokens: number
  /** What it holds of each unit, including what is already used; the rates are charged with it. */
  held: UnitAmounts
  postedInput: number
  postedOutput: number
  postedMicroUsd: number
  readonly floorMicroUsd: number
  /** The budget windows of the organisation and of the key at its admission, in the order of `budgetLimits`. */
  readonly windows: readonly [readonly number[], readonly number[]]
  /**
   * `idled` of each bucket when it was charged, in the order of `rateLimits`, first for the organisation, then for the
   * key; `NOT_CHARGED` if there was no limit.
   */
  readonly idled: readonly number[]
  /** Marks of the journal: it has changed since the last group; SQLite has it. */
  isChanged: boolean
  isStored: boolean
  /** Links of `ReservationIndex` and `DueOrder`. */
  sameSlot: ReservationState | undefined
  before: ReservationState | undefined
  after: ReservationState | undefined
}

/** Stands in `idled` for a bucket that had no limit, so that nothing was charged. */
export const NOT_CHARGED = -1

export function newScope(organization: string, key: string, now: number): ScopeState {
  return {
    organization,
    key,
    at: now,
    rates: rateLimits.map(() => ({ used: 0, at: now, idled: 0 })),
    live: 0,
    windows: budgetWindows(now),
    budgets: budgetLimits.map(() => ({ spent: 0, held: 0, refused: 0, refusedIn: 0 })),
    crossings: NO_CROSSINGS,
    isChanged: false,
  }
}

/** The windows of a scope whose first request was refused: the next one opens them. */
export const NO_WINDOWS: readonly number[] = budgetLimits.map(() => 0)

/** A snapshot for readers. */
export function figuresOf({ rates, live, windows, budgets }: ScopeState): ScopeUsage {
  const copy = (index: number): Budget => {
    const window = windows[index] ?? 0
    const { spent = 0, held = 0, refused = 0, refusedIn } = budgets[index] ?? {}
    return { window, spent, held, refused: refusedIn === window ? refused : 0 }
  }
  return {
    live,
    ...byName(rateLimits, (_, index) => Math.ceil(rates[index]?.used ?? 0)),
    ...byName(budgetLimits, (_, index) => copy(index)),
  }
}

/** A copy for readers, who advance it to their time. */
export function copyOf(scope: ScopeState): ScopeState {
  const { organization, key, at, rates, live, windows, budgets } = scope
  return {
    organization,
    key,
    at,
    rates: rates.map(({ used, at, idled }) => ({ used, at, idled })),
    live,
    windows,
    budgets: budgets.map(({ spent, held, refused, refusedIn }) => ({ spent, held, refused, refusedIn })),
    crossings: NO_CROSSINGS,
    isChanged: false,
  }
}

/** The data of the store in memory: the state of scopes (organisations, keys, counters) and of reservations. */

import { budgetLimits, byName, ownerBudgetLimits, rateLimits, type UnitAmounts } from '../../core/limits.ts'
import type { ListMember } from '../../core/member-list.ts'
import type { EndKind } from '../audit-columns.ts'
import type { Charge } from '../ledger.ts'
import type { Budget, CounterUsage, ScopeUsage } from '../reservation-store.ts'
import type { UsageFigures } from '../usage-figures.ts'
import { budgetWindows, NEVER_MS, type ZonedWindows } from '../window.ts'

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

/** One organisation, one key of it, or one counter of its budgets. */
export interface ScopeState {
  readonly organization: string
  /** '' for the organisation itself, `k` and the key's id, or `b` and the counter's name. */
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
  /** In the order of `budgetLimits`; only a counter has all of them. */
  readonly budgets: readonly BudgetState[]
  /** When each window ends, and until when the counter is kept; of other scopes, nothing and 0. */
  ends: readonly number[]
  untilMs: number
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
  /** As in `Hold`; 0 after a restart: the callers send again what they are not sure of. */
  readonly turn: number
  /** The names of the scopes of its counters, which follow the organisation and the key in the lists below. */
  readonly counters: readonly string[]
  /** The windows of each scope at its admission, in the order of `budgetLimits`. */
  readonly windows: readonly (readonly number[])[]
  /**
   * `idled` of each bucket when it was charged, in the order of `rateLimits`, one scope after the other; `NOT_CHARGED`
   * if there was no limit.
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

/** Receives every change of a store. */
export interface Changes {
  /** One whose `untilMs` is `HAS_ENDED` is dropped. */
  scope(scope: ScopeState): void
  /** A reservation began, changed or ended. */
  reservation(reservation: ReservationState): void
  /** The store dropped an ended reservation. */
  forgotten(id: string): void
  /**
   * Adds figures to the usage of a series on the day of the reservation's admission. Negative figures correct earlier
   * ones.
   */
  used(reservation: ReservationState, series: string, figures: UsageFigures): void
  /** `charge` is undefined if the reservation expired without a settlement; `now` is the store's time. */
  ended(reservation: ReservationState, kind: EndKind, charge: Charge | undefined, now: number): void
}

/** Stands in `idled` for a bucket that had no limit, so that nothing was charged. */
export const NOT_CHARGED = -1

/** Stands in `untilMs` for a counter that has ended. */
export const HAS_ENDED = -1

/** The counters of a reservation whose request matches no budget. */
export const NO_COUNTERS: readonly string[] = []

/** An element that is there: lists of scopes, and those in the order of a table of limits, are equally long. */
export function at<T>(list: readonly T[], index: number): T {
  return list[index] as T
}

const NO_ENDS: readonly number[] = []

export function newScope(organization: string, key: string, now: number): ScopeState {
  return {
    organization,
    key,
    at: now,
    rates: rateLimits.map(() => ({ used: 0, at: now, idled: 0 })),
    live: 0,
    windows: budgetWindows(now),
    budgets: ownerBudgetLimits.map(nothingSpent),
    ends: NO_ENDS,
    untilMs: 0,
    crossings: NO_CROSSINGS,
    isChanged: false,
  }
}

/** The scope of a counter in the windows of its time zone. */
export function newCounter(organization: string, key: string, now: number, { windows, ends }: ZonedWindows) {
  return { ...newScope(organization, key, now), windows, ends, budgets: budgetLimits.map(nothingSpent) }
}

function nothingSpent(): BudgetState {
  return { spent: 0, held: 0, refused: 0, refusedIn: 0 }
}

/** The windows of a scope whose first request was refused: the next one opens them. */
export const NO_WINDOWS: readonly number[] = ownerBudgetLimits.map(() => 0)

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

/** The same for a counter. */
export function counterUsageOf(scope: ScopeState): CounterUsage {
  const endsMs = byName(budgetLimits, (_, index) => scope.ends[index] ?? NEVER_MS)
  return { usage: figuresOf(scope), endsMs, keptMs: scope.untilMs }
}

/** A copy for readers, who advance it to their time. */
export function copyOf(scope: ScopeState): ScopeState {
  return {
    ...scope,
    rates: scope.rates.map((bucket) => ({ ...bucket })),
    budgets: scope.budgets.map((budget) => ({ ...budget })),
    crossings: NO_CROSSINGS,
    isChanged: false,
  }
}

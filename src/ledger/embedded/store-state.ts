/** The data of the store in memory: the state of scopes (organisations and keys) and of reservations. */

import { budgetLimits, byName, rateLimits, type UnitAmounts } from '../../core/limits.ts'
import type { Budget, ScopeUsage } from '../reservation-store.ts'
import { windowOf } from '../window.ts'

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
  window: number
  spent: number
  held: number
}

/** One organisation, or one key of it. */
export interface ScopeState {
  readonly organization: string
  /** '' for the organisation itself, else `k` and the key's id. */
  readonly key: string
  /** Made of both; unique among all scopes. */
  readonly name: string
  /** When it was advanced last. */
  at: number
  /** In the order of `rateLimits`. */
  readonly rates: readonly Bucket[]
  /** Count of live reservations. */
  live: number
  /** In the order of `budgetLimits`. */
  readonly budgets: readonly BudgetState[]
}

type ReservationPhase = 'live' | 'settled' | 'lost' | 'cancelled'

/** A reservation. */
export interface ReservationState {
  readonly id: string
  readonly organization: string
  state: ReservationPhase
  /** When the lease expires; for an ended reservation, when it is dropped. */
  dueMs: number
  readonly admittedMs: number
  readonly key: string
  readonly model: string
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
   * `idled` of each bucket when it was charged, for the organisation and the key, in the order of `rateLimits`;
   * undefined if there was no limit, so that nothing was charged.
   */
  readonly idled: readonly [readonly (number | undefined)[], readonly (number | undefined)[]]
}

export function scopeName(organization: string, key: string): string {
  return `${organization}\0${key}`
}

export function newScope(organization: string, key: string, now: number): ScopeState {
  return {
    organization,
    key,
    name: scopeName(organization, key),
    at: now,
    rates: rateLimits.map(() => ({ used: 0, at: now, idled: 0 })),
    live: 0,
    budgets: budgetLimits.map(({ window }) => ({ window: windowOf(window, now), spent: 0, held: 0 })),
  }
}

/** A snapshot for readers. */
export function figuresOf({ rates, live, budgets }: ScopeState): ScopeUsage {
  const copy = (index: number): Budget => ({ ...(budgets[index] ?? { window: 0, spent: 0, held: 0 }) })
  return {
    live,
    ...byName(rateLimits, (_, index) => Math.ceil(rates[index]?.used ?? 0)),
    ...byName(budgetLimits, (_, index) => copy(index)),
  }
}

/** A copy to work on: a call that is refused must leave the scope as it was. */
export function copyOf(scope: ScopeState): ScopeState {
  const { organization, key, name, at, rates, live, budgets } = scope
  return {
    organization,
    key,
    name,
    at,
    rates: rates.map(({ used, at, idled }) => ({ used, at, idled })),
    live,
    budgets: budgets.map(({ window, spent, held }) => ({ window, spent, held })),
  }
}

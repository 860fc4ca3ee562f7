/**
 * The plain data of the store in memory: what an organisation or a key has used, and what is known of a reservation.
 */

import { budgetLimits, byName, rateLimits, type UnitAmounts } from '../../core/limits.ts'
import type { Budget, ScopeUsage } from '../reservation-store.ts'
import { windowOf } from '../window.ts'

/** Amounts stop growing here. Unreached by real money ($9.0 billion); the sums stay exact up to it. */
export const AMOUNT_MAX = Number.MAX_SAFE_INTEGER

/** One rate limit's bucket; `rate-bucket.ts` has what may happen to it. */
export interface Bucket {
  used: number
  /** The clock at which it was drained last. */
  at: number
  /** How many times it has stood empty: time passed that it could have drained more in. */
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
  /** Of both: its name among all scopes. */
  readonly name: string
  /** The clock at which time last passed for it. */
  at: number
  /** In the order of `rateLimits`. */
  readonly rates: readonly Bucket[]
  /** How many reservations are live. */
  live: number
  /** In the order of `budgetLimits`. */
  readonly budgets: readonly BudgetState[]
}

type ReservationPhase = 'live' | 'settled' | 'lost' | 'cancelled'

/** A reservation. Ended ones keep only what a repetition or a correction needs. */
export interface ReservationState {
  readonly id: string
  readonly organization: string
  state: ReservationPhase
  /** When the lease ends; of an ended one, when it is forgotten. */
  dueMs: number
  readonly admittedMs: number
  readonly key: string
  readonly model: string
  readonly inputTokens: number
  /** What it holds of each unit, used or not; the rates are charged with it. */
  held: UnitAmounts
  postedInput: number
  postedOutput: number
  postedMicroUsd: number
  readonly floorMicroUsd: number
  /** The windows it belongs to, of the organisation and of the key, in the order of `budgetLimits`. */
  readonly windows: readonly [readonly number[], readonly number[]]
  /**
   * How often each rate's bucket had stood empty when it was charged, of the organisation and of the key, in the order
   * of `rateLimits`; undefined if nothing was charged, because there was no limit.
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

/** A copy that does not move with the state. */
export function figuresOf({ rates, live, budgets }: ScopeState): ScopeUsage {
  const copy = (index: number): Budget => ({ ...(budgets[index] ?? { window: 0, spent: 0, held: 0 }) })
  return {
    live,
    ...byName(rateLimits, (_, index) => Math.ceil(rates[index]?.used ?? 0)),
    ...byName(budgetLimits, (_, index) => copy(index)),
  }
}

/** A copy to work on: a verb that changes nothing leaves the scope as it was. */
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

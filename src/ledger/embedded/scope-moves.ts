/**
 * Changes to one scope (an organisation or a key), and the check of a request against its limits. `amounts` are those
 * of its limits, as `amountsOf` returns them.
 */

import type { LimitName, UnitAmounts } from '../../core/limits.ts'
import {
  type BudgetLimit,
  budgetLimits,
  type Limit,
  limitTable,
  NO_LIMIT,
  placesLimits,
  rateLimits,
} from '../../core/limits.ts'
import { budgetWindows, windowEndMs } from '../window.ts'
import { drain, take, waitMs } from './rate-bucket.ts'
import { AMOUNT_MAX, type BudgetState, type ScopeState } from './store-state.ts'

/** The time when a running request ends is unknown; 1 s is a guess. */
const CONCURRENT_WAIT_MS = 1000
/** The same for held amounts: the wait grows with the share of them that must be released. */
const HELD_WAIT_MS_MIN = 1000
const HELD_WAIT_MS_MAX = 10_000

/** The index of a limit in `amounts`. */
const positionOf = (limit: Limit) => limitTable.indexOf(limit)
const RATE_POSITIONS = rateLimits.map(positionOf)
const PLACES_POSITIONS = placesLimits.map(positionOf)
const BUDGET_POSITIONS = budgetLimits.map(positionOf)

/** The amount of a rate limit, by its index in `rateLimits`; `NO_LIMIT` if it is not set. */
export function rateAmount(amounts: readonly number[], rate: number): number {
  return amounts[RATE_POSITIONS[rate] ?? -1] ?? NO_LIMIT
}

/** The amount of a budget, by its index in `budgetLimits`; `AMOUNT_MAX` if it is not set. */
export function budgetAmount(amounts: readonly number[], budget: number): number {
  const amount = amounts[BUDGET_POSITIONS[budget] ?? -1] ?? NO_LIMIT
  return amount === NO_LIMIT ? AMOUNT_MAX : amount
}

/**
 * Advances a scope to `now`: drains its buckets and opens new budget windows. If the clock stepped back, windows stay.
 */
export function advance(scope: ScopeState, amounts: readonly number[], now: number): void {
  const { rates, budgets } = scope
  for (let i = 0; i < rates.length; i++) {
    const bucket = rates[i]
    if (bucket !== undefined) drain(bucket, rateAmount(amounts, i), now)
  }
  scope.at = now
  const windows = budgetWindows(now)
  for (let i = 0; i < budgets.length; i++) {
    const budget = budgets[i]
    if (budget !== undefined) roll(budget, windows[i] ?? 0)
  }
}

function roll(budget: BudgetState, window: number): void {
  if (window <= budget.window) return
  budget.window = window
  budget.spent = 0
  budget.held = 0
}

/** A limit that has no room for a request. */
interface Obstacle {
  readonly limit: LimitName
  /** Milliseconds until it has room; infinite if it never will. */
  readonly waitMs: number
  /** True if it refuses only because of what running requests hold: each end of one may make room. */
  readonly held: boolean
}

/**
 * Reports every limit of an advanced scope that has no room for a request: rates, places, budgets, each kind in the
 * order of `limitTable`.
 */
export function check(
  scope: ScopeState,
  amounts: readonly number[],
  demand: UnitAmounts,
  now: number,
  refuse: (obstacle: Obstacle) => void,
): void {
  for (let i = 0; i < rateLimits.length; i++) {
    const limit = rateLimits[i]
    const bucket = scope.rates[i]
    if (limit === undefined || bucket === undefined) continue
    const { name, unit } = limit
    const perMinute = rateAmount(amounts, i)
    const wait = waitMs(bucket, perMinute, demand[unit])
    if (wait === 0) continue
    // Unused tokens are returned when a request ends; the request itself stays counted.
    const held = unit !== 'requests' && scope.live > 0 && demand[unit] <= perMinute
    refuse({ limit: name, waitMs: wait, held })
  }
  for (let i = 0; i < placesLimits.length; i++) {
    const limit = placesLimits[i]
    const places = amounts[PLACES_POSITIONS[i] ?? -1] ?? NO_LIMIT
    if (limit === undefined || places === NO_LIMIT || scope.live + 1 <= places) continue
    const isNever = places < 1
    refuse({ limit: limit.name, waitMs: isNever ? Number.POSITIVE_INFINITY : CONCURRENT_WAIT_MS, held: !isNever })
  }
  for (let i = 0; i < budgetLimits.length; i++) {
    const limit = budgetLimits[i]
    const budget = scope.budgets[i]
    if (limit === undefined || budget === undefined) continue
    const most = budgetAmount(amounts, i)
    const wanted = demand[limit.unit]
    // A request that costs nothing passes, also if the budget is overdrawn.
    if (wanted === 0 || hasRoom(budget, most, wanted)) continue
    refuse({ limit: limit.name, ...budgetObstacle(limit, budget, most, wanted, now) })
  }
}

function budgetObstacle(
  { window }: BudgetLimit,
  budget: BudgetState,
  most: number,
  wanted: number,
  now: number,
): Omit<Obstacle, 'limit'> {
  if (wanted > most) return { waitMs: Number.POSITIVE_INFINITY, held: false }
  if (wanted > most - budget.spent) {
    return { waitMs: (windowEndMs(window, budget.window) ?? Number.POSITIVE_INFINITY) - now, held: false }
  }
  const missing = wanted - (most - budget.spent - budget.held)
  return { waitMs: Math.max(HELD_WAIT_MS_MIN, (HELD_WAIT_MS_MAX * missing) / budget.held), held: true }
}

/** Subtracts instead of adding: a sum of amounts may exceed 2^53 - 1 and be inexact. */
export function hasRoom(budget: BudgetState, most: number, wanted: number): boolean {
  return wanted <= most - budget.spent - budget.held
}

/** Charges the rate limits of a unit on an advanced scope. */
export function use(scope: ScopeState, amounts: readonly number[], unit: string, taken: number): void {
  for (let i = 0; i < rateLimits.length; i++) {
    const bucket = scope.rates[i]
    if (bucket !== undefined && rateLimits[i]?.unit === unit) take(bucket, rateAmount(amounts, i), taken)
  }
}

/** The `idled` counts that a reservation keeps for later corrections; undefined for rates without a limit. */
export function idledOf(scope: ScopeState, amounts: readonly number[]): readonly (number | undefined)[] {
  return scope.rates.map(({ idled }, i) => (rateAmount(amounts, i) === NO_LIMIT ? undefined : idled))
}

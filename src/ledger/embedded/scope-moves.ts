/**
 * Changes to one scope (an organisation, a key or a counter). `amounts` are those of its limits, as `amountsOf` returns
 * them.
 */

import { NO_LIMIT } from '../../core/limit-amounts.ts'
import {
  budgetLimits,
  concurrencyLimits,
  type Limit,
  limitTable,
  rateLimits,
  type UnitAmounts,
} from '../../core/limits.ts'
import { isRefusedForSpend, refusedAfter } from '../refusal-mark.ts'
import { budgetWindows, type ZonedWindows } from '../window.ts'
import { drain, take } from './rate-bucket.ts'
import { AMOUNT_MAX, at, type BudgetCrossing, type ScopeState } from './store-state.ts'

/** The index of a limit in `amounts`. */
const positionOf = (limit: Limit) => limitTable.indexOf(limit)
const RATE_POSITIONS = rateLimits.map(positionOf)
const CONCURRENCY_POSITIONS = concurrencyLimits.map(positionOf)
const BUDGET_POSITIONS = budgetLimits.map(positionOf)

/** The amount of a rate limit, by its index in `rateLimits`; `NO_LIMIT` if it is not set. */
export function rateAmount(amounts: readonly number[], rate: number): number {
  return amounts[RATE_POSITIONS[rate] ?? -1] ?? NO_LIMIT
}

/** The amount of a limit of live reservations, by its index in `concurrencyLimits`; `NO_LIMIT` if it is not set. */
export function concurrencyAmount(amounts: readonly number[], limit: number): number {
  return amounts[CONCURRENCY_POSITIONS[limit] ?? -1] ?? NO_LIMIT
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
  drainAll(scope, amounts, now)
  const windows = budgetWindows(now)
  if (scope.windows === windows) return
  for (let i = 0; i < windows.length; i++) roll(scope, i, windows[i] ?? 0)
  // The same array in all scopes of a day: the next call has nothing to compare.
  if (areEqual(windows, scope.windows)) scope.windows = windows
}

function areEqual(some: readonly number[], others: readonly number[]): boolean {
  for (let i = 0; i < some.length; i++) if (some[i] !== others[i]) return false
  return true
}

function drainAll(scope: ScopeState, amounts: readonly number[], now: number): void {
  const { rates } = scope
  for (let i = 0; i < rates.length; i++) drain(at(rates, i), rateAmount(amounts, i), now)
  scope.at = now
}

function roll(scope: ScopeState, index: number, window: number): void {
  const budget = scope.budgets[index]
  if (budget === undefined || window <= (scope.windows[index] ?? 0)) return
  scope.windows = scope.windows.with(index, window)
  budget.spent = 0
  budget.held = 0
}

/**
 * The same for a counter. If its time zone changes, the window that runs goes on until its end, and only one of a later
 * date opens: none opens twice.
 */
export function advanceCounter(
  scope: ScopeState,
  amounts: readonly number[],
  now: number,
  zoned: ZonedWindows | undefined,
): void {
  drainAll(scope, amounts, now)
  // A call about a request that counted in it, and whose account has no counters any more.
  if (zoned === undefined) return
  const { windows, ends } = zoned
  if (scope.windows === windows) return
  for (let i = 0; i < windows.length; i++) {
    const window = windowAhead(scope, i, now, windows)
    roll(scope, i, window)
    const end = ends[i] ?? 0
    if (window === windows[i] && scope.ends[i] !== end) scope.ends = scope.ends.with(i, end)
  }
  if (areEqual(windows, scope.windows)) scope.windows = windows
}

/** The windows of a counter at a time: its own, or that which the next request would open. */
export function windowAhead(scope: ScopeState, index: number, now: number, windows: readonly number[]): number {
  const [opened, window] = [scope.windows[index] ?? 0, windows[index] ?? 0]
  return window > opened && now >= (scope.ends[index] ?? 0) ? window : opened
}

/** Records what a budget has spent, which has reached a threshold. */
export function cross(scope: ScopeState, amounts: readonly number[], budget: number): void {
  const window = scope.windows[budget] ?? 0
  const spent = scope.budgets[budget]?.spent ?? 0
  const isSame = (one: BudgetCrossing) => one.budget === budget && one.window === window && !one.isRefusal
  if (scope.crossings.some((one) => isSame(one) && one.spent >= spent)) return
  const limit = amounts[BUDGET_POSITIONS[budget] ?? -1] ?? NO_LIMIT
  const crossing = { budget, window, spent, limit, isRefusal: false }
  scope.crossings = [...scope.crossings.filter((one) => !isSame(one)), crossing]
}

/**
 * Marks the budgets that refuse a request because of what is spent. Returns whether a mark has changed: the first of a
 * window is recorded as a crossing, too.
 */
export function markRefusals(
  scope: ScopeState,
  amounts: readonly number[],
  demand: UnitAmounts,
  now: number,
  windows: readonly number[],
): boolean {
  let hasChanged = false
  budgetLimits.forEach(({ unit }, i) => {
    const [budget, limit] = [scope.budgets[i], budgetAmount(amounts, i)]
    if (budget === undefined) return
    const opened = scope.windows[i] ?? 0
    const window = windowAhead(scope, i, now, windows)
    // In a window that the scope has not opened yet, nothing is spent.
    const spent = window > opened ? 0 : budget.spent
    if (!isRefusedForSpend(limit, spent, demand[unit])) return
    const refused = budget.refusedIn === window ? budget.refused : 0
    if (refused === 0) scope.crossings = [...scope.crossings, { budget: i, window, spent, limit, isRefusal: true }]
    budget.refused = refusedAfter(limit, spent, refused, demand[unit])
    budget.refusedIn = window
    hasChanged ||= budget.refused !== refused
  })
  return hasChanged
}

/** Undoes later changes of what a scope has used, holds and has spent, but for marks and crossings. */
export function undoOf(scope: ScopeState): () => void {
  const { at, live, windows, ends } = scope
  const rates = scope.rates.map((bucket) => ({ ...bucket }))
  const budgets = scope.budgets.map(({ spent, held }) => ({ spent, held }))
  return () => {
    Object.assign(scope, { at, live, windows, ends })
    for (const [i, bucket] of scope.rates.entries()) Object.assign(bucket, rates[i])
    for (const [i, budget] of scope.budgets.entries()) Object.assign(budget, budgets[i])
  }
}

/** Subtracts instead of adding: a sum of amounts may exceed 2^53 - 1 and be inexact. */
export function hasRoom(most: number, spent: number, held: number, wanted: number): boolean {
  return wanted <= most - spent - held
}

/** Charges the rate limits of a unit on an advanced scope. */
export function use(scope: ScopeState, amounts: readonly number[], unit: string, taken: number): void {
  for (let i = 0; i < rateLimits.length; i++)
    if (at(rateLimits, i).unit === unit) take(at(scope.rates, i), rateAmount(amounts, i), taken)
}

/**
 * Checks a request against the limits of all scopes of an account, and computes what is left of the rates. Changes
 * nothing: a request that is refused must leave the scopes as they were.
 */

import { NO_LIMIT } from '../../core/limit-amounts.ts'
import {
  budgetLimits,
  byUnit,
  concurrencyLimits,
  type LimitName,
  type LimitUnit,
  rateLimits,
  type UnitAmounts,
} from '../../core/limits.ts'
import type { RateStatus, RateStatuses } from '../ledger.ts'
import { type Refusal, refusalScope } from '../reservation-store.ts'
import { NEVER_MS, windowEndMs } from '../window.ts'
import { type AccountState, windowsOf } from './account-state.ts'
import { levelAt, remainingOf, statusOf, waitMs } from './rate-bucket.ts'
import type { LimitedScopes } from './reservation-moves.ts'
import { budgetAmount, concurrencyAmount, hasRoom, rateAmount, windowAhead } from './scope-moves.ts'
import { AMOUNT_MAX, at, type BudgetState, type ScopeState } from './store-state.ts'

/** The time when a running request ends is unknown; 1 s is a guess. */
const CONCURRENT_WAIT_MS = 1000
/** The same for held amounts: the wait grows with the share of them that must be released. */
const HELD_WAIT_MS_MIN = 1000
const HELD_WAIT_MS_MAX = 10_000

/**
 * The limits that have no room for one request. `found` keeps that with the longest wait; the first of equals. Reused
 * for every request: nearly all of them are granted and need none of it.
 */
class Obstacles {
  /** The place among an account's scopes of the one whose limits are being checked. */
  scope = 0
  private found: LimitName | undefined
  private foundIn = 0
  private isFoundHeld = false
  private spentOfFound: number | undefined
  private longest = 0
  private allHeld = true

  clear(): void {
    this.found = undefined
    this.longest = 0
    this.allHeld = true
  }

  /**
   * `wait`: milliseconds until the limit has room; infinite if it never will. `held`: it refuses only because of what
   * running requests hold, so each end of one may make room. `spent`: of a budget.
   */
  add(limit: LimitName, wait: number, held: boolean, spent?: number): void {
    this.allHeld &&= held
    if (wait <= this.longest) return
    this.longest = wait
    this.found = limit
    this.foundIn = this.scope
    this.isFoundHeld = held
    this.spentOfFound = spent
  }

  get refused(): Refused | undefined {
    const { found: limit, longest } = this
    if (limit === undefined) return undefined
    const wait = Number.isFinite(longest) ? Math.min(AMOUNT_MAX, Math.ceil(longest)) : undefined
    const { foundIn, isFoundHeld: held, spentOfFound: spent } = this
    return { refusal: { ...refusalScope(foundIn), limit, waitMs: wait, held, spent }, held: this.allHeld }
  }
}

const obstacles = new Obstacles()

interface Refused {
  readonly refusal: Refusal
  readonly held: boolean
}

/**
 * Of all limits that refuse a request, the one with the longest wait; the first of equals. `held` is true if every one
 * of them refuses only because of the reservations of running requests.
 */
export function firstRefusal(state: AccountState, demand: UnitAmounts, now: number): Refused | undefined {
  obstacles.clear()
  for (let i = 0; i < state.scopes.length; i++) {
    obstacles.scope = i
    const [scope, amounts] = [at(state.scopes, i), at(state.limits, i)]
    checkRates(scope, amounts, demand, now)
    checkConcurrency(scope, amounts)
    checkBudgets(scope, amounts, demand, now, windowsOf(state, i, now))
  }
  return obstacles.refused
}

function checkRates(scope: ScopeState, amounts: readonly number[], demand: UnitAmounts, now: number): void {
  for (let i = 0; i < rateLimits.length; i++) {
    const { name, unit } = at(rateLimits, i)
    const [bucket, perMinute] = [at(scope.rates, i), rateAmount(amounts, i)]
    const wait = waitMs(levelAt(bucket, perMinute, now), perMinute, demand[unit])
    if (wait === 0) continue
    // Unused tokens are returned when a request ends; the request itself stays counted.
    obstacles.add(name, wait, unit !== 'requests' && scope.live > 0 && demand[unit] <= perMinute)
  }
}

function checkConcurrency(scope: ScopeState, amounts: readonly number[]): void {
  for (let i = 0; i < concurrencyLimits.length; i++) {
    const most = concurrencyAmount(amounts, i)
    if (most === NO_LIMIT || scope.live + 1 <= most) continue
    const isNever = most < 1
    obstacles.add(at(concurrencyLimits, i).name, isNever ? Number.POSITIVE_INFINITY : CONCURRENT_WAIT_MS, !isNever)
  }
}

function checkBudgets(
  scope: ScopeState,
  amounts: readonly number[],
  demand: UnitAmounts,
  now: number,
  windows: readonly number[],
): void {
  for (let i = 0; i < scope.budgets.length; i++) {
    const limit = at(budgetLimits, i)
    const most = budgetAmount(amounts, i)
    const wanted = demand[limit.unit]
    const { spent, held } = standingOf(scope, i, windows, now)
    // A request that costs nothing passes, also if the budget is overdrawn.
    if (wanted === 0 || hasRoom(most, spent, held, wanted)) continue
    if (wanted > most) obstacles.add(limit.name, Number.POSITIVE_INFINITY, false, spent)
    else if (wanted > most - spent) {
      const end = endOf(scope, i, windowAhead(scope, i, now, windows)) ?? Number.POSITIVE_INFINITY
      obstacles.add(limit.name, Math.max(1, end - now), false, spent)
    } else {
      const missing = wanted - (most - spent - held)
      obstacles.add(limit.name, Math.max(HELD_WAIT_MS_MIN, (HELD_WAIT_MS_MAX * missing) / held), true, spent)
    }
  }
}

/** When a window of a scope ends; undefined for one that never does. */
function endOf(scope: ScopeState, budget: number, window: number): number | undefined {
  const { ends, windows } = scope
  if (ends.length === 0) return windowEndMs(budgetLimits[budget]?.window ?? 'total', window)
  return windows[budget] === window && ends[budget] !== NEVER_MS ? ends[budget] : undefined
}

/** The most of each unit that a request may take to pass all limits now. For a request that was refused. */
export function roomOf(state: AccountState, now: number): UnitAmounts {
  const { scopes, limits } = state
  return byUnit((unit) =>
    Math.min(...scopes.map((scope, i) => roomIn(scope, at(limits, i), unit, now, windowsOf(state, i, now)))),
  )
}

function roomIn(
  scope: ScopeState,
  amounts: readonly number[],
  unit: LimitUnit,
  now: number,
  windows: readonly number[],
): number {
  let room = AMOUNT_MAX
  rateLimits.forEach((limit, i) => {
    const perMinute = rateAmount(amounts, i)
    if (limit.unit !== unit || perMinute === NO_LIMIT) return
    room = Math.min(room, remainingOf(levelAt(at(scope.rates, i), perMinute, now), perMinute))
  })
  concurrencyLimits.forEach((limit, i) => {
    const most = concurrencyAmount(amounts, i)
    if (limit.unit === unit && most !== NO_LIMIT) room = Math.min(room, most - scope.live)
  })
  scope.budgets.forEach((_, i) => {
    if (budgetLimits[i]?.unit !== unit) return
    const { spent, held } = standingOf(scope, i, windows, now)
    room = Math.min(room, budgetAmount(amounts, i) - spent - held)
  })
  return Math.max(0, room)
}

/** What is spent and held of a budget; nothing in a window that the scope has not opened yet. */
function standingOf(scope: ScopeState, budget: number, windows: readonly number[], now: number): BudgetState {
  const isNew = windowAhead(scope, budget, now, windows) > (scope.windows[budget] ?? 0)
  return isNew ? NOTHING_SPENT : at(scope.budgets, budget)
}

const NOTHING_SPENT: BudgetState = { spent: 0, held: 0, refused: 0, refusedIn: 0 }

/** What is left of each rate, for the owner that has least left. */
export function rateStatuses(state: LimitedScopes, now: number): RateStatuses {
  const statuses: (RateStatus | undefined)[] = []
  for (let i = 0; i < rateLimits.length; i++) statuses.push(tighterStatus(state, i, now))
  return statuses
}

function tighterStatus({ scopes, limits }: LimitedScopes, rate: number, now: number): RateStatus | undefined {
  let tightest: RateStatus | undefined
  for (let s = 0; s < scopes.length; s++) {
    const limit = rateAmount(at(limits, s), rate)
    if (limit === NO_LIMIT) continue
    const level = levelAt(at(at(scopes, s).rates, rate), limit, now)
    if (tightest === undefined || remainingOf(level, limit) < tightest.remaining) tightest = statusOf(level, limit)
  }
  return tightest
}

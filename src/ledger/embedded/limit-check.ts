/**
 * Checks a request against the limits of an account's two scopes, and computes what is left of the rates. Changes
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
import { type Refusal, type ScopeName, scopeNames } from '../reservation-store.ts'
import { budgetWindows, windowEndMs } from '../window.ts'
import { levelAt, remainingOf, statusOf, waitMs } from './rate-bucket.ts'
import type { BothAmounts, Pair } from './reservation-moves.ts'
import { budgetAmount, concurrencyAmount, hasRoom, rateAmount } from './scope-moves.ts'
import { AMOUNT_MAX, type BudgetState, type ScopeState } from './store-state.ts'

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
  /** The scope whose limits are being checked. */
  scope: ScopeName = 'organization'
  private found: LimitName | undefined
  private foundIn: ScopeName = 'organization'
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
    const { foundIn: scope, isFoundHeld: held, spentOfFound: spent } = this
    return { refusal: { scope, limit, waitMs: wait, held, spent }, held: this.allHeld }
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
export function firstRefusal(
  scopes: Pair<ScopeState>,
  amounts: BothAmounts,
  demand: UnitAmounts,
  now: number,
): Refused | undefined {
  obstacles.clear()
  for (let i = 0; i < 2; i++) {
    obstacles.scope = scopeNames[i] ?? 'key'
    const scope = i === 0 ? scopes[0] : scopes[1]
    const ofScope = i === 0 ? amounts[0] : amounts[1]
    checkRates(scope, ofScope, demand, now)
    checkConcurrency(scope, ofScope)
    checkBudgets(scope, ofScope, demand, now)
  }
  return obstacles.refused
}

function checkRates(scope: ScopeState, amounts: readonly number[], demand: UnitAmounts, now: number): void {
  for (let i = 0; i < rateLimits.length; i++) {
    const limit = rateLimits[i]
    const bucket = scope.rates[i]
    if (limit === undefined || bucket === undefined) continue
    const { name, unit } = limit
    const perMinute = rateAmount(amounts, i)
    const wait = waitMs(levelAt(bucket, perMinute, now), perMinute, demand[unit])
    if (wait === 0) continue
    // Unused tokens are returned when a request ends; the request itself stays counted.
    obstacles.add(name, wait, unit !== 'requests' && scope.live > 0 && demand[unit] <= perMinute)
  }
}

function checkConcurrency(scope: ScopeState, amounts: readonly number[]): void {
  for (let i = 0; i < concurrencyLimits.length; i++) {
    const limit = concurrencyLimits[i]
    const most = concurrencyAmount(amounts, i)
    if (limit === undefined || most === NO_LIMIT || scope.live + 1 <= most) continue
    const isNever = most < 1
    obstacles.add(limit.name, isNever ? Number.POSITIVE_INFINITY : CONCURRENT_WAIT_MS, !isNever)
  }
}

function checkBudgets(scope: ScopeState, amounts: readonly number[], demand: UnitAmounts, now: number): void {
  const windows = budgetWindows(now)
  for (let i = 0; i < budgetLimits.length; i++) {
    const limit = budgetLimits[i]
    if (limit === undefined) continue
    const most = budgetAmount(amounts, i)
    const wanted = demand[limit.unit]
    const { spent, held } = standingOf(scope, i, windows)
    // A request that costs nothing passes, also if the budget is overdrawn.
    if (wanted === 0 || hasRoom(most, spent, held, wanted)) continue
    if (wanted > most) obstacles.add(limit.name, Number.POSITIVE_INFINITY, false, spent)
    else if (wanted > most - spent) {
      const window = Math.max(windows[i] ?? 0, scope.windows[i] ?? 0)
      obstacles.add(limit.name, (windowEndMs(limit.window, window) ?? Number.POSITIVE_INFINITY) - now, false, spent)
    } else {
      const missing = wanted - (most - spent - held)
      obstacles.add(limit.name, Math.max(HELD_WAIT_MS_MIN, (HELD_WAIT_MS_MAX * missing) / held), true, spent)
    }
  }
}

/** The most of each unit that a request may take to pass all limits now. For a request that was refused. */
export function roomOf(scopes: Pair<ScopeState>, amounts: BothAmounts, now: number): UnitAmounts {
  return byUnit((unit) => Math.min(roomIn(scopes[0], amounts[0], unit, now), roomIn(scopes[1], amounts[1], unit, now)))
}

function roomIn(scope: ScopeState, amounts: readonly number[], unit: LimitUnit, now: number): number {
  let room = AMOUNT_MAX
  rateLimits.forEach((limit, i) => {
    const bucket = scope.rates[i]
    const perMinute = rateAmount(amounts, i)
    if (limit.unit !== unit || bucket === undefined || perMinute === NO_LIMIT) return
    room = Math.min(room, remainingOf(levelAt(bucket, perMinute, now), perMinute))
  })
  concurrencyLimits.forEach((limit, i) => {
    const most = concurrencyAmount(amounts, i)
    if (limit.unit === unit && most !== NO_LIMIT) room = Math.min(room, most - scope.live)
  })
  const windows = budgetWindows(now)
  budgetLimits.forEach((limit, i) => {
    if (limit.unit !== unit) return
    const { spent, held } = standingOf(scope, i, windows)
    room = Math.min(room, budgetAmount(amounts, i) - spent - held)
  })
  return Math.max(0, room)
}

/** What is spent and held of a budget; nothing in a window that the scope has not opened yet. */
function standingOf(scope: ScopeState, budget: number, windows: readonly number[]): BudgetState {
  const isNew = (windows[budget] ?? 0) > (scope.windows[budget] ?? 0)
  return (isNew ? undefined : scope.budgets[budget]) ?? NOTHING_SPENT
}

const NOTHING_SPENT: BudgetState = { spent: 0, held: 0, refused: 0, refusedIn: 0 }

/** What is left of each rate, for the organisation or the key, whichever has less left. */
export function rateStatuses(scopes: Pair<ScopeState>, amounts: BothAmounts, now: number): RateStatuses {
  const statuses: (RateStatus | undefined)[] = []
  for (let i = 0; i < rateLimits.length; i++) statuses.push(tighterStatus(scopes, amounts, i, now))
  return statuses
}

function tighterStatus(
  scopes: Pair<ScopeState>,
  amounts: BothAmounts,
  rate: number,
  now: number,
): RateStatus | undefined {
  const limit = rateAmount(amounts[0], rate)
  const ownLimit = rateAmount(amounts[1], rate)
  const bucket = scopes[0].rates[rate]
  const ownBucket = scopes[1].rates[rate]
  if (bucket === undefined || ownBucket === undefined) return undefined
  const level = levelAt(bucket, limit, now)
  const ownLevel = levelAt(ownBucket, ownLimit, now)
  if (limit === NO_LIMIT) return ownLimit === NO_LIMIT ? undefined : statusOf(ownLevel, ownLimit)
  const isOwn = ownLimit !== NO_LIMIT && remainingOf(ownLevel, ownLimit) < remainingOf(level, limit)
  return isOwn ? statusOf(ownLevel, ownLimit) : statusOf(level, limit)
}

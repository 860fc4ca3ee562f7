/** What may happen to one scope: time passes, a request is checked against its limits, amounts move. Knows no reservation and no other scope. */

import type { Limits } from '../../core/money.ts'
import type { LimitName } from '../reservation-store.ts'
import { dayEndMs, dayOf, monthEndMs, monthOf } from '../window.ts'
import { drain, take, waitMs } from './rate-bucket.ts'
import { AMOUNT_MAX, type BudgetState, type Charged, type ScopeState } from './store-state.ts'

/** A place among the concurrent requests frees at no known time; a second is a fair guess. */
const CONCURRENT_WAIT_MS = 1000
/** So does money that running requests hold: the larger the share of it that must come free, the longer the wait. */
const HELD_WAIT_MS_MIN = 1000
const HELD_WAIT_MS_MAX = 10_000
const SPEND_LIMITS = ['day', 'month', 'total'] as const

/** What a request asks of a scope. */
export interface Demand {
  readonly tokens: number
  readonly costMicroUsd: number
}

/** The limit of each budget of a scope: day, month, total. None is the largest amount there is. */
export function budgetLimits(limits: Limits): readonly [number, number, number] {
  const spend = limits.spend
  return [spend?.day ?? AMOUNT_MAX, spend?.month ?? AMOUNT_MAX, spend?.total ?? AMOUNT_MAX]
}

/**
 * Lets time pass: the meters drain, the windows roll. If the clock went back no window returns; while it is not `trusted` no window
 * rolls.
 */
export function advance(scope: ScopeState, limits: Limits, now: number, trusted: boolean): void {
  drain(scope.requests, limits.requestsPerMinute, now)
  drain(scope.tokens, limits.tokensPerMinute, now)
  scope.at = now
  if (!trusted) return
  roll(scope.budgets[0], dayOf(now))
  roll(scope.budgets[1], monthOf(now))
}

function roll(budget: BudgetState, window: number): void {
  if (window <= budget.window) return
  budget.window = window
  budget.spent = 0
  budget.held = 0
}

/** A limit that has no room for a demand. */
interface Obstacle {
  readonly limit: LimitName
  /** How long until it has room; infinite if it never will. */
  readonly waitMs: number
  /** True if only what running requests hold stands in the way: it may come free whenever one ends. */
  readonly held: boolean
}

/** Reports every limit of an advanced scope that has no room for a demand, in the order of `limitNames`. */
export function check(
  scope: ScopeState,
  limits: Limits,
  demand: Demand,
  now: number,
  refuse: (obstacle: Obstacle) => void,
): void {
  const { requestsPerMinute, tokensPerMinute, concurrentRequests: places } = limits
  const forRequest = waitMs(scope.requests, requestsPerMinute, 1)
  if (forRequest > 0) refuse({ limit: 'requests', waitMs: forRequest, held: false })
  const forTokens = waitMs(scope.tokens, tokensPerMinute, demand.tokens)
  // Tokens that were reserved and not used come back; a request is a request.
  if (forTokens > 0) {
    const held = scope.live > 0 && demand.tokens <= (tokensPerMinute ?? 0)
    refuse({ limit: 'tokens', waitMs: forTokens, held })
  }
  if (places !== undefined && scope.live + 1 > places) {
    const isNever = places < 1
    const wait = isNever ? Number.POSITIVE_INFINITY : CONCURRENT_WAIT_MS
    refuse({ limit: 'concurrent_requests', waitMs: wait, held: !isNever })
  }
  const cost = demand.costMicroUsd
  // What costs nothing passes a budget that is overdrawn as it does one that is used up to the last micro-dollar.
  if (cost === 0) return
  const most = budgetLimits(limits)
  const [day, month, total] = scope.budgets
  const ends = [dayEndMs(day.window) - now, monthEndMs(month.window) - now, Number.POSITIVE_INFINITY]
  for (const [i, budget] of [day, month, total].entries()) {
    const limit = SPEND_LIMITS[i]
    if (limit === undefined || hasRoom(budget, most[i] ?? 0, cost)) continue
    refuse({ limit, ...spendObstacle(budget, most[i] ?? 0, cost, ends[i] ?? 0) })
  }
}

function spendObstacle(budget: BudgetState, limit: number, cost: number, renewsMs: number): Omit<Obstacle, 'limit'> {
  if (cost > limit) return { waitMs: Number.POSITIVE_INFINITY, held: false }
  // A window that is over by a clock that is not trusted ends soon.
  if (cost > limit - budget.spent) return { waitMs: Math.max(1, renewsMs), held: false }
  const missing = cost - (limit - budget.spent - budget.held)
  return { waitMs: Math.max(HELD_WAIT_MS_MIN, (HELD_WAIT_MS_MAX * missing) / budget.held), held: true }
}

/** Differences only: sums of amounts may leave the exact numbers, these cannot where it matters. */
export function hasRoom(budget: BudgetState, limit: number, costMicroUsd: number): boolean {
  return costMicroUsd <= limit - budget.spent - budget.held
}

/** Charges the meters of an advanced scope. */
export function use(scope: ScopeState, limits: Limits, requests: number, tokens: number): void {
  take(scope.requests, limits.requestsPerMinute, requests)
  take(scope.tokens, limits.tokensPerMinute, tokens)
}

/** What a reservation remembers of its charge to an advanced scope. */
export function chargedOf(scope: ScopeState, limits: Limits): Charged {
  return {
    requests: limits.requestsPerMinute === undefined ? undefined : scope.requests.idled,
    tokens: limits.tokensPerMinute === undefined ? undefined : scope.tokens.idled,
  }
}

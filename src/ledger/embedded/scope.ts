/** What may happen to one scope: time passes, a request is checked against its limits, amounts move. Knows no reservation and no other scope. */

import type { Limits } from '../../core/money.ts'
import type { LimitName } from '../book.ts'
import type { Allowance } from '../ledger.ts'
import { dayEndMs, dayOf, monthEndMs, monthOf } from '../window.ts'
import { AMOUNT_MAX, type BudgetState, type ScopeState } from './state.ts'

const MINUTE_MS = 60_000
/** A place among the concurrent requests frees at no known time; a second is a fair guess. */
const CONCURRENT_WAIT_MS = 1000

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
 * Lets time pass: the rates drain, the windows roll. Where the clock went back nothing drains and no window returns; where it is not
 * `trusted` no window rolls.
 */
export function advance(scope: ScopeState, limits: Limits, now: number, trusted: boolean): void {
  const elapsed = Math.max(0, now - scope.at)
  scope.requests = drained(scope.requests, limits.requestsPerMinute, elapsed)
  scope.tokens = drained(scope.tokens, limits.tokensPerMinute, elapsed)
  scope.at = now
  if (!trusted) return
  roll(scope.budgets[0], dayOf(now))
  roll(scope.budgets[1], monthOf(now))
}

/** What is left of a use after a time, where the limit is `perMinute`. Without a limit nothing is kept. */
function drained(used: number, perMinute: number | undefined, elapsedMs: number): number {
  return perMinute === undefined ? 0 : Math.max(0, used - (perMinute * elapsedMs) / MINUTE_MS)
}

function roll(budget: BudgetState, window: number): void {
  if (window <= budget.window) return
  budget.window = window
  budget.spent = 0
  budget.held = 0
}

/** How long until a limit has room for a demand: 0 where it has, infinite where it never will. */
export type Wait = (limit: LimitName, waitMs: number) => void

/** Reports every limit of an advanced scope that has no room for a demand, in the order of `limitNames`. */
export function check(scope: ScopeState, limits: Limits, demand: Demand, now: number, refuse: Wait): void {
  checkRate('requests', scope.requests, 1, limits.requestsPerMinute, refuse)
  checkRate('tokens', scope.tokens, demand.tokens, limits.tokensPerMinute, refuse)
  const places = limits.concurrentRequests
  if (places !== undefined && scope.live + 1 > places) {
    refuse('concurrent_requests', places < 1 ? Number.POSITIVE_INFINITY : CONCURRENT_WAIT_MS)
  }
  const cost = demand.costMicroUsd
  // What costs nothing passes a budget that is overdrawn as it does one that is used up to the last micro-dollar.
  if (cost === 0) return
  const [day, month, total] = budgetLimits(limits)
  const budgets = scope.budgets
  if (!hasRoom(budgets[0], day, cost))
    refuse('day', cost > day ? Number.POSITIVE_INFINITY : until(dayEndMs(budgets[0].window), now))
  if (!hasRoom(budgets[1], month, cost)) {
    refuse('month', cost > month ? Number.POSITIVE_INFINITY : until(monthEndMs(budgets[1].window), now))
  }
  if (!hasRoom(budgets[2], total, cost)) refuse('total', Number.POSITIVE_INFINITY)
}

/** A window that is over by a clock that is not trusted ends soon. */
function until(endMs: number, now: number): number {
  return Math.max(1, endMs - now)
}

function checkRate(name: LimitName, used: number, amount: number, perMinute: number | undefined, refuse: Wait): void {
  if (perMinute === undefined || used + amount <= perMinute) return
  refuse(name, amount > perMinute ? Number.POSITIVE_INFINITY : ((used + amount - perMinute) * MINUTE_MS) / perMinute)
}

/** Differences only: sums of amounts may leave the exact numbers, these cannot where it matters. */
export function hasRoom(budget: BudgetState, limit: number, costMicroUsd: number): boolean {
  return costMicroUsd <= limit - budget.spent - budget.held
}

/** Charges the rates of an advanced scope. A limit that is not set keeps no account. */
export function use(scope: ScopeState, limits: Limits, requests: number, tokens: number): void {
  if (limits.requestsPerMinute !== undefined) scope.requests += requests
  if (limits.tokensPerMinute !== undefined) scope.tokens += tokens
}

/**
 * Gives back to a rate what a reservation did not use, but no more than has not drained away since: what drained has been given to
 * others already, and giving it twice would let a minute exceed its limit. What it used beyond its charge (`unused` is negative then) is added.
 */
export function giveBack(
  used: number,
  unused: number,
  charged: number,
  perMinute: number | undefined,
  ageMs: number,
): number {
  if (perMinute === undefined) return used
  const undrained = Math.max(0, charged - (perMinute * ageMs) / MINUTE_MS)
  return Math.max(0, used - Math.min(unused, undrained))
}

/** What is left of a rate of an advanced scope. */
export function allowance(used: number, limit: number | undefined): Allowance | undefined {
  if (limit === undefined) return undefined
  return {
    limit,
    remaining: Math.max(0, Math.floor(limit - used)),
    resetMs: limit > 0 ? Math.min(AMOUNT_MAX, Math.ceil((used * MINUTE_MS) / limit)) : 0,
  }
}

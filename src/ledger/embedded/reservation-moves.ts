/** What may happen to one reservation and the two scopes it lies on: money and tokens move between held, spent and free. Knows no other. */

import type { Limits } from '../../core/money.ts'
import type { Account, Estimate, Hold } from '../ledger.ts'
import { type UsageFigures, usageOfLost } from '../usage-figures.ts'
import { correct } from './rate-bucket.ts'
import { budgetLimits, chargedOf, hasRoom, use } from './scope-moves.ts'
import { AMOUNT_MAX, type ReservationState, type ScopeState } from './store-state.ts'

/** The organisation's, then the key's. */
export type Pair<T> = readonly [T, T]

/** Two amounts, stopping at the largest. */
export function sum(a: number, b: number): number {
  return Math.min(AMOUNT_MAX, a + b)
}

/** A live reservation, bound to the windows that its scopes are in. */
export function newReservation(
  account: Account,
  hold: Hold,
  tokens: number,
  scopes: Pair<ScopeState>,
  now: number,
  dueMs: number,
  limits: Pair<Limits>,
): ReservationState {
  return {
    id: hold.id,
    organization: account.organization,
    state: 'live',
    dueMs,
    admittedMs: now,
    key: account.key,
    model: hold.model ?? '',
    inputTokens: hold.estimate.inputTokens,
    accountedTokens: tokens,
    heldMicroUsd: hold.estimate.costMicroUsd,
    postedInput: 0,
    postedOutput: 0,
    postedMicroUsd: 0,
    floorMicroUsd: hold.floorMicroUsd,
    windows: [windowsOf(scopes[0]), windowsOf(scopes[1])],
    charged: [chargedOf(scopes[0], limits[0]), chargedOf(scopes[1], limits[1])],
  }
}

function windowsOf({ budgets: [day, month, total] }: ScopeState): readonly number[] {
  return [day.window, month.window, total.window]
}

/** Moves money in every budget that is still in the reservation's window. */
export function move(reservation: ReservationState, scopes: Pair<ScopeState>, spent: number, held: number): void {
  if (spent === 0 && held === 0) return
  for (let i = 0; i < 2; i++) {
    const windows = reservation.windows[i]
    const budgets = scopes[i]?.budgets
    for (let j = 0; j < 3; j++) {
      const budget = budgets?.[j]
      if (budget === undefined || budget.window !== windows?.[j]) continue
      budget.spent = sum(budget.spent, spent)
      budget.held += held
    }
  }
}

/** What is in `spent` for a reservation: its progress; of a lost one, its floor at least. */
export function charged(reservation: ReservationState): number {
  const { state, postedMicroUsd, floorMicroUsd } = reservation
  return state === 'lost' ? Math.max(postedMicroUsd, floorMicroUsd) : postedMicroUsd
}

/** Lets go of what is held, and corrects what is spent to what it was. */
export function free(reservation: ReservationState, scopes: Pair<ScopeState>, costMicroUsd: number): void {
  const isLive = reservation.state === 'live'
  move(reservation, scopes, costMicroUsd - charged(reservation), isLive ? -unposted(reservation) : 0)
  if (isLive) for (const scope of scopes) scope.live -= 1
}

/** Posts progress, and holds as much as is wanted where every budget has room. False where one has not: then the hold stays as it was. */
export function growMoney(
  reservation: ReservationState,
  scopes: Pair<ScopeState>,
  limits: Pair<Limits>,
  soFar: number,
  wanted: number,
): boolean {
  const before = unposted(reservation)
  const posted = Math.max(reservation.postedMicroUsd, soFar)
  const grown = Math.max(reservation.heldMicroUsd, wanted)
  const spent = posted - reservation.postedMicroUsd
  const demand = spent + Math.max(0, grown - posted) - before
  const fits = grown === reservation.heldMicroUsd || fitsWindows(reservation, scopes, limits, demand)
  if (fits) reservation.heldMicroUsd = grown
  reservation.postedMicroUsd = posted
  move(reservation, scopes, spent, unposted(reservation) - before)
  return fits
}

/** Tokens that were really taken are charged whatever the rates say; those that are only wanted, where both scopes have room. */
export function growTokens(
  reservation: ReservationState,
  scopes: Pair<ScopeState>,
  limits: Pair<Limits>,
  soFar: Estimate,
  wantedTokens: number,
): void {
  reservation.postedInput = Math.max(reservation.postedInput, soFar.inputTokens)
  reservation.postedOutput = Math.max(reservation.postedOutput, soFar.outputTokens)
  const before = reservation.accountedTokens
  const taken = Math.max(before, sum(reservation.postedInput, reservation.postedOutput))
  const wanted = Math.max(taken, wantedTokens)
  const fits = scopes.every(
    (scope, i) => scope.tokens.used + (wanted - before) <= (limits[i]?.tokensPerMinute ?? Number.POSITIVE_INFINITY),
  )
  reservation.accountedTokens = fits ? wanted : taken
  for (const [i, scope] of scopes.entries()) use(scope, limits[i] ?? {}, 0, reservation.accountedTokens - before)
}

/** The rates learn what a request really took. */
export function correctTokens(
  reservation: ReservationState,
  scopes: Pair<ScopeState>,
  limits: Pair<Limits>,
  tokens: number,
  now: number,
): void {
  const amount = reservation.accountedTokens
  const ageMs = Math.max(0, now - reservation.admittedMs)
  for (const [i, scope] of scopes.entries()) {
    const idled = reservation.charged[i]?.tokens
    correct(scope.tokens, limits[i]?.tokensPerMinute, { amount, ageMs, idled }, tokens)
  }
}

/** A request that was not made gives its place in the minute back. */
export function returnRequest(
  reservation: ReservationState,
  scopes: Pair<ScopeState>,
  limits: Pair<Limits>,
  now: number,
): void {
  const ageMs = Math.max(0, now - reservation.admittedMs)
  for (const [i, scope] of scopes.entries()) {
    const idled = reservation.charged[i]?.requests
    correct(scope.requests, limits[i]?.requestsPerMinute, { amount: 1, ageMs, idled }, 0)
  }
}

/** What is counted for a reservation that nobody settled. */
export function lostUsage(reservation: ReservationState): UsageFigures {
  const input = Math.max(reservation.postedInput, reservation.inputTokens)
  return usageOfLost(input, reservation.postedOutput, charged(reservation))
}

/** What of a reservation is held and not yet spent. */
function unposted(reservation: ReservationState): number {
  return Math.max(0, reservation.heldMicroUsd - reservation.postedMicroUsd)
}

/** True where every budget that is still in the reservation's window has room. */
function fitsWindows(
  reservation: ReservationState,
  scopes: Pair<ScopeState>,
  limits: Pair<Limits>,
  demand: number,
): boolean {
  return scopes.every((scope, i) => {
    const most = budgetLimits(limits[i] ?? {})
    return scope.budgets.every(
      (budget, j) => budget.window !== reservation.windows[i]?.[j] || hasRoom(budget, most[j] ?? 0, demand),
    )
  })
}

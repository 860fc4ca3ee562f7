/** Changes to one reservation and the scopes of its owners: amounts move between held, spent and free. */

import { amountsOf, NO_LIMIT, reachesThreshold } from '../../core/limit-amounts.ts'
import { budgetLimits, byUnit, type LimitUnit, limitUnits, rateLimits, type UnitAmounts } from '../../core/limits.ts'
import { type Account, type Estimate, type Hold, sum, turnOf } from '../ledger.ts'
import { type UsageFigures, usageOfLost } from '../usage-figures.ts'
import { seriesOfHold } from '../usage-series.ts'
import { correct } from './rate-bucket.ts'
import { budgetAmount, cross, hasRoom, rateAmount, use } from './scope-moves.ts'
import { at, NO_COUNTERS, NOT_CHARGED, type ReservationState, type ScopeState } from './store-state.ts'

/** The scopes of the organisation, of the key, then of the counters of budgets. */
export type Scopes = readonly ScopeState[]

/** The amounts of the limits of scopes, in their order, as `amountsOf` returns them. */
export type AllAmounts = readonly (readonly number[])[]

export interface LimitedScopes {
  readonly scopes: Scopes
  readonly limits: AllAmounts
}

const BUDGET_UNITS: readonly LimitUnit[] = limitUnits.filter((unit) => budgetLimits.some((one) => one.unit === unit))

/** A live reservation in the current windows of its scopes. */
export function newReservation(
  account: Account,
  hold: Hold,
  held: UnitAmounts,
  state: LimitedScopes,
  admittedMs: number,
  dueMs: number,
): ReservationState {
  const { scopes } = state
  return {
    id: hold.id,
    organization: account.organization,
    state: 'live',
    dueMs,
    admittedMs,
    key: account.key,
    series: seriesOfHold(hold),
    inputTokens: hold.estimate.inputTokens,
    held,
    postedInput: 0,
    postedOutput: 0,
    postedMicroUsd: 0,
    floorMicroUsd: hold.floorMicroUsd,
    turn: turnOf(hold),
    counters: scopes.length === 2 ? NO_COUNTERS : scopes.slice(2).map(({ key }) => key),
    windows: scopes.map(({ windows }) => windows),
    idled: idledOf(state),
    isChanged: false,
    isStored: false,
    place: -1,
    sameSlot: undefined,
    before: undefined,
    after: undefined,
  }
}

/** The `idled` counts of scopes, for later corrections. */
function idledOf({ scopes, limits }: LimitedScopes): readonly number[] {
  const counts: number[] = []
  for (let s = 0; s < scopes.length; s++) {
    for (let i = 0; i < rateLimits.length; i++) {
      const isLimited = rateAmount(at(limits, s), i) !== NO_LIMIT
      counts.push((isLimited ? at(scopes, s).rates[i]?.idled : undefined) ?? NOT_CHARGED)
    }
  }
  return counts
}

/** A reservation as another one of its id, in the lists and orders that it is in. */
export function replaced(reservation: ReservationState, by: ReservationState): ReservationState {
  const { isChanged, isStored, place, sameSlot, before, after } = reservation
  return Object.assign(reservation, by, { isChanged, isStored, place, sameSlot, before, after })
}

/** Charges the limits of all scopes with what a new reservation holds. */
export function begin(reservation: ReservationState, state: LimitedScopes): void {
  for (const unit of limitUnits) useAll(state, unit, reservation.held[unit])
  for (const unit of BUDGET_UNITS)
    move(reservation, state, unit, posted(reservation, unit), unposted(reservation, unit))
  for (let i = 0; i < state.scopes.length; i++) at(state.scopes, i).live += 1
}

/** Charges the rates of a unit in all scopes. */
function useAll({ scopes, limits }: LimitedScopes, unit: LimitUnit, taken: number): void {
  for (let i = 0; i < scopes.length; i++) use(at(scopes, i), at(limits, i), unit, taken)
}

/**
 * Adds to `spent` and `held` of every budget of a unit whose window is still the reservation's, and records whether
 * `spent` reached a threshold.
 */
export function move(
  reservation: Pick<ReservationState, 'windows'>,
  { scopes, limits }: LimitedScopes,
  unit: LimitUnit,
  spent: number,
  held: number,
): void {
  if (spent === 0 && held === 0) return
  for (let i = 0; i < scopes.length; i++) {
    const windows = at(reservation.windows, i)
    const scope = at(scopes, i)
    for (let j = 0; j < scope.budgets.length; j++) {
      if (budgetLimits[j]?.unit !== unit || scope.windows[j] !== windows[j]) continue
      const budget = at(scope.budgets, j)
      const before = budget.spent
      budget.spent = sum(before, spent)
      budget.held += held
      if (spent > 0 && reachesThreshold(at(limits, i), j, before, budget.spent)) cross(scope, at(limits, i), j)
    }
  }
}

/** What is used of a unit so far. The request itself counts from its admission on. */
function posted(reservation: ReservationState, unit: LimitUnit): number {
  if (unit === 'micro_usd') return reservation.postedMicroUsd
  if (unit === 'tokens') return sum(reservation.postedInput, reservation.postedOutput)
  return unit === 'requests' ? 1 : 0
}

/** What is held of a unit and not yet spent. */
function unposted(reservation: ReservationState, unit: LimitUnit): number {
  return Math.max(0, reservation.held[unit] - posted(reservation, unit))
}

/** What a lost reservation is charged: its progress, and at least its floor or its input estimate. */
function lostAmount(reservation: ReservationState, unit: LimitUnit): number {
  if (unit === 'micro_usd') return Math.max(reservation.postedMicroUsd, reservation.floorMicroUsd)
  return unit === 'tokens' ? Math.max(posted(reservation, unit), reservation.inputTokens) : reservation.held[unit]
}

/** The part of `spent` that is due to a reservation. */
function charged(reservation: ReservationState, unit: LimitUnit): number {
  return reservation.state === 'lost' ? lostAmount(reservation, unit) : posted(reservation, unit)
}

/** The money in `spent` that is due to a reservation, in micro-dollars. */
export function chargedMicroUsd(reservation: ReservationState): number {
  return charged(reservation, 'micro_usd')
}

/** Releases what is held, and corrects what is spent, and what the rates were charged, to what was used. */
export function free(reservation: ReservationState, state: LimitedScopes, used: UnitAmounts, now: number): void {
  freeBudgets(reservation, state, used)
  correctRates(reservation, state, used, now)
}

function freeBudgets(reservation: ReservationState, state: LimitedScopes, used: UnitAmounts): void {
  const isLive = reservation.state === 'live'
  for (const unit of BUDGET_UNITS) {
    const held = isLive ? -unposted(reservation, unit) : 0
    move(reservation, state, unit, used[unit] - charged(reservation, unit), held)
  }
  if (!isLive) return
  for (let i = 0; i < state.scopes.length; i++) at(state.scopes, i).live -= 1
}

/** The amounts of limits that are not known: every rise of the spend is recorded. */
export const UNKNOWN_AMOUNTS = amountsOf({}, 'unknown')

/** The same for a reservation whose lease has expired: rates stay. Its account, with the limits, is not known. */
export function freeLost(reservation: ReservationState, scopes: Scopes): void {
  const used = byUnit((unit) => lostAmount(reservation, unit))
  freeBudgets(reservation, { scopes, limits: scopes.map(() => UNKNOWN_AMOUNTS) }, used)
}

/**
 * Records progress, and raises the held money and tokens to `wanted` if the limits have room. False if a budget has no
 * room. If only a token rate has no room, the result is true, but the additional tokens are not held.
 */
export function grow(reservation: ReservationState, state: LimitedScopes, soFar: Estimate, wanted: Estimate): boolean {
  const [tokensBefore, moneyBefore] = [posted(reservation, 'tokens'), reservation.postedMicroUsd]
  reservation.postedMicroUsd = Math.max(reservation.postedMicroUsd, soFar.costMicroUsd)
  reservation.postedInput = Math.max(reservation.postedInput, soFar.inputTokens)
  reservation.postedOutput = Math.max(reservation.postedOutput, soFar.outputTokens)
  const { held } = reservation
  const money = growUnit(reservation, state, 'micro_usd', held.micro_usd, wanted.costMicroUsd, moneyBefore)
  // Tokens that were used are charged even if the rates have no room for them.
  const taken = Math.max(held.tokens, posted(reservation, 'tokens'))
  const wantedTokens = sum(wanted.inputTokens, wanted.outputTokens)
  const tokens = growUnit(reservation, state, 'tokens', taken, wantedTokens, tokensBefore)
  return money === 'fits' && tokens !== 'no budget'
}

/**
 * Raises what is held of a unit to `wanted` if the limits have room, else to `taken`. `before` is what was posted
 * before the progress that the reservation has now.
 */
function growUnit(
  reservation: ReservationState,
  state: LimitedScopes,
  unit: LimitUnit,
  taken: number,
  wanted: number,
  before: number,
): 'fits' | 'no budget' | 'no rate' {
  const held = reservation.held[unit]
  const progress = posted(reservation, unit)
  const grown = Math.max(taken, wanted)
  const spent = progress - before
  const unpostedBefore = Math.max(0, held - before)
  const more = spent + Math.max(0, grown - progress) - unpostedBefore
  let outcome: 'fits' | 'no budget' | 'no rate' = 'fits'
  if (grown !== taken && !fitsBudgets(reservation, state, unit, more)) outcome = 'no budget'
  else if (grown !== taken && !fitsRates(state, unit, grown - held)) outcome = 'no rate'
  const now = outcome === 'fits' ? grown : taken
  if (now !== held) {
    reservation.held = { ...reservation.held, [unit]: now }
    useAll(state, unit, now - held)
  }
  move(reservation, state, unit, spent, unposted(reservation, unit) - unpostedBefore)
  return outcome
}

/** Whether every budget of the unit whose window is still the reservation's has room. */
function fitsBudgets(
  { windows }: ReservationState,
  { scopes, limits }: LimitedScopes,
  unit: LimitUnit,
  more: number,
): boolean {
  return scopes.every((scope, i) =>
    scope.budgets.every(
      ({ spent, held }, j) =>
        budgetLimits[j]?.unit !== unit ||
        scope.windows[j] !== windows[i]?.[j] ||
        hasRoom(budgetAmount(at(limits, i), j), spent, held, more),
    ),
  )
}

/** Whether every rate limit of the unit has room. */
function fitsRates({ scopes, limits }: LimitedScopes, unit: LimitUnit, more: number): boolean {
  return scopes.every((scope, i) =>
    scope.rates.every(({ used }, j) => {
      const perMinute = rateAmount(at(limits, i), j)
      return rateLimits[j]?.unit !== unit || perMinute < 0 || used + more <= perMinute
    }),
  )
}

/** Corrects the charges to the rates to the actual use. */
function correctRates(
  reservation: ReservationState,
  { scopes, limits }: LimitedScopes,
  used: UnitAmounts,
  now: number,
): void {
  const ageMs = Math.max(0, now - reservation.admittedMs)
  for (let j = 0; j < rateLimits.length; j++) {
    const { unit } = at(rateLimits, j)
    const amount = reservation.held[unit]
    if (amount === used[unit]) continue
    for (let i = 0; i < scopes.length; i++) {
      const idled = reservation.idled[i * rateLimits.length + j] ?? NOT_CHARGED
      correct(at(at(scopes, i).rates, j), rateAmount(at(limits, i), j), { amount, ageMs, idled }, used[unit])
    }
  }
}

/** The usage figures of a lost reservation. */
export function lostUsage(reservation: ReservationState): UsageFigures {
  const input = Math.max(reservation.postedInput, reservation.inputTokens)
  return usageOfLost(input, reservation.postedOutput, chargedMicroUsd(reservation))
}

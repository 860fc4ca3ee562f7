/**
 * What may happen to one reservation and the two scopes it lies on: amounts move between held, spent and free. Knows no
 * other.
 */

import { budgetLimits, byUnit, type LimitUnit, limitUnits, rateLimits, type UnitAmounts } from '../../core/limits.ts'
import { type Account, type Estimate, type Hold, sum } from '../ledger.ts'
import { type UsageFigures, usageOfLost } from '../usage-figures.ts'
import { correct } from './rate-bucket.ts'
import { budgetAmount, hasRoom, idledOf, rateAmount, use } from './scope-moves.ts'
import type { ReservationState, ScopeState } from './store-state.ts'

/** The organisation's, then the key's. */
export type Pair<T> = readonly [T, T]

/** The amounts of the limits of both scopes, as `amountsOf` returns them. */
export type BothAmounts = Pair<readonly number[]>

const BUDGET_UNITS: readonly LimitUnit[] = limitUnits.filter((unit) => budgetLimits.some((one) => one.unit === unit))

/** A live reservation, bound to the windows that its scopes are in. */
export function newReservation(
  account: Account,
  hold: Hold,
  held: UnitAmounts,
  scopes: Pair<ScopeState>,
  now: number,
  dueMs: number,
  amounts: BothAmounts,
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
    held,
    postedInput: 0,
    postedOutput: 0,
    postedMicroUsd: 0,
    floorMicroUsd: hold.floorMicroUsd,
    windows: [windowsOf(scopes[0]), windowsOf(scopes[1])],
    idled: [idledOf(scopes[0], amounts[0]), idledOf(scopes[1], amounts[1])],
  }
}

function windowsOf({ budgets }: ScopeState): readonly number[] {
  return budgets.map(({ window }) => window)
}

/** Takes what a new reservation holds from the limits of its scopes. */
export function begin(reservation: ReservationState, scopes: Pair<ScopeState>, amounts: BothAmounts): void {
  for (const unit of limitUnits) {
    for (let i = 0; i < 2; i++) use(at(scopes, i), at(amounts, i), unit, reservation.held[unit])
  }
  for (const unit of BUDGET_UNITS) {
    move(reservation, scopes, unit, posted(reservation, unit), unposted(reservation, unit))
  }
  for (const scope of scopes) scope.live += 1
}

/** Moves amounts of a unit in every budget that is still in the reservation's window. */
export function move(
  reservation: ReservationState,
  scopes: Pair<ScopeState>,
  unit: LimitUnit,
  spent: number,
  held: number,
): void {
  if (spent === 0 && held === 0) return
  for (let i = 0; i < 2; i++) {
    const windows = at(reservation.windows, i)
    const { budgets } = at(scopes, i)
    for (let j = 0; j < budgets.length; j++) {
      const budget = budgets[j]
      if (budget === undefined || budgetLimits[j]?.unit !== unit || budget.window !== windows[j]) continue
      budget.spent = sum(budget.spent, spent)
      budget.held += held
    }
  }
}

/**
 * What of a unit is used so far: the request itself from its admission on; of units but tokens and money nothing is
 * known before the end.
 */
function posted(reservation: ReservationState, unit: LimitUnit): number {
  if (unit === 'micro_usd') return reservation.postedMicroUsd
  if (unit === 'tokens') return sum(reservation.postedInput, reservation.postedOutput)
  return unit === 'requests' ? 1 : 0
}

/** What of a unit is held and not yet spent. */
function unposted(reservation: ReservationState, unit: LimitUnit): number {
  return Math.max(0, reservation.held[unit] - posted(reservation, unit))
}

/** What is charged for a lost one: its progress, and so much at least. */
function lostAmount(reservation: ReservationState, unit: LimitUnit): number {
  if (unit === 'micro_usd') return Math.max(reservation.postedMicroUsd, reservation.floorMicroUsd)
  return unit === 'tokens' ? Math.max(posted(reservation, unit), reservation.inputTokens) : reservation.held[unit]
}

/** What is in `spent` for a reservation. */
function charged(reservation: ReservationState, unit: LimitUnit): number {
  return reservation.state === 'lost' ? lostAmount(reservation, unit) : posted(reservation, unit)
}

/** The money that is in `spent` for a reservation. */
export function chargedMicroUsd(reservation: ReservationState): number {
  return charged(reservation, 'micro_usd')
}

/** Lets go of what is held, and corrects what is spent to what was used. */
export function free(reservation: ReservationState, scopes: Pair<ScopeState>, used: UnitAmounts): void {
  const isLive = reservation.state === 'live'
  for (const unit of BUDGET_UNITS) {
    const held = isLive ? -unposted(reservation, unit) : 0
    move(reservation, scopes, unit, used[unit] - charged(reservation, unit), held)
  }
  if (isLive) for (const scope of scopes) scope.live -= 1
}

/** The same for one whose lease ran out. */
export function freeLost(reservation: ReservationState, scopes: Pair<ScopeState>): void {
  free(
    reservation,
    scopes,
    byUnit((unit) => lostAmount(reservation, unit)),
  )
}

/**
 * Posts progress, and grows what is held of money and tokens to what is wanted if all limits have room. False if one
 * has none for the growth, save for a rate of tokens: then those that are only wanted are not held.
 */
export function grow(
  reservation: ReservationState,
  scopes: Pair<ScopeState>,
  amounts: BothAmounts,
  soFar: Estimate,
  wanted: Estimate,
): boolean {
  const postedBefore = { tokens: posted(reservation, 'tokens'), micro_usd: reservation.postedMicroUsd }
  reservation.postedMicroUsd = Math.max(reservation.postedMicroUsd, soFar.costMicroUsd)
  reservation.postedInput = Math.max(reservation.postedInput, soFar.inputTokens)
  reservation.postedOutput = Math.max(reservation.postedOutput, soFar.outputTokens)
  const { held } = reservation
  const growth = { reservation, scopes, amounts }
  const money = growUnit(growth, 'micro_usd', held.micro_usd, wanted.costMicroUsd, postedBefore.micro_usd)
  // Tokens that were really taken are charged whatever the rates have left.
  const taken = Math.max(held.tokens, posted(reservation, 'tokens'))
  const wantedTokens = sum(wanted.inputTokens, wanted.outputTokens)
  const tokens = growUnit(growth, 'tokens', taken, wantedTokens, postedBefore.tokens)
  return money === 'fits' && tokens !== 'no budget'
}

interface Growth {
  readonly reservation: ReservationState
  readonly scopes: Pair<ScopeState>
  readonly amounts: BothAmounts
}

/**
 * `taken` is held whatever the limits have left; `before` was posted before the progress that is in the reservation
 * now.
 */
function growUnit(
  { reservation, scopes, amounts }: Growth,
  unit: LimitUnit,
  taken: number,
  wanted: number,
  before: number,
): 'fits' | 'no budget' | 'no rate' {
  const [held, progress] = [reservation.held[unit], posted(reservation, unit)]
  const [grown, spent, unpostedBefore] = [Math.max(taken, wanted), progress - before, Math.max(0, held - before)]
  const more = spent + Math.max(0, grown - progress) - unpostedBefore
  let outcome: 'fits' | 'no budget' | 'no rate' = 'fits'
  if (grown !== taken && !fitsBudgets(reservation, scopes, amounts, unit, more)) outcome = 'no budget'
  else if (grown !== taken && !fitsRates(scopes, amounts, unit, grown - held)) outcome = 'no rate'
  const now = outcome === 'fits' ? grown : taken
  if (now !== held) {
    reservation.held = { ...reservation.held, [unit]: now }
    for (let i = 0; i < 2; i++) use(at(scopes, i), at(amounts, i), unit, now - held)
  }
  move(reservation, scopes, unit, spent, unposted(reservation, unit) - unpostedBefore)
  return outcome
}

/** True if every budget of the unit that is still in the reservation's window has room. */
function fitsBudgets(
  { windows }: ReservationState,
  scopes: Pair<ScopeState>,
  amounts: BothAmounts,
  unit: LimitUnit,
  more: number,
): boolean {
  return scopes.every((scope, i) =>
    scope.budgets.every(
      (budget, j) =>
        budgetLimits[j]?.unit !== unit ||
        budget.window !== windows[i]?.[j] ||
        hasRoom(budget, budgetAmount(at(amounts, i), j), more),
    ),
  )
}

/** True if every rate of the unit that is set has room. */
function fitsRates(scopes: Pair<ScopeState>, amounts: BothAmounts, unit: LimitUnit, more: number): boolean {
  return scopes.every((scope, i) =>
    scope.rates.every(({ used }, j) => {
      const perMinute = rateAmount(at(amounts, i), j)
      return rateLimits[j]?.unit !== unit || perMinute < 0 || used + more <= perMinute
    }),
  )
}

/** The rates learn what a request really took. */
export function correctRates(
  reservation: ReservationState,
  scopes: Pair<ScopeState>,
  amounts: BothAmounts,
  used: UnitAmounts,
  now: number,
): void {
  const ageMs = Math.max(0, now - reservation.admittedMs)
  for (let j = 0; j < rateLimits.length; j++) {
    const unit = rateLimits[j]?.unit
    if (unit === undefined || reservation.held[unit] === used[unit]) continue
    const amount = reservation.held[unit]
    for (let i = 0; i < 2; i++) {
      const bucket = at(scopes, i).rates[j]
      const charge = { amount, ageMs, idled: reservation.idled[i]?.[j] }
      if (bucket !== undefined) correct(bucket, rateAmount(at(amounts, i), j), charge, used[unit])
    }
  }
}

/** What is counted for a reservation that nobody settled. */
export function lostUsage(reservation: ReservationState): UsageFigures {
  const input = Math.max(reservation.postedInput, reservation.inputTokens)
  return usageOfLost(input, reservation.postedOutput, chargedMicroUsd(reservation))
}

function at<T>(pair: Pair<T>, index: number): T {
  return index === 0 ? pair[0] : pair[1]
}

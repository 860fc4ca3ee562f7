/**
 * The limits of an owner as the ledgers compare them: amounts in the order of the table, then the thresholds of spend
 * that are reported.
 */

import {
  amountOf,
  type BudgetLimit,
  budgetLimits,
  type Limits,
  limitTable,
  spendLimits,
  spentBefore,
} from './limits.ts'

/** Stands for no limit in `amountsOf` and in the Lua scripts. */
export const NO_LIMIT = -1

/** Stands for a threshold that every rise of the spend reaches. */
export const ANY_RISE = -2

/**
 * Shares of each spend limit, above 0: the ledger records when spend reaches one. `unknown`: neither they nor the
 * limits are known, and every rise of the spend is recorded.
 */
export type AlertShares = readonly number[] | 'unknown'

/**
 * The spend that reaches a share of a limit. Rounded, because 0.07 of 1,000,000 is 70,000.00000000001. Never 0, which
 * spend that has not begun would reach.
 */
export function thresholdOf(limitMicroUsd: number, share: number): number {
  return Math.max(1, Math.round(share * limitMicroUsd))
}

interface Amounts {
  readonly shares: AlertShares | undefined
  readonly amounts: readonly number[]
  /** When they change, because spend from elsewhere counts no more; infinite: never. */
  readonly untilMs: number
}

/** The results of `amountsOf`: every call of a ledger needs them, and the objects last until a reload. */
const known = new WeakMap<Limits, Amounts>()

/**
 * The amounts in the order of `limitTable`, `NO_LIMIT` if one is not set; with `shares`, then the thresholds of each
 * budget, in the order of `budgetLimits`. What counts as spent from elsewhere is taken off. The same array for the same
 * objects as long as that counts.
 */
export function amountsOf(limits: Limits, shares?: AlertShares): readonly number[] {
  const last = known.get(limits)
  const isCurrent = last !== undefined && last.shares === shares
  if (isCurrent && (last.untilMs === Number.POSITIVE_INFINITY || Date.now() < last.untilMs)) return last.amounts
  const nowMs = Date.now()
  const amounts = limitTable.map((limit) => leftOf(amountOf(limits, limit), spentBefore(limits, limit, nowMs)))
  if (shares !== undefined)
    for (const limit of budgetLimits) amounts.push(...thresholdsOf(limits, limit, shares, nowMs))
  known.set(limits, { shares, amounts, untilMs: changeMs(limits, nowMs) })
  return amounts
}

/**
 * The time from which `amountsOf` gives another array for one of these limits, in Unix milliseconds; `Infinity` unless
 * something was spent elsewhere. For those who keep what they made of the amounts.
 */
export function amountsChangeMs(all: readonly Limits[]): number {
  const nowMs = Date.now()
  return Math.min(...all.map((limits) => changeMs(limits, nowMs)))
}

function changeMs({ spend }: Limits, nowMs: number): number {
  const ends = spendLimits.map(({ property }) => spend?.before?.[property]?.untilMs ?? 0)
  return Math.min(...ends.map((endMs) => (endMs > nowMs ? endMs : Number.POSITIVE_INFINITY)))
}

function leftOf(amount: number | undefined, spent: number): number {
  return amount === undefined ? NO_LIMIT : Math.max(0, amount - spent)
}

/** As many for each budget. One that is not set, is 0 or was reached elsewhere cannot be reached. */
function thresholdsOf(limits: Limits, limit: BudgetLimit, shares: AlertShares, nowMs: number): readonly number[] {
  if (shares === 'unknown') return [ANY_RISE]
  const amount = amountOf(limits, limit) ?? 0
  const spent = spentBefore(limits, limit, nowMs)
  return shares.map((share) => {
    const threshold = thresholdOf(amount, share) - spent
    return amount > 0 && (spent === 0 || threshold > 0) ? threshold : NO_LIMIT
  })
}

/** The index of the first threshold in `amountsOf`. */
const THRESHOLDS_FROM = limitTable.length

/** Whether spend that rises reaches a threshold of `amountsOf`. `budget` is an index in `budgetLimits`. */
export function reachesThreshold(amounts: readonly number[], budget: number, before: number, after: number): boolean {
  const count = (amounts.length - THRESHOLDS_FROM) / budgetLimits.length
  const first = THRESHOLDS_FROM + budget * count
  for (let i = first; i < first + count; i++) {
    const threshold = amounts[i] ?? NO_LIMIT
    if (threshold === ANY_RISE || (before < threshold && threshold <= after)) return true
  }
  return false
}

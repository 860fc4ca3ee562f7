/** The scopes of an account with the amounts of its limits: its organisation, its key, and its budgets' counters. */

import { amountsOf } from '../../core/limit-amounts.ts'
import { type Account, type CounterAccount, counterName } from '../ledger.ts'
import { windowsIn, type ZonedWindows } from '../window.ts'
import type { Counters } from './counters.ts'
import { type AllAmounts, at, type Scopes, UNKNOWN_AMOUNTS } from './reservation-moves.ts'
import { advance, advanceCounter } from './scope-moves.ts'

/** Where the requests of an account count, and the amounts of its limits. */
export interface AccountState {
  readonly scopes: Scopes
  readonly limits: AllAmounts
  /** The counters of its budgets; undefined if it has none. */
  readonly budgets: readonly CounterAccount[] | undefined
  /** The windows of its counters. */
  readonly zoned: ZonedWindows | undefined
}

/** `pair`: the scopes of the organisation and the key. */
export function accountState(account: Account, pair: Scopes, counters: Counters, now: number): AccountState {
  const { budgets, timeZone = 'UTC' } = account
  const limits = allAmounts(account)
  if (budgets === undefined) return { scopes: pair, limits, budgets, zoned: undefined }
  const zoned = windowsIn(timeZone, now)
  const own = budgets.map((budget) => counters.open(scopeName(budget), now, zoned))
  return { scopes: [...pair, ...own], limits, budgets, zoned }
}

/**
 * The same for a call about a request that was admitted with these counters, whatever budgets the account has now. The
 * limits of a counter that the account does not have any more are not known.
 */
export function stateOfRequest(
  account: Account,
  counted: readonly string[],
  pair: Scopes,
  counters: Counters,
  now: number,
): AccountState {
  const { budgets = [], timeZone = 'UTC' } = account
  if (countsIn(account, counted)) return accountState(account, pair, counters, now)
  const zoned = account.budgets && windowsIn(timeZone, now)
  const amounts = counted.map((key) => {
    const budget = budgets.find((one) => scopeName(one) === key)
    return budget === undefined ? UNKNOWN_AMOUNTS : amountsOf(budget.limits, account.alertShares)
  })
  return {
    scopes: [...pair, ...counted.map((key) => counters.open(key, now, zoned))],
    limits: [...allAmounts({ ...account, budgets: undefined }), ...amounts],
    budgets: undefined,
    zoned,
  }
}

/** Whether the counters of an account are these. */
export function countsIn({ budgets = [] }: Account, counted: readonly string[]): boolean {
  return budgets.length === counted.length && budgets.every((one, i) => scopeName(one) === counted[i])
}

/** Advances all scopes of an account to a time. */
export function advanceAll({ scopes, limits, zoned }: AccountState, now: number): void {
  for (let i = 0; i < scopes.length; i++) {
    if (i < 2) advance(at(scopes, i), at(limits, i), now)
    else advanceCounter(at(scopes, i), at(limits, i), now, zoned)
  }
}

/** The amounts of the limits of the organisation, of the key, then of its counters. */
function allAmounts({ organizationLimits, keyLimits, alertShares, budgets }: Account): AllAmounts {
  const both = [amountsOf(organizationLimits, alertShares), amountsOf(keyLimits, alertShares)]
  return budgets === undefined ? both : [...both, ...budgets.map(({ limits }) => amountsOf(limits, alertShares))]
}

function scopeName(budget: CounterAccount): string {
  return `b${counterName(budget)}`
}

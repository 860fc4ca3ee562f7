/** The scopes of an account with the amounts of its limits: its organisation, its key, and its budgets' counters. */

import { amountsChangeMs, amountsOf } from '../../core/limit-amounts.ts'
import { type Account, type CounterAccount, counterName } from '../ledger.ts'
import { budgetWindows, windowsIn, type ZonedWindows } from '../window.ts'
import type { OrganizationState } from './organization-state.ts'
import { type AllAmounts, type LimitedScopes, UNKNOWN_AMOUNTS } from './reservation-moves.ts'
import { advance, advanceCounter } from './scope-moves.ts'
import { at } from './store-state.ts'

/** Where the requests of an account count, and the amounts of its limits. */
export interface AccountState extends LimitedScopes {
  /** The counters of its budgets; undefined if it has none. */
  readonly budgets: readonly CounterAccount[] | undefined
  /** The windows of its counters. */
  readonly zoned: ZonedWindows | undefined
}

/** What the calls about an account have in common. */
interface AccountTerms {
  /** The amounts of the limits of the organisation, of the key, then of its counters. */
  readonly limits: AllAmounts
  /** Of its counters. */
  readonly scopeNames: readonly string[]
  /** When the amounts change. */
  readonly untilMs: number
}

const known = new WeakMap<Account, AccountTerms>()

/** The same object for an account until its amounts change. */
export function termsOf(account: Account): AccountTerms {
  const found = known.get(account)
  if (found !== undefined && (found.untilMs === Number.POSITIVE_INFINITY || Date.now() < found.untilMs)) return found
  const { organizationLimits, keyLimits, alertShares, budgets = [] } = account
  const all = [organizationLimits, keyLimits, ...budgets.map(({ limits }) => limits)]
  const terms = {
    limits: all.map((limits) => amountsOf(limits, alertShares)),
    scopeNames: budgets.map(scopeName),
    untilMs: amountsChangeMs(all),
  }
  known.set(account, terms)
  return terms
}

/**
 * `counted`: the counters of the request that a call is about. It was admitted with these, whatever budgets the account
 * has now; the limits of a counter that the account does not have any more are not known.
 */
export function accountState(
  account: Account,
  organization: OrganizationState,
  now: number,
  counted?: readonly string[],
): AccountState {
  const { budgets, timeZone = 'UTC' } = account
  const { limits, scopeNames } = termsOf(account)
  const isMoved = counted !== undefined && !countsIn(account, counted)
  const pair = organization.pair(account.key, now)
  if (budgets === undefined && !isMoved) return { scopes: pair, limits, budgets, zoned: undefined }
  const zoned = budgets && windowsIn(timeZone, now)
  const own = (isMoved ? counted : scopeNames).map((name) => organization.counters.open(name, now, zoned))
  const scopes = [...pair, ...own]
  if (!isMoved) return { scopes, limits, budgets, zoned }
  const amounts = counted.map((name) => {
    const place = scopeNames.indexOf(name)
    return (place < 0 ? undefined : limits[place + 2]) ?? UNKNOWN_AMOUNTS
  })
  return { scopes, limits: [...limits.slice(0, 2), ...amounts], budgets: undefined, zoned }
}

/** Whether the counters of an account are these. */
export function countsIn(account: Account, counted: readonly string[]): boolean {
  const { scopeNames } = termsOf(account)
  return scopeNames.length === counted.length && scopeNames.every((name, i) => name === counted[i])
}

/** Advances all scopes of an account to a time. */
export function advanceAll({ scopes, limits, zoned }: AccountState, now: number): void {
  for (let i = 0; i < scopes.length; i++) {
    if (i < 2) advance(at(scopes, i), at(limits, i), now)
    else advanceCounter(at(scopes, i), at(limits, i), now, zoned)
  }
}

/** The windows that a request at this time counts in, of the scope with this place. */
export function windowsOf({ zoned }: AccountState, place: number, now: number): readonly number[] {
  return place < 2 || zoned === undefined ? budgetWindows(now) : zoned.windows
}

function scopeName(budget: CounterAccount): string {
  return `b${counterName(budget)}`
}

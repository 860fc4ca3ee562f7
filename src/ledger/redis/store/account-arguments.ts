/**
 * Accounts and their limits as the scripts receive them. A call for many requests has each account once: requests refer
 * to them by number.
 */

import { type AlertShares, amountsOf } from '../../../core/limit-amounts.ts'
import type { Limits } from '../../../core/limits.ts'
import { type Account, counterName } from '../../ledger.ts'
import { windowsIn, type ZonedWindows } from '../../window.ts'

/** By the array of `amountsOf`, which is the same for the same limits, because every call sends them. */
const limitsArguments = new WeakMap<readonly number[], string>()

/** A JSON array of `amountsOf`. */
export function limitsArgument(limits: Limits, shares: AlertShares | undefined): string {
  const amounts = amountsOf(limits, shares)
  const known = limitsArguments.get(amounts)
  if (known !== undefined) return known
  const json = JSON.stringify(amounts)
  limitsArguments.set(amounts, json)
  return json
}

const countersArguments = new WeakMap<Account, { readonly zoned: ZonedWindows; readonly json: string }>()

/** The counters of an account as `add_counters` in `store.lua` takes them, at a time; '' if it has none. */
export function countersArgument(account: Account, nowMs: number): string {
  const { budgets, timeZone = 'UTC', alertShares: shares } = account
  if (budgets === undefined) return ''
  const zoned = windowsIn(timeZone, nowMs)
  const known = countersArguments.get(account)
  if (known?.zoned === zoned) return known.json
  const counters = budgets.map((budget) => {
    const { limits, idleMs = 0, isBounded = false } = budget
    return `,[${JSON.stringify(counterName(budget))},${idleMs},${isBounded ? 1 : 0},${limitsArgument(limits, shares)}]`
  })
  const json = `[${JSON.stringify([zoned.windows, zoned.ends, zoned.starts])}${counters.join('')}]`
  countersArguments.set(account, { zoned, json })
  return json
}

export class BatchAccounts {
  private readonly accounts: Account[] = []

  /** `nowMs`: this machine's clock. */
  constructor(private readonly nowMs: number) {}

  /** The number of an account, from 1; a new account gets the next. */
  numberOf(account: Account): number {
    const known = this.accounts.indexOf(account)
    return known === -1 ? this.accounts.push(account) : known + 1
  }

  /**
   * A JSON array as the scripts receive it: for each account its key, the limits of organisation and key, and its
   * counters if it has any.
   */
  argument(): string {
    return `[${this.accounts.map((account) => accountArgument(account, this.nowMs)).join(',')}]`
  }
}

function accountArgument(account: Account, nowMs: number): string {
  const { key, organizationLimits, keyLimits, alertShares: shares } = account
  const counters = countersArgument(account, nowMs)
  const [ofOrganization, ofKey] = [limitsArgument(organizationLimits, shares), limitsArgument(keyLimits, shares)]
  return `[${JSON.stringify(key)},${ofOrganization},${ofKey}${counters === '' ? '' : `,${counters}`}]`
}

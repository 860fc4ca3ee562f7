/**
 * Accounts and their limits as the scripts receive them. A call for many requests has each account once: requests refer
 * to them by number.
 */

import { type AlertShares, amountsOf } from '../../../core/limit-amounts.ts'
import type { Limits } from '../../../core/limits.ts'
import type { Account } from '../../ledger.ts'

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

export class BatchAccounts {
  private readonly accounts: Account[] = []

  /** The number of an account, from 1; a new account gets the next. */
  numberOf(account: Account): number {
    const known = this.accounts.indexOf(account)
    return known === -1 ? this.accounts.push(account) : known + 1
  }

  /** A JSON array as the scripts receive it: for each account its key, and the limits of organisation and key. */
  argument(): string {
    return `[${this.accounts.map(accountArgument).join(',')}]`
  }
}

function accountArgument({ key, organizationLimits, keyLimits, alertShares: shares }: Account): string {
  const [ofOrganization, ofKey] = [limitsArgument(organizationLimits, shares), limitsArgument(keyLimits, shares)]
  return `[${JSON.stringify(key)},${ofOrganization},${ofKey}]`
}

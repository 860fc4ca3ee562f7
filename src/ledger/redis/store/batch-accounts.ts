/** The accounts of a call for many requests, each once: requests refer to them by number. */

import type { Account } from '../../ledger.ts'
import { limitsArgument } from './limits-argument.ts'

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

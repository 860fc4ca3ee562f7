/** What an account's limits say to a request, over both of its scopes: which of them refuses it, and what is left of them. Changes nothing. */

import type { Limits } from '../../core/money.ts'
import { tighter } from '../allowance.ts'
import type { Allowances, Refusal, ScopeName } from '../book.ts'
import type { Account } from '../ledger.ts'
import type { Pair } from './reservation.ts'
import { allowance, check, type Demand } from './scope.ts'
import { AMOUNT_MAX, type ScopeState } from './state.ts'

/** The limits of the organisation, then of the key. */
export function limitsOf(account: Account): Pair<Limits> {
  return [account.organizationLimits, account.keyLimits]
}

/** Of all limits that refuse, the one that will do so longest; the first of equals. */
export function firstRefusal(
  scopes: Pair<ScopeState>,
  limits: Pair<Limits>,
  demand: Demand,
  now: number,
): Refusal | undefined {
  let longest = 0
  let refusal: Refusal | undefined
  for (const [i, scope] of scopes.entries()) {
    const name: ScopeName = i === 0 ? 'organization' : 'key'
    check(scope, limits[i] ?? {}, demand, now, (limit, wait) => {
      if (wait <= longest) return
      longest = wait
      refusal = {
        scope: name,
        limit,
        waitMs: Number.isFinite(wait) ? Math.min(AMOUNT_MAX, Math.ceil(wait)) : undefined,
      }
    })
  }
  return refusal
}

/** What is left of the rates, of the organisation's and the key's whichever is tighter. */
export function allowances(scopes: Pair<ScopeState>, limits: Pair<Limits>): Allowances {
  const [organization, key] = scopes
  return {
    requests: tighter(
      allowance(organization.requests, limits[0].requestsPerMinute),
      allowance(key.requests, limits[1].requestsPerMinute),
    ),
    tokens: tighter(
      allowance(organization.tokens, limits[0].tokensPerMinute),
      allowance(key.tokens, limits[1].tokensPerMinute),
    ),
  }
}

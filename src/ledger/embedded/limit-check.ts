/** What an account's limits say to a request, over both of its scopes: which of them refuses it, and what is left of them. Changes nothing. */

import type { Limits } from '../../core/money.ts'
import type { Account } from '../ledger.ts'
import { tighter } from '../rate-limit-headers.ts'
import type { Allowances, Refusal, ScopeName } from '../reservation-store.ts'
import { allowance } from './rate-bucket.ts'
import type { Pair } from './reservation-moves.ts'
import { check, type Demand } from './scope-moves.ts'
import { AMOUNT_MAX, type ScopeState } from './store-state.ts'

/** The limits of the organisation, then of the key. */
export function limitsOf(account: Account): Pair<Limits> {
  return [account.organizationLimits, account.keyLimits]
}

/**
 * Of all limits that refuse, the one that will do so longest; the first of equals. `held`: all that refuses is held by running requests.
 */
export function firstRefusal(
  scopes: Pair<ScopeState>,
  limits: Pair<Limits>,
  demand: Demand,
  now: number,
): { readonly refusal: Refusal; readonly held: boolean } | undefined {
  let longest = 0
  let allHeld = true
  let refusal: Refusal | undefined
  for (const [i, scope] of scopes.entries()) {
    const name: ScopeName = i === 0 ? 'organization' : 'key'
    check(scope, limits[i] ?? {}, demand, now, ({ limit, waitMs, held }) => {
      allHeld &&= held
      if (waitMs <= longest) return
      longest = waitMs
      const wait = Number.isFinite(waitMs) ? Math.min(AMOUNT_MAX, Math.ceil(waitMs)) : undefined
      refusal = { scope: name, limit, waitMs: wait, held }
    })
  }
  return refusal && { refusal, held: allHeld }
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

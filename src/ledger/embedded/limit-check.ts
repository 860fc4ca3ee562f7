/** Checks a request against the limits of an account's two scopes, and computes what is left of the rates. */

import { rateLimits, type UnitAmounts } from '../../core/limits.ts'
import type { RateStatuses } from '../ledger.ts'
import { tighter } from '../rate-limit-headers.ts'
import { type Refusal, scopeNames } from '../reservation-store.ts'
import { statusOf } from './rate-bucket.ts'
import type { BothAmounts, Pair } from './reservation-moves.ts'
import { check, rateAmount } from './scope-moves.ts'
import { AMOUNT_MAX, type Bucket, type ScopeState } from './store-state.ts'

/**
 * Of all limits that refuse a request, the one with the longest wait; the first of equals. `held` is true if every one
 * of them refuses only because of the reservations of running requests.
 */
export function firstRefusal(
  scopes: Pair<ScopeState>,
  amounts: BothAmounts,
  demand: UnitAmounts,
  now: number,
): { readonly refusal: Refusal; readonly held: boolean } | undefined {
  let longest = 0
  let allHeld = true
  let refusal: Refusal | undefined
  for (const [i, scope] of scopes.entries()) {
    const name = scopeNames[i] ?? 'key'
    check(scope, amounts[i] ?? [], demand, now, ({ limit, waitMs, held }) => {
      allHeld &&= held
      if (waitMs <= longest) return
      longest = waitMs
      const wait = Number.isFinite(waitMs) ? Math.min(AMOUNT_MAX, Math.ceil(waitMs)) : undefined
      refusal = { scope: name, limit, waitMs: wait, held }
    })
  }
  return refusal && { refusal, held: allHeld }
}

/** What is left of each rate, for the organisation or the key, whichever has less left. */
export function rateStatuses([organization, key]: Pair<ScopeState>, amounts: BothAmounts): RateStatuses {
  return rateLimits.map((_, i) =>
    tighter(status(organization.rates[i], amounts[0], i), status(key.rates[i], amounts[1], i)),
  )
}

function status(bucket: Bucket | undefined, amounts: readonly number[], rate: number) {
  return bucket && statusOf(bucket, rateAmount(amounts, rate))
}

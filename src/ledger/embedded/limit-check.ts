/**
 * What the limits of both scopes of an account allow: which of them refuses a request, and what is left of the rates.
 * Changes nothing.
 */

import { rateLimits, type UnitAmounts } from '../../core/limits.ts'
import type { RateStatuses } from '../ledger.ts'
import { tighter } from '../rate-limit-headers.ts'
import { type Refusal, scopeNames } from '../reservation-store.ts'
import { statusOf } from './rate-bucket.ts'
import type { BothAmounts, Pair } from './reservation-moves.ts'
import { check, rateAmount } from './scope-moves.ts'
import { AMOUNT_MAX, type Bucket, type ScopeState } from './store-state.ts'

/**
 * Of all limits that refuse, the one that will do so longest; the first of equals. `held`: all that refuses is held by
 * running requests.
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

/** What is left of the rates, of the organisation's and the key's whichever is tighter. */
export function rateStatuses([organization, key]: Pair<ScopeState>, amounts: BothAmounts): RateStatuses {
  return rateLimits.map((_, i) =>
    tighter(status(organization.rates[i], amounts[0], i), status(key.rates[i], amounts[1], i)),
  )
}

function status(bucket: Bucket | undefined, amounts: readonly number[], rate: number) {
  return bucket && statusOf(bucket, rateAmount(amounts, rate))
}

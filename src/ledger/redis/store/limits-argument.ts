/** The limits of an organisation or a key as the scripts receive them. */

import { type AlertShares, amountsOf } from '../../../core/limit-amounts.ts'
import type { Limits } from '../../../core/limits.ts'

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

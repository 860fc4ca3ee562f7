/** The limits of an organisation or a key as the scripts receive them. */

import { type AlertShares, amountsOf } from '../../../core/limit-amounts.ts'
import type { Limits } from '../../../core/limits.ts'

interface Argument {
  readonly shares: AlertShares | undefined
  readonly json: string
}

/** Cached per limits object (one for each configuration), because every call sends them. */
const limitsArguments = new WeakMap<Limits, Argument>()

/** A JSON array of `amountsOf`. */
export function limitsArgument(limits: Limits, shares: AlertShares | undefined): string {
  const known = limitsArguments.get(limits)
  if (known !== undefined && known.shares === shares) return known.json
  const json = JSON.stringify(amountsOf(limits, shares))
  limitsArguments.set(limits, { shares, json })
  return json
}

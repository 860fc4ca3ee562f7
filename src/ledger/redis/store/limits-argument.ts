/** The limits of an organisation or a key as the scripts receive them. */

import { amountsOf, type Limits } from '../../../core/limits.ts'

/** Cached per limits object (one for each configuration), because every call sends them. */
const limitsArguments = new WeakMap<Limits, string>()

/** A JSON array with an amount for each row of the table of limits. */
export function limitsArgument(limits: Limits): string {
  const known = limitsArguments.get(limits)
  if (known !== undefined) return known
  const argument = JSON.stringify(amountsOf(limits))
  limitsArguments.set(limits, argument)
  return argument
}

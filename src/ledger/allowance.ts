/** What is left of a rate: which of two scopes' figures counts. */

import type { Allowance } from './ledger.ts'

/** The one with less left; of equals the first. */
export function tighter(a: Allowance | undefined, b: Allowance | undefined): Allowance | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return b.remaining < a.remaining ? b : a
}

/** Checks of spend limits beyond the schema, for keys and organisations of the configuration and for created keys. */

import { ownerSpendLimits } from '../core/limits.ts'

/** Amounts are kept in whole micro-dollars. */
const SMALLEST_USD = 0.000001

/** What is wrong with an amount of dollars: less than a micro-dollar would count as 0. Undefined if nothing is. */
export function amountProblem(dollars: number | undefined): string | undefined {
  if (dollars === undefined || dollars <= 0 || dollars >= SMALLEST_USD) return undefined
  return 'is less than a micro-dollar; it must be 0 or at least 0.000001'
}

interface SpendProblem {
  /** The amount; undefined if all of the limits are meant. */
  readonly key?: string
  readonly words: string
}

/** What is wrong with spend limits whose types are right. `limits`: those that their owner may have. */
export function spendProblems(
  spend: Readonly<Record<string, unknown>>,
  limits: readonly { readonly key: string }[] = ownerSpendLimits,
): readonly SpendProblem[] {
  // Without an amount they would limit nothing, but still exclude every model without a price.
  if (!hasAmount(spend, limits)) return [{ words: `needs at least one of ${limits.map(({ key }) => key).join(', ')}` }]
  return limits.flatMap(({ key }) => {
    const amount = spend[key]
    const words = typeof amount === 'number' ? amountProblem(amount) : undefined
    return words === undefined ? [] : [{ key, words }]
  })
}

export function hasAmount(spend: object, limits: readonly { readonly key: string }[] = ownerSpendLimits): boolean {
  return limits.some(({ key }) => Object.hasOwn(spend, key))
}

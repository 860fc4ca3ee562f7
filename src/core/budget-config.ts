/** A budget of an organisation: which requests it counts, in which of its counters, and their limits. */

import { type Limits, spendLimits } from './limits.ts'
import { matches } from './permission.ts'

/** How many budgets may apply to one request. */
export const BUDGETS_MAX = 8

export interface BudgetConfig {
  readonly name: string
  /** A counter for each value of this; absent: one counter. */
  readonly per?: 'key' | 'model' | { readonly tag: string } | undefined
  readonly match: BudgetMatch
  readonly limits: Limits
  /** The limits of the counters of single values, those of the budget included. */
  readonly except: ReadonlyMap<string, Limits>
  /** What a request gets that a limit has no room for; `cut` is also in `limits`. */
  readonly onExhausted: 'refuse' | 'cut' | 'downgrade'
  /** As in the ledger's account. */
  readonly idleMs?: number | undefined
}

/** All that are given must hold. */
interface BudgetMatch {
  /** Globs over the ids of keys. */
  readonly keys?: readonly string[] | undefined
  /** Globs over public names of models. */
  readonly models?: readonly string[] | undefined
  /** By tag: the values, of which the request has one. */
  readonly tags?: Readonly<Record<string, readonly string[]>> | undefined
}

type Matching = Pick<BudgetConfig, 'match'>

/** Whether a budget may count requests of a key. */
export function matchesKey({ match }: Matching, key: string): boolean {
  return match.keys?.some((glob) => matches(glob, key)) ?? true
}

/** Whether a budget may count requests that a model serves. */
export function matchesModel({ match }: Matching, model: string): boolean {
  return match.models?.some((glob) => matches(glob, model)) ?? true
}

/** Whether a budget counts requests with these tags. */
export function matchesTags({ match }: Matching, tags: Readonly<Record<string, string>>): boolean {
  if (match.tags === undefined) return true
  return Object.entries(match.tags).every(([name, values]) => {
    const value = Object.hasOwn(tags, name) ? tags[name] : undefined
    return value !== undefined && values.includes(value)
  })
}

/** The value whose counter counts a request with these tags; undefined if it lacks the tag of the budget. */
export function counterValue(
  { per }: Pick<BudgetConfig, 'per'>,
  key: string,
  tags: Readonly<Record<string, string>>,
  model: string,
): string | undefined {
  if (per === undefined) return ''
  if (per === 'key') return key
  if (per === 'model') return model
  return Object.hasOwn(tags, per.tag) ? tags[per.tag] : undefined
}

/** Limits with some of them replaced; the others stay. */
export function replacedLimits(limits: Limits, by: Limits): Limits {
  if (by.spend === undefined) return { ...limits, ...by, spend: limits.spend }
  const strict = limits.spend?.strict === true || by.spend.strict
  const spend = { onExhausted: 'finish' as const, ...limits.spend, strict }
  const amounts = spendLimits.flatMap(({ property }) => {
    const amount = by.spend?.[property]
    return amount === undefined ? [] : [[property, amount] as const]
  })
  return { ...limits, ...by, spend: { ...spend, ...Object.fromEntries(amounts) } }
}

/**
 * What a ledger records in the same step in which spend reaches a threshold of a limit (as a request is settled, a
 * stream extended, a reservation lost), or in which a limit first refuses a request because of what is spent. The
 * record stays until a gateway has queued the alerts, at most for a day.
 */

import { DAY_MS } from '../core/durations.ts'
import { type BudgetLimit, budgetLimits } from '../core/limits.ts'

export interface SpendCrossing {
  readonly organization: string
  /** Undefined for a limit of the organisation, and for one of a counter. */
  readonly key: string | undefined
  /** The counter whose limit it is, as `counterName`; undefined for other limits. */
  readonly counter?: string | undefined
  readonly budget: BudgetLimit['name']
  /** As in `window.ts`. */
  readonly window: number
  /** In this window, right after the step. */
  readonly spentMicroUsd: number
  /** Undefined if the step did not know it: then the spend has risen, and perhaps reached no threshold. */
  readonly limitMicroUsd: number | undefined
  /** True if the limit has refused its first request of the window, false if spend has risen. */
  readonly isRefusal: boolean
}

/** Before a budget's name in records of refusals. An earlier version of weir skips budgets that it does not know. */
const REFUSED = 'refused_'
/** Before the name in records of counters, which earlier versions do not know either. */
const OF_COUNTER = 'budget_'

/** How a record names its budget. `scope` as in the ledgers. */
export function recordName(scope: string, budget: string, isRefusal: boolean): string {
  return `${scope.startsWith('b') ? OF_COUNTER : ''}${isRefusal ? REFUSED : ''}${budget}`
}

/** Undefined if a later version of weir has written the record, about a budget that this one does not know. */
export function ofRecordName(scope: string, name: unknown): Pick<SpendCrossing, 'budget' | 'isRefusal'> | undefined {
  for (const isRefusal of [false, true]) {
    const budget = budgetLimits.find((limit) => recordName(scope, limit.name, isRefusal) === name)?.name
    if (budget !== undefined) return { budget, isRefusal }
  }
  return undefined
}

/** How long a record is kept if no gateway takes it. An alert is not delivered later either. */
export const CROSSING_KEPT_MS = DAY_MS

/** Reads records, whether or not a gateway runs. */
export interface CrossingReader {
  /** Those of some organisations that were not taken. */
  read(organizations: readonly string[]): Promise<readonly SpendCrossing[]>
  /** Their alerts are queued. A record with more spent than was read stays. */
  take(crossings: readonly SpendCrossing[]): Promise<void>
  close(): Promise<void>
}

/**
 * Whose scope has this name in the ledgers: '' is the organisation's, `k` and the id a key's, `b` and a name a
 * counter's.
 */
export function ownerOfScope(name: string): Pick<SpendCrossing, 'key' | 'counter'> {
  if (name.startsWith('b')) return { key: undefined, counter: name.slice(1) }
  return { key: name === '' ? undefined : name.slice(1) }
}

/**
 * What a ledger records in the same step in which spend reaches a threshold of a limit: as a request is settled, a
 * stream extended, a reservation lost. The record stays until a gateway has queued the alerts, at most for a day.
 */

import { DAY_MS } from '../core/durations.ts'
import type { BudgetLimit } from '../core/limits.ts'

export interface SpendCrossing {
  readonly organization: string
  /** Undefined for a limit of the organisation. */
  readonly key: string | undefined
  readonly budget: BudgetLimit['name']
  /** As in `window.ts`. */
  readonly window: number
  /** In this window, right after the step. */
  readonly spentMicroUsd: number
  /** Undefined if the step did not know it: then the spend has risen, and perhaps reached no threshold. */
  readonly limitMicroUsd: number | undefined
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

/** The id of the key whose scope has this name in the ledgers: '' is the organisation's, `k` and the id a key's. */
export function keyOfScope(name: string): string | undefined {
  return name === '' ? undefined : name.slice(1)
}

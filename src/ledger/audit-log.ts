/**
 * The audit trail as `weir audit` reads it: who asked, when, which model, how many tokens, the cost, and how it ended;
 * never content.
 */

import { HOUR_MS } from '../core/durations.ts'
import type { AuditRow } from './audit-columns.ts'

export interface AuditQuery {
  /** Unix milliseconds: requests that ended at `sinceMs` or later, and before `untilMs`. */
  readonly sinceMs: number
  readonly untilMs: number
  readonly organization?: string | undefined
  readonly key?: string | undefined
  /** One request, by the `x-request-id` of its answer. */
  readonly id?: string | undefined
}

/** Can be read while a gateway runs, and while none does. */
export interface AuditLog {
  /**
   * One row for each request that was admitted and has ended, in pages; the rows of one organisation are in the order
   * in which the requests ended. A request that was lost and then settled has one row: the settled one.
   */
  read(query: AuditQuery): AsyncIterable<readonly AuditRow[]>
  close(): Promise<void>
}

/** When a request may have ended whose id holds the time of its admission: the likeliest span first. */
export function endsOf(admittedMs: number): readonly { readonly sinceMs: number; readonly untilMs: number }[] {
  return [
    { sinceMs: admittedMs - CLOCKS_MS, untilMs: admittedMs + SHORT_MS },
    { sinceMs: admittedMs - CLOCKS_APART_MS, untilMs: admittedMs + LONGEST_MS },
  ]
}

/** The id has the gateway's clock, the end the ledger's; usually they agree. */
const CLOCKS_MS = 2000
const CLOCKS_APART_MS = 600_000
const SHORT_MS = 60_000
/** A request takes at most a day; a late settlement may follow an hour later; the disk may have been full for a day. */
const LONGEST_MS = 50 * HOUR_MS

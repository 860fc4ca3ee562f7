/** The audit trail: who asked, when, which model, how many tokens, at what cost, and how it ended. What `weir audit` reads; never what was said. */

import type { AuditRow } from './audit-columns.ts'

export interface AuditQuery {
  /** Unix milliseconds: requests that ended from the first on, and before the second. */
  readonly sinceMs: number
  readonly untilMs: number
  readonly organization?: string | undefined
  readonly key?: string | undefined
  /** One request, by the id that its answer carried. */
  readonly id?: string | undefined
}

/** Whether or not a gateway runs. */
export interface AuditLog {
  /**
   * One row a request that was admitted and has ended, in pages: of each organisation those that ended first come first. What was lost and
   * settled late is told as it was settled.
   */
  read(query: AuditQuery): AsyncIterable<readonly AuditRow[]>
  close(): Promise<void>
}

/** When a request that tells the time of its admission may have ended, the likeliest first. */
export function endsOf(admittedMs: number): readonly { readonly sinceMs: number; readonly untilMs: number }[] {
  return [
    { sinceMs: admittedMs - CLOCKS_MS, untilMs: admittedMs + SHORT_MS },
    { sinceMs: admittedMs - CLOCKS_APART_MS, untilMs: admittedMs + LONGEST_MS },
  ]
}

/** The clock of the gateway that made the id is not the one by which a ledger notes ends; usually they agree. */
const CLOCKS_MS = 2000
const CLOCKS_APART_MS = 600_000
const SHORT_MS = 60_000
/** A request takes a day at most; lost and settled late it may be known an hour later. A disk may have been full for a day. */
const LONGEST_MS = 50 * 3_600_000

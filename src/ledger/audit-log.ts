/** The audit trail: who asked, when, which model, how many tokens, at what cost, and how it ended. What `weir audit` reads; never what was said. */

import type { AuditQuery, LogRow } from './log-rows.ts'

/** Whether or not a gateway runs. */
export interface AuditLog {
  /**
   * One row a request that was admitted and has ended, in pages: of each organisation those that ended first come first. What was lost and
   * settled late is told as it was settled.
   */
  read(query: AuditQuery): AsyncIterable<readonly LogRow[]>
  close(): Promise<void>
}

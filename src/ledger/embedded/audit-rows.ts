/** The audit trail in the embedded ledger's file, page by page. Reads what `log-rows.ts` writes. */

import type { Database } from 'bun:sqlite'
import type { AuditQuery } from '../audit-log.ts'
import type { LogRow } from '../log-rows.ts'

/** Where a page of the audit trail ended. */
export type RowMark = Pick<LogRow, 'endedMs' | 'id'>

interface StoredRow extends Omit<LogRow, 'estimated'> {
  readonly estimated: number
}

/** A page, the newest last: `most` rows after the mark, or from the beginning of what is asked for. */
export function readPage(
  database: Database,
  { sinceMs, untilMs, organization, key, id }: AuditQuery,
  most: number,
  after: RowMark = { endedMs: sinceMs, id: '' },
): readonly LogRow[] {
  return database
    .query<StoredRow, [number, string, number, string | null, string | null, string | null, number]>(
      `SELECT id, organization, key, admitted_ms AS admittedMs, ended_ms AS endedMs, kind, outcome, model, provider,
         input_tokens AS inputTokens, cached_input_tokens AS cachedInputTokens, output_tokens AS outputTokens, images,
         cost_micro_usd AS costMicroUsd, overage_micro_usd AS overageMicroUsd, estimated
       FROM request WHERE batch_ended_ms >= ?1 AND (ended_ms, id) > (?1, ?2) AND ended_ms < ?3
         AND (?4 IS NULL OR organization = ?4) AND (?5 IS NULL OR key = ?5) AND (?6 IS NULL OR id = ?6)
       ORDER BY ended_ms, id LIMIT ?7`,
    )
    .all(after.endedMs, after.id, untilMs, organization ?? null, key ?? null, id ?? null, most)
    .map((row) => ({ ...row, estimated: row.estimated === 1 }))
}

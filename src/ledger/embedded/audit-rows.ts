/** The audit trail in the embedded ledger's file, page by page. Reads what `log-rows.ts` writes. */

import type { Database } from 'bun:sqlite'
import type { AuditQuery } from '../audit-log.ts'
import type { LogRow } from '../log-rows.ts'

/** Commits whose rows are read at once: some tens of rows each on a busy gateway. */
const COMMITS_A_PAGE = 100

interface StoredRow extends Omit<LogRow, 'estimated'> {
  readonly estimated: number
}

export interface RowPage {
  readonly rows: readonly LogRow[]
  /** The last commit of the page; undefined where there is none any more. */
  readonly last: number | undefined
}

/** A page, the newest last: what is asked for of the commits after one. */
export function readPage(database: Database, query: AuditQuery, after = 0): RowPage {
  const { sinceMs, untilMs, organization, key, id } = query
  const commits = database
    .query<{ number: number }, [number, number, number]>(
      'SELECT number FROM request_batch WHERE number > ? AND ended_ms >= ? ORDER BY number LIMIT ?',
    )
    .all(after, sinceMs, COMMITS_A_PAGE)
  const [first, last] = [commits[0]?.number, commits.at(-1)?.number]
  if (first === undefined || last === undefined) return { rows: [], last: undefined }
  const rows = database
    .query<StoredRow, [number, number, number, number, string | null, string | null, string | null]>(
      `SELECT id, organization, key, admitted_ms AS admittedMs, ended_ms AS endedMs, kind, outcome, model, provider,
         input_tokens AS inputTokens, cached_input_tokens AS cachedInputTokens, output_tokens AS outputTokens, images,
         cost_micro_usd AS costMicroUsd, overage_micro_usd AS overageMicroUsd, estimated
       FROM request WHERE batch BETWEEN ?1 AND ?2 AND ended_ms >= ?3 AND ended_ms < ?4
         AND (?5 IS NULL OR organization = ?5) AND (?6 IS NULL OR key = ?6) AND (?7 IS NULL OR id = ?7)
       ORDER BY batch, place`,
    )
    .all(first, last, sinceMs, untilMs, organization ?? null, key ?? null, id ?? null)
    .map((row) => ({ ...row, estimated: row.estimated === 1 }))
  return { rows, last }
}

/** Requests that were lost and then settled late, or taken back: their second row counts. */
export function readCorrected(database: Database, sinceMs: number): ReadonlySet<string> {
  const query = database.query<{ id: string }, [number]>(
    "SELECT id FROM request WHERE batch_ended_ms >= ? AND kind IN ('late', 'withdrawn')",
  )
  return new Set(query.all(sinceMs).map(({ id }) => id))
}

/** The audit trail in the embedded ledger's file, page by page. Reads what `request-writer.ts` writes. */

import type { Database } from 'bun:sqlite'
import { type AuditRow, ROW_SQL, rowOf } from '../audit-columns.ts'
import type { AuditQuery } from '../audit-log.ts'

/** Commits of one page: on a busy gateway each has some tens of rows. */
const COMMITS_A_PAGE = 100

/** A commit by the time of its last row and its number: the order in which commits are read. */
export interface Commit {
  readonly endedMs: number
  readonly number: number
}

export interface RowPage {
  readonly rows: readonly AuditRow[]
  /** The last commit of the page; undefined if there are no more. */
  readonly last: Commit | undefined
}

/** The rows that a query asks for of the next commits after one, the newest last. */
export function readPage(database: Database, query: AuditQuery, after: Commit): RowPage {
  const { sinceMs, untilMs, organization, key, id } = query
  const commits = database
    .query<Commit, [number, number, number]>(
      `SELECT ended_ms AS endedMs, number FROM request_batch WHERE (ended_ms, number) > (?, ?)
       ORDER BY ended_ms, number LIMIT ?`,
    )
    .all(after.endedMs, after.number, COMMITS_A_PAGE)
  const last = commits.at(-1)
  if (last === undefined) return { rows: [], last: undefined }
  const rows = database
    .query<Parameters<typeof rowOf>[0], [string, number, number, string | null, string | null, string | null]>(
      `SELECT ${ROW_SQL}
       FROM request WHERE batch IN (SELECT value FROM json_each(?1)) AND ended_ms >= ?2 AND ended_ms < ?3
         AND (?4 IS NULL OR organization = ?4) AND (?5 IS NULL OR key = ?5) AND (?6 IS NULL OR id = ?6)
       ORDER BY batch_ended_ms, batch, place`,
    )
    .all(
      JSON.stringify(commits.map(({ number }) => number)),
      sinceMs,
      untilMs,
      organization ?? null,
      key ?? null,
      id ?? null,
    )
    .map(rowOf)
  return { rows, last }
}

/**
 * A position before all commits with rows that ended at a time or later: the time of a commit is that of its last row.
 */
export function before(sinceMs: number): Commit {
  return { endedMs: sinceMs, number: -1 }
}

/** Requests that were lost and then settled or cancelled: their second row counts. */
export function readCorrected(database: Database, sinceMs: number): ReadonlySet<string> {
  const query = database.query<{ id: string }, [number]>(
    "SELECT id FROM request WHERE batch_ended_ms >= ? AND kind IN ('late', 'withdrawn')",
  )
  return new Set(query.all(sinceMs).map(({ id }) => id))
}

/** The audit trail in the embedded ledger's file, page by page. Reads what `request-writer.ts` writes. */

import type { Database } from 'bun:sqlite'
import { type AuditRow, ROW_SQL, rowOf } from '../audit-columns.ts'
import type { AuditQuery } from '../audit-log.ts'

/** Commits per page. On a busy gateway a commit has tens of rows. */
const COMMITS_A_PAGE = 100

/** The position of a commit in reading order: the end time of its last row, then its number. */
export interface Commit {
  readonly endedMs: number
  readonly number: number
}

export interface RowPage {
  readonly rows: readonly AuditRow[]
  /** The last commit of the page; undefined if there are no more. */
  readonly last: Commit | undefined
}

/** The rows of the next commits after a position, up to the number `most`, that match a query; oldest first. */
export function readPage(database: Database, query: AuditQuery, after: Commit, most: number): RowPage {
  const { sinceMs, untilMs, organization, key, id } = query
  const commits = database
    .query<Commit, [number, number, number, number]>(
      `SELECT ended_ms AS endedMs, number FROM request_batch WHERE (ended_ms, number) > (?, ?) AND number <= ?
       ORDER BY ended_ms, number LIMIT ?`,
    )
    .all(after.endedMs, after.number, most, COMMITS_A_PAGE)
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

/** The highest number of a commit; 0 if there is none. */
export function lastCommit(database: Database): number {
  const query = database.query<{ last: number | null }, []>('SELECT max(number) AS last FROM request_batch')
  return query.get()?.last ?? 0
}

/** Ids of requests that were lost and then settled or cancelled: only their second row counts. */
export function readCorrected(database: Database, sinceMs: number): ReadonlySet<string> {
  const query = database.query<{ id: string }, [number]>(
    "SELECT id FROM request WHERE batch_ended_ms >= ? AND kind IN ('late', 'withdrawn')",
  )
  return new Set(query.all(sinceMs).map(({ id }) => id))
}

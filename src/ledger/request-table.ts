/**
 * The tables of every ledger's log: one row for each request, in batches (who, when, which model, how many tokens, the
 * cost, how it ended; never content), and the sums of `weir usage` by day. Owns their SQL, and reads them.
 */

import type { Database } from 'bun:sqlite'
import { turn } from '../core/event-loop.ts'
import type { Schema } from '../sqlite/database.ts'
import { type AuditRow, ROW_SQL, rowOf, SQL_NAMES, VIEW_COLUMNS } from './audit-columns.ts'
import { FIGURE_DEFINITIONS, FIGURE_NAMES, FIGURES_SQL } from './usage-figures.ts'
import type { UsageQuery, UsageRow } from './usage-log.ts'

/** Batches that one query reads. */
const BATCHES_AT_ONCE = 50
/** How long batches are searched in one turn of the event loop. */
const SLICE_MS = 5

/**
 * The rows of a commit are stored together: one append each 20 ms. A table row for each request would cost 3 µs, and a
 * primary key by id one page for each. The view `request` splits them for readers.
 */
export const LOG_SQL = `
  CREATE TABLE request_batch (number INTEGER PRIMARY KEY, ended_ms INTEGER NOT NULL, rows TEXT NOT NULL);
  CREATE INDEX request_batch_ended ON request_batch (ended_ms);
  CREATE TABLE usage (
    day INTEGER NOT NULL, organization TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    ${FIGURE_DEFINITIONS.join(', ')},
    PRIMARY KEY (day, organization, key, model)
  ) WITHOUT ROWID;
`

/** Views, which a file of an earlier version may lack or have with fewer columns. */
export const LOG_VIEWS: NonNullable<Schema['views']> = {
  request: {
    columns: SQL_NAMES,
    sql: `SELECT batch.number AS batch, batch.ended_ms AS batch_ended_ms, row.key AS place, ${VIEW_COLUMNS}
      FROM request_batch AS batch, json_each(batch.rows) AS row`,
  },
}

/** The column `model` has the series: the name is from versions that summed up by model alone. */
const PLACE_NAMES = ['day', 'organization', 'key', 'model']
/** Selects a `UsageRow`. */
export const USAGE_SQL = `day, organization, key, model AS series, ${FIGURES_SQL}`

/** Adds a row of usage to a table whose columns are those of `usage`. */
export function addUsageSql(table: 'usage' | 'unrecorded'): string {
  const names = [...PLACE_NAMES, ...FIGURE_NAMES]
  return `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})
    ON CONFLICT DO UPDATE SET ${FIGURE_NAMES.map((name) => `${name} = ${name} + excluded.${name}`).join(', ')}`
}

/** The sums by day, for `weir usage`. */
export function readUsage(database: Database, query: UsageQuery): readonly UsageRow[] {
  return database
    .query<UsageRow, [number, number, string | null, string | null]>(
      `SELECT ${USAGE_SQL}
       FROM usage WHERE day >= ?1 AND day < ?2 AND (?3 IS NULL OR organization = ?3) AND (?4 IS NULL OR key = ?4)
         AND (${FIGURE_NAMES.map((name) => `${name} <> 0`).join(' OR ')})`,
    )
    .all(query.sinceDay, query.untilDay, query.organization ?? null, query.key ?? null)
}

type StoredRow = Readonly<Record<string, string | number | null>>

export interface StoredBatch {
  readonly number: number
  readonly endedMs: number
  readonly rows: string
}

/** From a time to a time. */
export type TimeSpan = readonly [fromMs: number, toMs: number]

/**
 * The last row of each request of an organisation that has one of these ids and ended within one of these spans, which
 * are in order. `batches`: where the rows of some are. Yields to the event loop while it searches.
 */
export async function findRows(
  database: Database,
  organization: string,
  ids: ReadonlySet<string>,
  batches: ReadonlyMap<string, number>,
  spans: readonly TimeSpan[],
): Promise<readonly AuditRow[]> {
  const found = new Map(batches)
  for (const span of spans) await search(database, organization, ids, span, found)
  const query = database.query<StoredRow, [number, string, string]>(
    `SELECT ${ROW_SQL} FROM request WHERE batch = ? AND id = ? AND organization = ? ORDER BY place DESC LIMIT 1`,
  )
  return [...found].flatMap(([id, number]) => query.all(number, id, organization)).map(rowOf)
}

/** Adds the last batch of each id that occurs within a span. */
async function search(
  database: Database,
  organization: string,
  ids: ReadonlySet<string>,
  [fromMs, toMs]: TimeSpan,
  found: Map<string, number>,
): Promise<void> {
  const batches = database.query<StoredBatch, [string, number, number, number, number]>(
    `SELECT number, ended_ms AS endedMs, iif(instr(rows, ?) > 0, rows, '[]') AS rows FROM request_batch
     WHERE (ended_ms, number) > (?, ?) AND ended_ms <= ? ORDER BY ended_ms, number LIMIT ?`,
  )
  let [lastMs, last, sinceMs] = [fromMs, -1, performance.now()]
  for (;;) {
    const some = batches.all(JSON.stringify(organization), lastMs, last, toMs, BATCHES_AT_ONCE)
    for (const { number, endedMs, rows } of some) {
      for (const id of idsOf(rows)) if (ids.has(id)) found.set(id, Math.max(number, found.get(id) ?? 0))
      ;[lastMs, last] = [endedMs, number]
      // A batch may have one row or thousands.
      if (performance.now() - sinceMs < SLICE_MS) continue
      await turn()
      sinceMs = performance.now()
    }
    if (some.length < BATCHES_AT_ONCE) return
  }
}

/** The ids of the requests that ended at most `ms` before the last one that did. */
export function readRecentIds(database: Database, ms: number): readonly string[] {
  return database
    .query<{ readonly rows: string }, [number]>(
      'SELECT rows FROM request_batch WHERE ended_ms >= (SELECT max(ended_ms) FROM request_batch) - ?',
    )
    .all(ms)
    .flatMap(({ rows }) => idsOf(rows))
}

function idsOf(rows: string): readonly string[] {
  const parsed: unknown = JSON.parse(rows)
  return (Array.isArray(parsed) ? parsed : []).flatMap((row) => {
    const id: unknown = Array.isArray(row) ? row[0] : undefined
    return typeof id === 'string' ? [id] : []
  })
}

/**
 * The tables that a ledger's log is kept in, whichever kind it is: one row a request in batches (who, when, which model, how many tokens, what it cost,
 * how it ended; never what was said), and the sums of `weir usage` by day. Owns their SQL.
 */

import type { Database } from 'bun:sqlite'
import { turn } from '../core/event-loop.ts'
import type { Charge, Outcome } from './ledger.ts'
import type { UsageFigures, UsagePlace, UsageQuery, UsageRow } from './usage-log.ts'
import { dayOf, firstKeptDay, foldedDay } from './window.ts'

/** How what a request cost became known: the last word on an id counts; earlier ones stay in the trail. */
export type EndKind = 'settled' | 'late' | 'direct' | 'lost' | 'cancelled' | 'withdrawn'

/** How long single requests are kept unless `audit.keep_days` says otherwise; their sums are kept for good. */
export const ROWS_KEPT_MS = 90 * 86_400_000
/** Up to 200 commits a second may come and go for ever; there are 50. */
const DROP_EVERY_MS = 500
const DROPPED_AT_ONCE = 100
/** Batches of one query, and how long they are searched in one turn of the event loop. */
const BATCHES_AT_ONCE = 50
const SLICE_MS = 5
const HOUR_MS = 3_600_000

const FIGURES = `requests, estimated_requests AS estimatedRequests, input_tokens AS inputTokens,
  cached_input_tokens AS cachedInputTokens, output_tokens AS outputTokens, images, cost_micro_usd AS costMicroUsd`

export interface RequestRow {
  readonly id: string
  readonly organization: string
  readonly key: string
  readonly admittedMs: number
  readonly endedMs: number
  readonly kind: EndKind
  /** '' where nobody settled. */
  readonly outcome: Outcome | ''
  readonly model: string
  readonly provider: string
  readonly inputTokens: number
  readonly cachedInputTokens: number
  readonly outputTokens: number
  readonly images: number
  readonly costMicroUsd: number
  /** By how much the cost passed what was held. */
  readonly overageMicroUsd: number
  readonly estimated: boolean
}

/** What a row holds, in the order of its values. */
const COLUMNS = [
  ...['id', 'organization', 'key', 'admitted_ms', 'ended_ms', 'kind', 'outcome', 'model', 'provider'],
  ...[
    'input_tokens',
    'cached_input_tokens',
    'output_tokens',
    'images',
    'cost_micro_usd',
    'overage_micro_usd',
    'estimated',
  ],
]

/**
 * Rows are kept as they are written, a commit's together: one append each 20 ms, where a table with a row a request would cost 3 µs a
 * row, and one with a key by id a page a row. The view `request` takes them apart for whoever reads.
 */
export const LOG_SQL = `
  CREATE TABLE request_batch (number INTEGER PRIMARY KEY, ended_ms INTEGER NOT NULL, rows TEXT NOT NULL);
  CREATE INDEX request_batch_ended ON request_batch (ended_ms);
  CREATE VIEW request AS
    SELECT batch.number AS batch, batch.ended_ms AS batch_ended_ms, row.key AS place,
      ${COLUMNS.map((name, i) => `row.value ->> ${i} AS ${name}`).join(', ')}
    FROM request_batch AS batch, json_each(batch.rows) AS row;
  CREATE TABLE usage (
    day INTEGER NOT NULL, organization TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, estimated_requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, images INTEGER NOT NULL, cost_micro_usd INTEGER NOT NULL,
    PRIMARY KEY (day, organization, key, model)
  ) WITHOUT ROWID;
`

/** Adds a row of usage to a table whose columns are those of `usage`. */
export function addUsageSql(table: 'usage' | 'unrecorded'): string {
  return `INSERT INTO ${table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO UPDATE SET requests = requests + excluded.requests,
      estimated_requests = estimated_requests + excluded.estimated_requests,
      input_tokens = input_tokens + excluded.input_tokens,
      cached_input_tokens = cached_input_tokens + excluded.cached_input_tokens,
      output_tokens = output_tokens + excluded.output_tokens, images = images + excluded.images,
      cost_micro_usd = cost_micro_usd + excluded.cost_micro_usd`
}

/** Rows that wait for their commit, as the text that will be written: text is cheaper to hold than objects. */
export class RowBatch {
  private text = ''
  private count = 0
  private endedMs = 0

  get size(): number {
    return this.count
  }

  add(row: RequestRow): void {
    const values = [
      ...[
        row.id,
        row.organization,
        row.key,
        row.admittedMs,
        row.endedMs,
        row.kind,
        row.outcome,
        row.model,
        row.provider,
      ],
      ...[row.inputTokens, row.cachedInputTokens, row.outputTokens, row.images],
      ...[row.costMicroUsd, row.overageMicroUsd, row.estimated ? 1 : 0],
    ]
    this.text += `${this.count === 0 ? '[' : ','}${JSON.stringify(values)}`
    this.count += 1
    this.endedMs = Math.max(this.endedMs, row.endedMs)
  }

  /** What is to be written: the JSON text of all rows, and when the last of them ended. */
  read(): { readonly rows: string; readonly endedMs: number } {
    return { rows: `${this.text}]`, endedMs: this.endedMs }
  }

  clear(): void {
    this.text = ''
    this.count = 0
    this.endedMs = 0
  }
}

/** The row of a settlement. `heldMicroUsd` is what its reservation held. */
export function settledRow(
  id: string,
  account: { readonly organization: string; readonly key: string },
  times: { readonly admittedMs: number; readonly endedMs: number },
  charge: Charge,
  kind: EndKind,
  heldMicroUsd: number,
): RequestRow {
  const { organization, key } = account
  const overageMicroUsd = Math.max(0, charge.costMicroUsd - heldMicroUsd)
  return { id, organization, key, ...times, kind, ...charge, overageMicroUsd }
}

/** Writes both tables; for use inside a transaction. */
export class LogWriter {
  private readonly putBatch
  private readonly addUsage
  private readonly dropBatches
  private readonly oldDay
  private readonly rowsOf
  private readonly dropUsage
  private droppedMs = 0
  private foldedMs = 0
  /** Days before it are folded. */
  private foldedTo = -1

  /** `keepMs`: how long single requests are kept. */
  constructor(
    database: Database,
    private readonly keepMs: number,
  ) {
    this.putBatch = database.query('INSERT INTO request_batch (ended_ms, rows) VALUES (?, ?)')
    this.addUsage = database.query(addUsageSql('usage'))
    this.oldDay = database.query<{ day: number }, [number, number]>(
      'SELECT day FROM usage WHERE day >= ? AND day < ? ORDER BY day LIMIT 1',
    )
    this.rowsOf = database.query<UsageRow, [number, number]>(
      `SELECT day, organization, key, model, ${FIGURES} FROM usage WHERE day = ? LIMIT ?`,
    )
    this.dropUsage = database.query('DELETE FROM usage WHERE day = ? AND organization = ? AND key = ? AND model = ?')
    this.dropBatches = database.query(
      'DELETE FROM request_batch WHERE number IN (SELECT number FROM request_batch WHERE ended_ms < ? ORDER BY ended_ms LIMIT ?)',
    )
  }

  batch(batch: RowBatch): void {
    if (batch.size === 0) return
    const { rows, endedMs } = batch.read()
    this.putBatch.run(endedMs, rows)
  }

  usage(place: UsagePlace, figures: UsageFigures): void {
    this.addUsage.run(
      place.day,
      place.organization,
      place.key,
      place.model,
      figures.requests,
      figures.estimatedRequests,
      figures.inputTokens,
      figures.cachedInputTokens,
      figures.outputTokens,
      figures.images,
      figures.costMicroUsd,
    )
  }

  /**
   * Folds a few rows of usage that is long past into their months, now and then. Rows stand under the first day of their month then. Gives the first
   * day that is kept by itself if it folded any.
   */
  foldOld(now: number, today = dayOf(now)): number | undefined {
    if (now - this.foldedMs < DROP_EVERY_MS) return undefined
    this.foldedMs = now
    const row = this.oldDay.get(this.foldedTo, firstKeptDay(today))
    if (row === null) {
      // All of it; look again in an hour.
      this.foldedMs = now + HOUR_MS
      this.foldedTo = -1
      return undefined
    }
    const month = foldedDay(row.day, today)
    if (month === row.day) {
      this.foldedTo = row.day + 1
      return undefined
    }
    const rows = this.rowsOf.all(row.day, DROPPED_AT_ONCE)
    for (const one of rows) {
      this.usage({ ...one, day: month }, one)
      this.dropUsage.run(one.day, one.organization, one.key, one.model)
    }
    return firstKeptDay(today)
  }

  /** Lets go of a few of the commits whose rows are kept no longer, now and then: so every commit stays short. */
  dropOld(now: number): void {
    if (now - this.droppedMs < DROP_EVERY_MS) return
    this.droppedMs = now
    this.dropBatches.run(now - this.keepMs, DROPPED_AT_ONCE)
  }
}

/** The sums by day, for `weir usage`. */
export function readUsage(database: Database, query: UsageQuery): readonly UsageRow[] {
  return database
    .query<UsageRow, [number, number, string | null, string | null]>(
      `SELECT day, organization, key, model, ${FIGURES}
       FROM usage WHERE day >= ?1 AND day < ?2 AND (?3 IS NULL OR organization = ?3) AND (?4 IS NULL OR key = ?4) AND requests <> 0`,
    )
    .all(query.sinceDay, query.untilDay, query.organization ?? null, query.key ?? null)
}

interface StoredRow extends Omit<RequestRow, 'estimated'> {
  readonly estimated: number
}

/** The audit trail: the last word on each request that ended since a time, the newest last. */
export function readRows(database: Database, sinceMs: number, most: number): readonly RequestRow[] {
  return database
    .query<StoredRow, [number, number]>(
      `SELECT ${ROW} FROM (
         SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY batch DESC, place DESC) AS age
         FROM request WHERE batch_ended_ms >= ?1 AND ended_ms >= ?1
       )
       WHERE age = 1 ORDER BY batch, place LIMIT ?2`,
    )
    .all(sinceMs, most)
    .map(rowOf)
}

const ROW = `id, organization, key, admitted_ms AS admittedMs, ended_ms AS endedMs, kind, outcome, model, provider,
  input_tokens AS inputTokens, cached_input_tokens AS cachedInputTokens, output_tokens AS outputTokens, images,
  cost_micro_usd AS costMicroUsd, overage_micro_usd AS overageMicroUsd, estimated`

function rowOf(row: StoredRow): RequestRow {
  return { ...row, estimated: row.estimated === 1 }
}

interface StoredBatch {
  readonly number: number
  readonly endedMs: number
  readonly rows: string
}

/** The last word on each request of an organisation that has one of these ids and ended between two times. Reads while other requests are served. */
export async function findRows(
  database: Database,
  organization: string,
  ids: ReadonlySet<string>,
  [fromMs, toMs]: readonly [number, number],
): Promise<readonly RequestRow[]> {
  const batches = database.query<StoredBatch, [string, number, number, number, number]>(
    `SELECT number, ended_ms AS endedMs, iif(instr(rows, ?) > 0, rows, '[]') AS rows FROM request_batch
     WHERE (ended_ms, number) > (?, ?) AND ended_ms <= ? ORDER BY ended_ms, number LIMIT ?`,
  )
  const found = new Map<string, number>()
  let [lastMs, last, sinceMs] = [fromMs, -1, performance.now()]
  for (;;) {
    const some = batches.all(JSON.stringify(organization), lastMs, last, toMs, BATCHES_AT_ONCE)
    for (const { number, endedMs, rows } of some) {
      for (const id of idsOf(rows)) if (ids.has(id)) found.set(id, Math.max(number, found.get(id) ?? 0))
      ;[lastMs, last] = [endedMs, number]
      // A batch may hold one row or thousands.
      if (performance.now() - sinceMs < SLICE_MS) continue
      await turn()
      sinceMs = performance.now()
    }
    if (some.length < BATCHES_AT_ONCE) break
  }
  const query = database.query<StoredRow, [number, string, string]>(
    `SELECT ${ROW} FROM request WHERE batch = ? AND id = ? AND organization = ? ORDER BY place DESC LIMIT 1`,
  )
  return [...found].flatMap(([id, number]) => query.all(number, id, organization)).map(rowOf)
}

function idsOf(rows: string): readonly string[] {
  const parsed: unknown = JSON.parse(rows)
  return (Array.isArray(parsed) ? parsed : []).flatMap((row) => {
    const id: unknown = Array.isArray(row) ? row[0] : undefined
    return typeof id === 'string' ? [id] : []
  })
}

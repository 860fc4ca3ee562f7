/**
 * The tables that a ledger's log is kept in, whichever kind it is: one row a request (who, when, which model, how many tokens, what it cost,
 * how it ended; never what was said), and the sums of `weir usage` by day. Owns their SQL.
 */

import type { Database } from 'bun:sqlite'
import type { Outcome, Settlement } from './ledger.ts'
import type { UsageFigures, UsagePlace, UsageQuery, UsageRow } from './usage-log.ts'

/** How what a request cost became known: the last word on an id counts. */
export type EndKind = 'settled' | 'late' | 'direct' | 'lost' | 'cancelled' | 'withdrawn'

/** How long single requests are kept; their sums by day are kept for good. */
const ROWS_KEPT_MS = 90 * 86_400_000
/** Up to 2,000 rows a second may come and go for ever. */
const DROP_EVERY_MS = 500
const DROPPED_AT_ONCE = 1000

export interface LogRow {
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

export const LOG_SQL = `
  CREATE TABLE request (
    id TEXT PRIMARY KEY, organization TEXT NOT NULL, key TEXT NOT NULL,
    admitted_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, kind TEXT NOT NULL, outcome TEXT NOT NULL,
    model TEXT NOT NULL, provider TEXT NOT NULL,
    input_tokens INTEGER NOT NULL, cached_input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL,
    images INTEGER NOT NULL, cost_micro_usd INTEGER NOT NULL, overage_micro_usd INTEGER NOT NULL, estimated INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX request_ended ON request (ended_ms);
  CREATE TABLE usage (
    day INTEGER NOT NULL, organization TEXT NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, estimated_requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, images INTEGER NOT NULL, cost_micro_usd INTEGER NOT NULL,
    PRIMARY KEY (day, organization, key, model)
  ) WITHOUT ROWID;
`

/** The row of a settlement. `heldMicroUsd` is what its reservation held. */
export function settledRow(
  id: string,
  account: { readonly organization: string; readonly key: string },
  times: { readonly admittedMs: number; readonly endedMs: number },
  settlement: Settlement,
  kind: EndKind,
  heldMicroUsd: number,
): LogRow {
  const { inputTokens, outputTokens, costMicroUsd } = settlement.amounts
  return {
    id,
    organization: account.organization,
    key: account.key,
    ...times,
    kind,
    outcome: settlement.outcome,
    model: settlement.model ?? '',
    provider: settlement.provider ?? '',
    inputTokens,
    cachedInputTokens: settlement.cachedInputTokens,
    outputTokens,
    images: settlement.images,
    costMicroUsd,
    overageMicroUsd: Math.max(0, costMicroUsd - heldMicroUsd),
    estimated: settlement.estimated,
  }
}

/** Writes both tables; for use inside a transaction. */
export class LogWriter {
  private readonly putRow
  private readonly addUsage
  private readonly dropRows
  private droppedMs = 0

  constructor(database: Database) {
    this.putRow = database.query(
      `INSERT OR REPLACE INTO request (id, organization, key, admitted_ms, ended_ms, kind, outcome, model, provider,
         input_tokens, cached_input_tokens, output_tokens, images, cost_micro_usd, overage_micro_usd, estimated)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    this.addUsage = database.query(
      `INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET requests = requests + excluded.requests,
         estimated_requests = estimated_requests + excluded.estimated_requests,
         input_tokens = input_tokens + excluded.input_tokens,
         cached_input_tokens = cached_input_tokens + excluded.cached_input_tokens,
         output_tokens = output_tokens + excluded.output_tokens, images = images + excluded.images,
         cost_micro_usd = cost_micro_usd + excluded.cost_micro_usd`,
    )
    this.dropRows = database.query(
      'DELETE FROM request WHERE id IN (SELECT id FROM request WHERE ended_ms < ? LIMIT ?)',
    )
  }

  row(row: LogRow): void {
    this.putRow.run(
      row.id,
      row.organization,
      row.key,
      row.admittedMs,
      row.endedMs,
      row.kind,
      row.outcome,
      row.model,
      row.provider,
      row.inputTokens,
      row.cachedInputTokens,
      row.outputTokens,
      row.images,
      row.costMicroUsd,
      row.overageMicroUsd,
      row.estimated ? 1 : 0,
    )
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

  /** Lets go of a few of the rows that are kept no longer, now and then: so every commit stays short. */
  dropOld(now: number): void {
    if (now - this.droppedMs < DROP_EVERY_MS) return
    this.droppedMs = now
    this.dropRows.run(now - ROWS_KEPT_MS, DROPPED_AT_ONCE)
  }
}

/** The sums by day, for `weir usage`. */
export function readUsage(database: Database, query: UsageQuery): readonly UsageRow[] {
  return database
    .query<UsageRow, [number, number, string | null, string | null]>(
      `SELECT day, organization, key, model, requests, estimated_requests AS estimatedRequests, input_tokens AS inputTokens,
         cached_input_tokens AS cachedInputTokens, output_tokens AS outputTokens, images, cost_micro_usd AS costMicroUsd
       FROM usage WHERE day >= ?1 AND day < ?2 AND (?3 IS NULL OR organization = ?3) AND (?4 IS NULL OR key = ?4) AND requests <> 0`,
    )
    .all(query.sinceDay, query.untilDay, query.organization ?? null, query.key ?? null)
}

interface StoredRow extends Omit<LogRow, 'estimated'> {
  readonly estimated: number
}

/** The audit trail: one row a request, the newest last, from one id or time on. */
export function readRows(database: Database, sinceMs: number, most: number): readonly LogRow[] {
  return database
    .query<StoredRow, [number, number]>(
      `SELECT id, organization, key, admitted_ms AS admittedMs, ended_ms AS endedMs, kind, outcome, model, provider,
         input_tokens AS inputTokens, cached_input_tokens AS cachedInputTokens, output_tokens AS outputTokens, images,
         cost_micro_usd AS costMicroUsd, overage_micro_usd AS overageMicroUsd, estimated
       FROM request WHERE ended_ms >= ? ORDER BY ended_ms LIMIT ?`,
    )
    .all(sinceMs, most)
    .map((row) => ({ ...row, estimated: row.estimated === 1 }))
}

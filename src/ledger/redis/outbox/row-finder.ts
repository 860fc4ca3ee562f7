/** Finds the rows of single requests in a node's outbox by their ids. */

import type { Database } from 'bun:sqlite'
import { HOUR_MS } from '../../../core/durations.ts'
import { requestTimeMs } from '../../../core/request-id.ts'
import { findRows, type TimeSpan } from '../../request-table.ts'
import { type Settlement, settlementOfRow } from '../protocol/settlement.ts'
import type { LogTail } from './log-tail.ts'

/**
 * Rows are searched from `CLOCKS_APART_MS` before a request's admission to `LONGEST_REQUEST_MS` after it. Those of
 * longer requests, and of requests that were admitted by a clock that is further off, are listed in `far_row`.
 */
const LONGEST_REQUEST_MS = 3_600_000
const CLOCKS_APART_MS = 5000

/** Whether the row of a request must be listed in `far_row`. */
export function isFar(admittedMs: number, endedMs: number): boolean {
  return endedMs < admittedMs - CLOCKS_APART_MS || endedMs > admittedMs + LONGEST_REQUEST_MS
}

export class RowFinder {
  private readonly far: ReturnType<typeof prepareFarRows>
  private farDroppedMs = 0

  constructor(
    private readonly database: Database,
    private readonly tail: LogTail,
  ) {
    this.far = prepareFarRows(database)
  }

  /** `admittedMs`: when each request was admitted, by id. */
  async find(organization: string, admittedMs: ReadonlyMap<string, number>): Promise<readonly Settlement[]> {
    if (admittedMs.size === 0) return []
    const known = new Map<string, number>()
    const times: number[] = []
    for (const [id, ms] of admittedMs) {
      const batch = this.far.find.get(id)?.batch
      if (batch !== undefined) known.set(id, batch)
      // A request that got no reply to its reservation counts as admitted by the clock of this machine, as its id does.
      else times.push(ms, requestTimeMs(id) ?? ms)
    }
    const ids = new Set(admittedMs.keys())
    await this.tail.read()
    const recent = this.tail.find(organization, ids)
    const spans = spansOf(times, recent?.fromMs ?? Number.POSITIVE_INFINITY)
    const rows = await findRows(this.database, organization, ids, known, spans)
    return [...rows, ...(recent?.rows ?? [])].map((row) => settlementOfRow(row))
  }

  /** `batch`: the number of the row in `request_batch` that has it. */
  addFar(id: string, batch: number): void {
    this.far.add.run(id, batch)
  }

  /** Drops those whose rows are dropped, once an hour. */
  dropFar(nowMs: number): void {
    if (Math.abs(nowMs - this.farDroppedMs) < HOUR_MS) return
    this.farDroppedMs = nowMs
    this.far.drop.run()
  }
}

/** The times before a time at which requests of these admissions may have ended, in order, none twice. */
function spansOf(times: readonly number[], untilMs: number): readonly TimeSpan[] {
  const spans: [number, number][] = []
  for (const ms of times.toSorted((a, b) => a - b)) {
    const [from, to] = [ms - CLOCKS_APART_MS, Math.min(untilMs, ms + LONGEST_REQUEST_MS + CLOCKS_APART_MS)]
    const last = spans.at(-1)
    if (from >= untilMs) break
    if (last !== undefined && from <= last[1]) last[1] = to
    else spans.push([from, to])
  }
  return spans
}

function prepareFarRows(database: Database) {
  return {
    find: database.query<{ batch: number }, [string]>('SELECT batch FROM far_row WHERE id = ?'),
    add: database.query('INSERT OR REPLACE INTO far_row (id, batch) VALUES (?, ?)'),
    drop: database.query('DELETE FROM far_row WHERE batch < (SELECT min(number) FROM request_batch)'),
  }
}

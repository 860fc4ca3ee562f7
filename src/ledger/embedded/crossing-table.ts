/** The table of spend that reached a threshold, and its rows in the journal. */

import type { Database, SQLQueryBindings, Statement } from 'bun:sqlite'
import { budgetLimits } from '../../core/limits.ts'
import { CROSSING_KEPT_MS, ofRecordName, ownerOfScope, recordName, type SpendCrossing } from '../spend-crossing.ts'
import type { ScopeState } from './store-state.ts'

type Value = string | number

/** `key` as in the table of scopes, `budget` as `recordName`. `limit_amount` is -1 if it was not known. */
export const CROSSING_NAMES: readonly string[] = [
  ...['organization', 'key', 'budget', 'at_window', 'spent', 'limit_amount', 'noted_ms'],
]

export const CROSSING_SQL = `CREATE TABLE IF NOT EXISTS crossing (
  organization TEXT NOT NULL, key TEXT NOT NULL, budget TEXT NOT NULL, at_window INTEGER NOT NULL,
  spent INTEGER NOT NULL, limit_amount INTEGER NOT NULL, noted_ms INTEGER NOT NULL,
  PRIMARY KEY (organization, key, budget, at_window)
) WITHOUT ROWID;`

/** The rows of a scope's crossings, by the names of the columns. */
export function crossingValues({ organization, key, crossings }: ScopeState, nowMs: number): readonly Value[][] {
  return crossings.map(({ budget, window, spent, limit, isRefusal }) => {
    const name = recordName(key, budgetLimits[budget]?.name ?? '', isRefusal)
    return [organization, key, name, window, spent, limit, nowMs]
  })
}

/** Writes the table; for use inside a transaction. */
export class CrossingWriter {
  private readonly put: Statement<unknown, SQLQueryBindings[]>
  private readonly dropBefore

  constructor(database: Database) {
    this.put = database.query<unknown, SQLQueryBindings[]>(
      `INSERT INTO crossing (${CROSSING_NAMES.join(', ')}) VALUES (${CROSSING_NAMES.map(() => '?').join(', ')})
       ON CONFLICT DO UPDATE
       SET spent = excluded.spent, limit_amount = excluded.limit_amount, noted_ms = excluded.noted_ms
       WHERE excluded.spent > spent`,
    )
    this.dropBefore = database.query('DELETE FROM crossing WHERE noted_ms < ?')
  }

  add(values: readonly Value[]): void {
    this.put.run(...values)
  }

  dropOld(nowMs: number): void {
    this.dropBefore.run(nowMs - CROSSING_KEPT_MS)
  }
}

/** A row of the table, or of the journal; undefined if a later version of weir has written it about another budget. */
export function crossingOf(row: Readonly<Record<string, Value>>): SpendCrossing | undefined {
  const scope = String(row['key'] ?? '')
  const named = ofRecordName(scope, row['budget'])
  if (named === undefined) return undefined
  const limit = Number(row['limit_amount'] ?? -1)
  return {
    organization: String(row['organization'] ?? ''),
    ...ownerOfScope(scope),
    ...named,
    window: Number(row['at_window'] ?? 0),
    spentMicroUsd: Number(row['spent'] ?? 0),
    limitMicroUsd: limit < 0 ? undefined : limit,
  }
}

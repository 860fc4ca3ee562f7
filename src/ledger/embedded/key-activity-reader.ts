/** Reads the activity of keys from the files of an embedded ledger. A gateway may have them open. */

import type { Database } from 'bun:sqlite'
import { budgetLimits } from '../../core/limits.ts'
import type { KeyActivity } from '../../keys/key-list.ts'
import { activityOf, type KeyActivityReader } from '../key-activity.ts'
import { SqliteReader } from './sqlite-readers.ts'
import { type Row, scopeOf } from './state-tables.ts'

/** The scope of a key has this in front of its id; that of the organisation has none. */
const KEY_PREFIX = 'k'

const DAY = budgetLimits.findIndex(({ window }) => window === 'day')

export class EmbeddedKeyActivityReader extends SqliteReader implements KeyActivityReader {
  async read(organization: string, keys: readonly string[]): Promise<ReadonlyMap<string, KeyActivity>> {
    const wanted = new Set(keys)
    const found = new Map<string, KeyActivity>()
    const nowMs = Date.now()
    const add = (row: Row) => {
      const { key, at, windows, budgets } = scopeOf(row)
      const id = key.slice(KEY_PREFIX.length)
      if (!key.startsWith(KEY_PREFIX) || !wanted.has(id)) return
      const [window, budget] = [windows[DAY] ?? 0, budgets[DAY] ?? { spent: 0, held: 0 }]
      found.set(id, activityOf({ usedMs: at, window, ...budget }, nowMs))
    }
    this.from((database, tail) => {
      for (const row of scopesOf(database, organization)) add(row)
      // The later states of a scope come later.
      for (const { scopes } of tail) for (const row of scopes) if (row['organization'] === organization) add(row)
    })
    return found
  }
}

function scopesOf(database: Database, organization: string): Iterable<Row> {
  return database.query<Row, [string]>('SELECT * FROM scope WHERE organization = ?').iterate(organization)
}

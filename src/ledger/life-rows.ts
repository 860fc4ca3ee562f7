/**
 * What an outbox knows of each organisation's life in Redis, and what it has to give back to a new one: the usage that it holds, less the
 * settlements that are still to be sent one by one. Owns the SQL of both.
 */

import type { Database } from 'bun:sqlite'
import { usageRowOf } from './entry.ts'
import { addUsage, minusUsage, noUsage, type UsageRow } from './usage-log.ts'

export const LIFE_SQL = `
  CREATE TABLE node (id TEXT NOT NULL);
  CREATE TABLE life (organization TEXT PRIMARY KEY, life INTEGER NOT NULL, complete INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE given_back (
    organization TEXT NOT NULL, number INTEGER NOT NULL, day INTEGER NOT NULL, key TEXT NOT NULL, model TEXT NOT NULL,
    requests INTEGER NOT NULL, estimated_requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL,
    cached_input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, images INTEGER NOT NULL, cost_micro_usd INTEGER NOT NULL,
    PRIMARY KEY (organization, number)
  ) WITHOUT ROWID;
`

const FIGURES = `requests, estimated_requests AS estimatedRequests, input_tokens AS inputTokens,
  cached_input_tokens AS cachedInputTokens, output_tokens AS outputTokens, images, cost_micro_usd AS costMicroUsd`

/** An organisation's life as this node knows it. */
export interface KnownLife {
  readonly organization: string
  readonly life: number
  /** False where not all was given back to it yet. */
  readonly complete: boolean
}

export class LifeRows {
  /** This log's own id: under it Redis keeps how much of the log was given back. */
  readonly node: string

  constructor(private readonly database: Database) {
    database.query('INSERT INTO node SELECT ? WHERE NOT EXISTS (SELECT 1 FROM node)').run(crypto.randomUUID())
    this.node = database.query<{ id: string }, []>('SELECT id FROM node').get()?.id ?? ''
  }

  all(): readonly KnownLife[] {
    return this.database
      .query<{ organization: string; life: number; complete: number }, []>('SELECT * FROM life')
      .all()
      .map((row) => ({ ...row, complete: row.complete === 1 }))
  }

  of(organization: string): number | undefined {
    const query = this.database.query<{ life: number }, [string]>('SELECT life FROM life WHERE organization = ?')
    return query.get(organization)?.life
  }

  /** Tells whether a life is its organisation's, or the first that is known. Asked within one transaction, it looks once an organisation. */
  look(): (organization: string, life: number) => boolean {
    const seen = new Map<string, number | undefined>()
    return (organization, life) => {
      if (!seen.has(organization)) {
        this.database.query('INSERT OR IGNORE INTO life VALUES (?, ?, 1)').run(organization, life)
        seen.set(organization, this.of(organization))
      }
      return seen.get(organization) === life
    }
  }

  /**
   * Enters a life, and settles once for all what is to be given back to it: all usage but that of settlements that are to be sent. What was
   * taken in an earlier life is never sent again. The rows in their order; those of an earlier call where the life is entered already. Inside a
   * transaction.
   */
  enter(organization: string, life: number): readonly UsageRow[] {
    if (this.of(organization) !== life) {
      const rows = this.held(organization)
      this.database.query('DELETE FROM given_back WHERE organization = ?').run(organization)
      const put = this.database.query('INSERT INTO given_back VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
      for (const [i, row] of rows.entries()) {
        const figures = [row.requests, row.estimatedRequests, row.inputTokens, row.cachedInputTokens, row.outputTokens]
        put.run(organization, i + 1, row.day, row.key, row.model, ...figures, row.images, row.costMicroUsd)
      }
      const ours = "json_extract(entry, '$.account.organization') = ?"
      this.database.query(`UPDATE outbox SET state = 3 WHERE state IN (1, 2) AND ${ours}`).run(organization)
      // In this life none of them was sent yet: there is no doubt about any.
      this.database.query(`UPDATE outbox SET sent_ms = NULL WHERE state = 0 AND ${ours}`).run(organization)
      const isNothing = rows.length === 0 ? 1 : 0
      this.database.query('INSERT OR REPLACE INTO life VALUES (?, ?, ?)').run(organization, life, isNothing)
    }
    const query = this.database.query<UsageRow, [string]>(
      `SELECT organization, day, key, model, ${FIGURES} FROM given_back WHERE organization = ? ORDER BY number`,
    )
    return query.all(organization)
  }

  /** All was given back. */
  completed(organization: string, life: number): void {
    this.database.query('UPDATE life SET complete = 1 WHERE organization = ? AND life = ?').run(organization, life)
  }

  private held(organization: string): readonly UsageRow[] {
    const rows = new Map<string, UsageRow>()
    const add = (row: UsageRow) => {
      const place = `${row.day}\0${row.key}\0${row.model}`
      rows.set(place, { ...row, ...addUsage(rows.get(place) ?? noUsage, row) })
    }
    const all = this.database.query<UsageRow, [string]>(
      `SELECT organization, day, key, model, ${FIGURES} FROM usage WHERE organization = ?`,
    )
    for (const row of all.all(organization)) add(row)
    const pending = this.database.query<{ entry: string }, [string]>(
      "SELECT entry FROM outbox WHERE state = 0 AND json_extract(entry, '$.account.organization') = ?",
    )
    for (const { entry } of pending.all(organization)) {
      const usage = usageRowOf(JSON.parse(entry))
      if (usage !== undefined) add({ ...usage, ...minusUsage(usage) })
    }
    return [...rows.values()].filter(({ requests, costMicroUsd }) => requests !== 0 || costMicroUsd !== 0)
  }
}

/**
 * The queue of alerts on disk, and which alerts were already reported. A commit survives `kill -9` of the process;
 * after a crash of the machine the last ones may be missing.
 */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { openDatabase, type Schema } from '../sqlite/database.ts'
import type { Alert } from './alert.ts'

const ALERTS_FILE = 'alerts.sqlite'
/** About 4 MB. */
const QUEUE_MAX = 10_000

const CLAIM_COLUMNS = ["organization TEXT NOT NULL DEFAULT ''", 'token TEXT']
/** Claims that are read at once. */
const CLAIMS_A_PAGE = 500

const SCHEMA: Schema = {
  version: 1,
  // `token`: what this node claims the alert with; null if it need not be claimed, or was. `reported` has the ids
  // of alerts that are reported once, and the tokens of those that this node has claimed.
  sql: `
    CREATE TABLE alerts (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, body TEXT NOT NULL,
      created_ms INTEGER NOT NULL, due_ms INTEGER NOT NULL, tries INTEGER NOT NULL DEFAULT 0,
      organization TEXT NOT NULL DEFAULT '', token TEXT, claim_until_ms INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX alerts_due ON alerts (due_ms);
    CREATE TABLE reported (
      id TEXT PRIMARY KEY, forget_ms INTEGER NOT NULL, ${CLAIM_COLUMNS.join(', ')}
    ) WITHOUT ROWID;`,
  columns: { reported: CLAIM_COLUMNS },
  checked: ['alerts'],
}

/** How an alert is reported once, by one of all nodes. */
export interface Claim {
  readonly organization: string
  /** A random text of this node. */
  readonly token: string
}

/** A claim that this node has won. */
export interface WonClaim extends Claim {
  readonly id: string
  readonly untilMs: number
}

export interface QueuedAlert {
  readonly id: string
  readonly type: string
  /** The JSON to post. */
  readonly body: string
  readonly createdMs: number
  readonly dueMs: number
  /** Attempts to deliver it so far. */
  readonly tries: number
  /** Present until one of the nodes has been chosen to deliver it. */
  readonly claim: (Claim & { readonly untilMs: number }) | undefined
}

interface Row {
  readonly id: string
  readonly type: string
  readonly body: string
  readonly created_ms: number
  readonly due_ms: number
  readonly tries: number
  readonly organization: string
  readonly token: string | null
  readonly claim_until_ms: number
}

export class AlertQueue {
  private constructor(
    private readonly database: Database,
    private readonly most: number,
  ) {}

  /** Throws `LedgerFileError`. */
  static open(dataDir: string, most = QUEUE_MAX): AlertQueue {
    return new AlertQueue(openDatabase(join(dataDir, ALERTS_FILE), SCHEMA), most)
  }

  get size(): number {
    return this.database.query<{ count: number }, []>('SELECT count(*) AS count FROM alerts').get()?.count ?? 0
  }

  /** Adds an alert. Returns the alerts that were dropped for it, the oldest, if the queue is full. */
  add(alert: Alert, nowMs: number): readonly QueuedAlert[] {
    return this.database.transaction(() => this.insert(alert, nowMs, undefined, 0)).immediate()
  }

  /**
   * Adds an alert that is reported once, unless it was added before. Its id is kept until `forgetMs`. Returns the same
   * as `add`; undefined if it was added before.
   */
  addOnce(
    alert: Alert,
    nowMs: number,
    { claim, forgetMs }: { readonly claim: Claim | undefined; readonly forgetMs: number },
  ): readonly QueuedAlert[] | undefined {
    const add = this.database.transaction(() => {
      const { changes } = this.database
        .query('INSERT INTO reported (id, forget_ms) VALUES (?, ?) ON CONFLICT DO NOTHING')
        .run(alert.id, forgetMs)
      return changes === 0 ? undefined : this.insert(alert, nowMs, claim, forgetMs)
    })
    return add.immediate()
  }

  /** The alerts that are due first, at most `count`, but for those that are named. */
  next(count: number, without: ReadonlySet<string>): readonly QueuedAlert[] {
    const rows = this.database
      .query<Row, [number]>('SELECT * FROM alerts ORDER BY due_ms, seq LIMIT ?')
      .all(count + without.size)
    return rows
      .filter(({ id }) => !without.has(id))
      .slice(0, count)
      .map(queued)
  }

  /** The alert need not be claimed any more: this node has. */
  claimed(id: string): void {
    const note = this.database.transaction(() => {
      this.database
        .query(
          `UPDATE reported SET organization = alerts.organization, token = alerts.token
           FROM alerts WHERE alerts.id = reported.id AND reported.id = ?`,
        )
        .run(id)
      this.database.query('UPDATE alerts SET token = NULL WHERE id = ?').run(id)
    })
    note.immediate()
  }

  /** The claims that this node has won and that still hold, some at a time. */
  *claims(nowMs: number): Generator<readonly WonClaim[]> {
    const query = this.database.query<WonClaim, [number, string, number]>(
      `SELECT id, organization, token, forget_ms AS untilMs FROM reported
       WHERE token IS NOT NULL AND forget_ms > ? AND id > ? ORDER BY id LIMIT ?`,
    )
    let after = ''
    for (;;) {
      const page = query.all(nowMs, after, CLAIMS_A_PAGE)
      if (page.length > 0) yield page
      if (page.length < CLAIMS_A_PAGE) return
      after = page.at(-1)?.id ?? ''
    }
  }

  /** The alert is tried again at `dueMs`, after so many attempts. */
  retry(id: string, dueMs: number, tries: number): void {
    this.database.query('UPDATE alerts SET due_ms = ?, tries = ? WHERE id = ?').run(dueMs, tries, id)
  }

  /** The alert was delivered or given up. If it is one that is reported once, its id is kept. */
  remove(id: string): void {
    this.database.query('DELETE FROM alerts WHERE id = ?').run(id)
  }

  /** Drops the ids that need not be kept any more. */
  forget(nowMs: number): void {
    this.database.query('DELETE FROM reported WHERE forget_ms <= ?').run(nowMs)
  }

  /** Since when the oldest alert that an attempt failed for is waiting; undefined if there is none. */
  failingSince(): number | undefined {
    const query = 'SELECT min(created_ms) AS since FROM alerts WHERE tries > 0'
    return this.database.query<{ since: number | null }, []>(query).get()?.since ?? undefined
  }

  close(): void {
    this.database.close()
  }

  private insert(alert: Alert, nowMs: number, claim: Claim | undefined, claimUntilMs: number): readonly QueuedAlert[] {
    this.database
      .query(
        `INSERT INTO alerts (id, type, body, created_ms, due_ms, organization, token, claim_until_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      )
      .run(
        ...[alert.id, alert.type, JSON.stringify(alert), nowMs, nowMs],
        ...[claim?.organization ?? '', claim?.token ?? null, claimUntilMs],
      )
    const over = this.size - this.most
    if (over <= 0) return []
    const oldest = this.database.query<Row, [number]>('SELECT * FROM alerts ORDER BY seq LIMIT ?').all(over)
    for (const { id } of oldest) this.remove(id)
    return oldest.map(queued)
  }
}

function queued(row: Row): QueuedAlert {
  const { id, type, body, created_ms: createdMs, due_ms: dueMs, tries, organization, token } = row
  const claim = token === null ? undefined : { organization, token, untilMs: row.claim_until_ms }
  return { id, type, body, createdMs, dueMs, tries, claim }
}

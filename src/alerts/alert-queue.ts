/**
 * The alerts on disk: those that wait for their delivery, a queue for each hook; those that have not ended; those that
 * one of several nodes is still to claim; and which were already reported. A commit survives `kill -9` of the process;
 * after a crash of the machine the last ones may be missing.
 */

import type { Database } from 'bun:sqlite'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type JsonObject, parseObject } from '../core/json.ts'
import { openDatabase, type Schema } from '../sqlite/database.ts'
import { type Alert, resolvedOf, topicOf } from './alert.ts'

const ALERTS_FILE = 'alerts.sqlite'
/** Of each hook; about 4 MB. */
const QUEUE_MAX = 10_000
/** The hook of `alerts.webhook`, to which all alerts of versions before `alerts.hooks` go. */
export const WEBHOOK_KEY = 'webhook'

const CLAIM_COLUMNS = ["organization TEXT NOT NULL DEFAULT ''", 'token TEXT']
const INSTALLATION_BYTES = 8
/** Claims that are read at once. */
const CLAIMS_A_PAGE = 500
/** How long a node that did not report the beginning leaves it to the one that did to report the end. */
const LATER_MS = 60_000
/** The end of an alert is claimed under its id and this. */
const END = ':resolved'

const SCHEMA: Schema = {
  version: 1,
  // `alerts`: what is to be claimed, with `token`; versions before `deliveries` had what is to be delivered there, too.
  // `reported` has the ids of alerts that are reported once, and the tokens of those that this node has claimed.
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
  // `active` has what has begun and not ended; `forget_ms` of what one of several nodes reports, else 0.
  additions: `
    CREATE TABLE IF NOT EXISTS deliveries (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, hook TEXT NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL,
      topic TEXT NOT NULL, body TEXT NOT NULL, created_ms INTEGER NOT NULL, due_ms INTEGER NOT NULL,
      tries INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX IF NOT EXISTS deliveries_due ON deliveries (hook, due_ms, seq);
    CREATE INDEX IF NOT EXISTS deliveries_topic ON deliveries (hook, topic, seq);
    CREATE TABLE IF NOT EXISTS active (
      topic TEXT PRIMARY KEY, type TEXT NOT NULL, body TEXT NOT NULL, organization TEXT NOT NULL DEFAULT '',
      forget_ms INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS hooks (key TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS installation (one INTEGER PRIMARY KEY, id TEXT NOT NULL);`,
  columns: { reported: CLAIM_COLUMNS },
  checked: ['alerts', 'deliveries', 'active'],
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

/** An alert that one of the nodes is to be chosen for. */
export interface UnclaimedAlert extends WonClaim {
  readonly type: string
  readonly createdMs: number
  readonly dueMs: number
}

/** An alert that waits for its delivery to one hook. */
export interface QueuedAlert {
  readonly seq: number
  readonly id: string
  readonly type: string
  /** The JSON of `Alert`. */
  readonly body: string
  readonly createdMs: number
  readonly dueMs: number
  /** Attempts to deliver it so far. */
  readonly tries: number
}

/** The queue of one hook. */
export interface HookQueue {
  /** The alerts that are due first, at most `count`, but for those that are named. */
  next(count: number, without: ReadonlySet<number>): readonly QueuedAlert[]
  /** The alert is tried again at `dueMs`, after so many attempts. */
  retry(seq: number, dueMs: number, tries: number): void
  /** The alert was delivered or given up. */
  remove(seq: number): void
  /** Since when the oldest alert that an attempt failed for is waiting; undefined if there is none. */
  failingSince(): number | undefined
}

/** What an alert that is added goes to: the keys of hooks. */
type HooksOf = (type: string) => readonly string[]

const QUEUED = 'seq, id, type, body, created_ms AS createdMs, due_ms AS dueMs, tries'

export class AlertQueue {
  private constructor(
    private readonly database: Database,
    private readonly hooksOf: HooksOf,
    private readonly most: number,
  ) {}

  /** Throws `LedgerFileError`. */
  static open(dataDir: string, hooksOf: HooksOf, most = QUEUE_MAX): AlertQueue {
    return new AlertQueue(openDatabase(join(dataDir, ALERTS_FILE), SCHEMA), hooksOf, most)
  }

  /** The id of the installation of which this is a node: at first a random one. */
  get installation(): string {
    const made = randomBytes(INSTALLATION_BYTES).toString('hex')
    this.database.query('INSERT INTO installation VALUES (1, ?) ON CONFLICT DO NOTHING').run(made)
    return this.database.query<{ id: string }, []>('SELECT id FROM installation').get()?.id ?? made
  }

  /** The nodes of one installation have one id. */
  set installation(id: string) {
    this.database.query('INSERT INTO installation VALUES (1, ?) ON CONFLICT DO UPDATE SET id = excluded.id').run(id)
  }

  /** Alerts that wait for a delivery or a claim. */
  get size(): number {
    const query = 'SELECT (SELECT count(*) FROM deliveries) + (SELECT count(*) FROM alerts) AS count'
    return this.database.query<{ count: number }, []>(query).get()?.count ?? 0
  }

  /**
   * The hooks that there are from now on. What waits for one that is gone goes to the one that is new, if there is one
   * of each: the address of a hook has changed. Else it is dropped. Returns what was dropped.
   */
  useHooks(keys: readonly string[]): readonly QueuedAlert[] {
    return this.database.transaction(() => this.replaceHooks(keys)).immediate()
  }

  private replaceHooks(keys: readonly string[]): readonly QueuedAlert[] {
    const { database } = this
    // Written by a version that had one webhook.
    database.run(
      `INSERT INTO deliveries (hook, id, type, topic, body, created_ms, due_ms, tries)
       SELECT '${WEBHOOK_KEY}', id, type, id, body, created_ms, due_ms, tries FROM alerts
       WHERE token IS NULL ORDER BY seq`,
    )
    database.run('DELETE FROM alerts WHERE token IS NULL')
    const known = new Set(keysOf(database, 'SELECT key FROM hooks'))
    const fresh = keys.filter((key) => !known.has(key))
    const gone = keysOf(database, 'SELECT DISTINCT hook AS key FROM deliveries').filter((key) => !keys.includes(key))
    let dropped: readonly QueuedAlert[] = []
    if (gone.length === 1 && fresh.length === 1)
      database.query('UPDATE deliveries SET hook = ? WHERE hook = ?').run(fresh[0] ?? '', gone[0] ?? '')
    else {
      const query = `SELECT ${QUEUED} FROM deliveries WHERE hook = ? ORDER BY seq`
      dropped = gone.flatMap((key) => database.query<QueuedAlert, [string]>(query).all(key))
      for (const key of gone) database.query('DELETE FROM deliveries WHERE hook = ?').run(key)
    }
    database.run('DELETE FROM hooks')
    for (const key of new Set(keys)) database.query('INSERT INTO hooks (key) VALUES (?)').run(key)
    return dropped
  }

  /** The queue of one hook. */
  of(hook: string): HookQueue {
    const { database } = this
    return {
      next: (count, without) =>
        database
          .query<QueuedAlert, [string, number]>(
            // An alert waits for those before it about the same thing.
            `SELECT ${QUEUED} FROM deliveries AS one WHERE hook = ? AND NOT EXISTS (
               SELECT 1 FROM deliveries AS other
               WHERE other.hook = one.hook AND other.topic = one.topic AND other.seq < one.seq
             ) ORDER BY due_ms, seq LIMIT ?`,
          )
          .all(hook, count + without.size)
          .filter(({ seq }) => !without.has(seq))
          .slice(0, count),
      retry: (seq, dueMs, tries) =>
        void database.query('UPDATE deliveries SET due_ms = ?, tries = ? WHERE seq = ?').run(dueMs, tries, seq),
      remove: (seq) => void database.query('DELETE FROM deliveries WHERE seq = ?').run(seq),
      failingSince: () =>
        database
          .query<{ since: number | null }, [string]>(
            'SELECT min(created_ms) AS since FROM deliveries WHERE hook = ? AND tries > 0',
          )
          .get(hook)?.since ?? undefined,
    }
  }

  /** Adds an alert that does not end. Returns the alerts that were dropped for it, the oldest, if a queue is full. */
  add(alert: Alert, nowMs: number): readonly QueuedAlert[] {
    return this.database.transaction(() => this.deliver(alert.id, JSON.stringify(alert), nowMs)).immediate()
  }

  /** Adds an alert that ends, unless what it is about is active. Returns the same as `add`; undefined if it is. */
  begin(alert: Alert, nowMs: number): readonly QueuedAlert[] | undefined {
    const add = this.database.transaction(() => {
      const body = JSON.stringify(alert)
      if (!this.activate(topicOf(alert), alert.type, body, '', 0)) return undefined
      return this.deliver(alert.id, body, nowMs)
    })
    return add.immediate()
  }

  /**
   * Adds an alert that is reported once, unless it was added before, or `formerId` was. Its id is kept until
   * `forgetMs`. Returns the same as `add`; undefined if it was added before. `ends`: it is active from now on.
   */
  addOnce(
    alert: Alert,
    nowMs: number,
    more: {
      readonly claim: Claim | undefined
      readonly forgetMs: number
      readonly ends?: boolean
      readonly formerId?: string | undefined
    },
  ): readonly QueuedAlert[] | undefined {
    const { claim, forgetMs, ends = false, formerId = '' } = more
    const add = this.database.transaction(() => {
      if (this.noted(formerId) !== undefined || !this.note(alert.id, forgetMs)) return undefined
      const body = JSON.stringify(alert)
      if (ends) this.activate(topicOf(alert), alert.type, body, claim?.organization ?? '', claim ? forgetMs : 0)
      if (claim === undefined) return this.deliver(alert.id, body, nowMs)
      this.keepUnclaimed({ ...claim, id: alert.id, type: alert.type, untilMs: forgetMs }, body, nowMs, nowMs)
      return []
    })
    return add.immediate()
  }

  /** The alerts of a type that have begun and not ended, by their topic. */
  active(type: string): ReadonlyMap<string, JsonObject> {
    const rows = this.database
      .query<{ topic: string; body: string }, [string]>('SELECT topic, body FROM active WHERE type = ? ORDER BY topic')
      .all(type)
    return new Map(rows.map(({ topic, body }) => [topic, parseObject(body) ?? {}]))
  }

  /**
   * What is active ends. `token`: for an alert that one of several nodes reports, of which another node may report the
   * end. Returns the same as `add`; undefined if it is not active.
   */
  end(topic: string, nowMs: number, token: string): readonly QueuedAlert[] | undefined {
    const end = this.database.transaction(() => {
      const row = this.database
        .query<{ body: string; organization: string; forgetMs: number }, [string]>(
          'DELETE FROM active WHERE topic = ? RETURNING body, organization, forget_ms AS forgetMs',
        )
        .get(topic)
      const firing = parseObject(row?.body ?? '')
      if (row === null || firing === undefined) return undefined
      const { organization, forgetMs: untilMs } = row
      const [id, type] = [String(firing['id']), String(firing['type'])]
      const body = JSON.stringify(resolvedOf(firing, nowMs))
      if (untilMs === 0) return this.deliver(id, body, nowMs)
      if (this.note(id + END, untilMs)) {
        const hasWon = this.noted(id)?.token != null
        const dueMs = hasWon ? nowMs : nowMs + LATER_MS
        this.keepUnclaimed({ id: id + END, type, organization, token, untilMs }, body, nowMs, dueMs)
      }
      return []
    })
    return end.immediate()
  }

  /** The alerts that are to be claimed first. */
  unclaimed(count: number): readonly UnclaimedAlert[] {
    return this.database
      .query<UnclaimedAlert, [number]>(
        `SELECT id, type, organization, token, created_ms AS createdMs, due_ms AS dueMs, claim_until_ms AS untilMs
         FROM alerts WHERE token IS NOT NULL ORDER BY due_ms, seq LIMIT ?`,
      )
      .all(count)
  }

  /** The claim is repeated at a time. */
  claimLater(id: string, dueMs: number): void {
    this.database.query('UPDATE alerts SET due_ms = ? WHERE id = ?').run(dueMs, id)
  }

  /** This node has claimed the alert, and delivers it. Returns the same as `add`. */
  claimed(id: string, nowMs: number): readonly QueuedAlert[] {
    const note = this.database.transaction(() => {
      this.database
        .query(
          `UPDATE reported SET organization = alerts.organization, token = alerts.token
           FROM alerts WHERE alerts.id = reported.id AND reported.id = ?`,
        )
        .run(id)
      const row = this.database
        .query<{ body: string }, [string]>('DELETE FROM alerts WHERE id = ? RETURNING body')
        .get(id)
      return row === null ? [] : this.deliver(id.replace(END, ''), row.body, nowMs)
    })
    return note.immediate()
  }

  /** Another node reports the alert, or none does. */
  unclaim(id: string): void {
    this.database.query('DELETE FROM alerts WHERE id = ?').run(id)
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

  /** Drops the ids that need not be kept any more. */
  forget(nowMs: number): void {
    this.database.query('DELETE FROM reported WHERE forget_ms <= ?').run(nowMs)
  }

  close(): void {
    this.database.close()
  }

  /** False if it is active already. */
  private activate(topic: string, type: string, body: string, organization: string, forgetMs: number): boolean {
    const { changes } = this.database
      .query(
        `INSERT INTO active (topic, type, body, organization, forget_ms) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      )
      .run(topic, type, body, organization, forgetMs)
    return changes > 0
  }

  /** False if it was reported before. */
  private note(id: string, forgetMs: number): boolean {
    const query = 'INSERT INTO reported (id, forget_ms) VALUES (?, ?) ON CONFLICT DO NOTHING'
    return this.database.query(query).run(id, forgetMs).changes > 0
  }

  /** Undefined if it was not reported; with a token if this node has claimed the alert. */
  private noted(id: string): { readonly token: string | null } | undefined {
    const query = 'SELECT token FROM reported WHERE id = ?'
    return this.database.query<{ token: string | null }, [string]>(query).get(id) ?? undefined
  }

  private keepUnclaimed(claim: WonClaim & { readonly type: string }, body: string, nowMs: number, dueMs: number): void {
    const { id, type, organization, token, untilMs } = claim
    this.database
      .query(
        `INSERT INTO alerts (id, type, body, created_ms, due_ms, organization, token, claim_until_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
      )
      .run(id, type, body, nowMs, dueMs, organization, token, untilMs)
  }

  /** Puts an alert into the queue of each hook that gets it. Returns what was dropped for it. */
  private deliver(id: string, body: string, nowMs: number): readonly QueuedAlert[] {
    const alert = parseObject(body) ?? {}
    const type = String(alert['type'])
    return this.hooksOf(type).flatMap((hook) => {
      this.database
        .query(`INSERT INTO deliveries (hook, id, type, topic, body, created_ms, due_ms) VALUES (?, ?, ?, ?, ?, ?, ?)`)
        .run(hook, id, type, topicOf(alert), body, nowMs, nowMs)
      return this.trimmed(hook)
    })
  }

  private trimmed(hook: string): readonly QueuedAlert[] {
    const query = 'SELECT count(*) AS count FROM deliveries WHERE hook = ?'
    const over = (this.database.query<{ count: number }, [string]>(query).get(hook)?.count ?? 0) - this.most
    if (over <= 0) return []
    const oldest = this.database
      .query<QueuedAlert, [string, number]>(`SELECT ${QUEUED} FROM deliveries WHERE hook = ? ORDER BY seq LIMIT ?`)
      .all(hook, over)
    for (const { seq } of oldest) this.database.query('DELETE FROM deliveries WHERE seq = ?').run(seq)
    return oldest
  }
}

function keysOf(database: Database, query: string): readonly string[] {
  return database
    .query<{ key: string }, []>(query)
    .all()
    .map(({ key }) => key)
}

/**
 * The log of a gateway whose ledger is elsewhere: each settlement is written here before it is sent, marked when it was taken, and sent
 * again until it was. The truth of what this gateway served. Several processes of one machine may share the file: a settlement that is
 * sent twice is taken once.
 */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { openDatabase, type Schema } from './database.ts'
import { type Entry, usageRowOf } from './entry.ts'
import { GroupCommit } from './group-commit.ts'
import { type KnownLife, LIFE_SQL, LifeRows } from './life-rows.ts'
import { LOG_SQL, LogWriter, ROWS_KEPT_MS, RowBatch, settledRow } from './log-rows.ts'
import type { UsageRow } from './usage-log.ts'
import { UsageSums } from './usage-sums.ts'

export const OUTBOX_FILE = 'outbox.sqlite'

/**
 * Everything is appended, and what changes is young: a commit touches a handful of pages. A key by the random ids of requests would touch
 * one a request. State of an entry: 0 to be sent, 1 taken, 2 given up: nobody can tell whether it was taken, 3 given back with others to a Redis that
 * was emptied.
 */
export const OUTBOX_SCHEMA: Schema = {
  version: 4,
  checked: ['outbox'],
  sql: `
    CREATE TABLE outbox (
      number INTEGER PRIMARY KEY, state INTEGER NOT NULL, due_ms INTEGER NOT NULL, sent_ms INTEGER, taken_ms INTEGER, entry TEXT NOT NULL
    );
    CREATE INDEX outbox_due ON outbox (due_ms) WHERE state = 0;
    CREATE INDEX outbox_given_up ON outbox (number) WHERE state = 2;
    CREATE INDEX outbox_taken ON outbox (taken_ms) WHERE taken_ms IS NOT NULL;
    ${LIFE_SQL}
    ${LOG_SQL}`,
}

/** Settlements that may wait for their commit; beyond it the ledger takes no new requests. About 10 MB. */
export const PENDING_MOST = 10_000
/** An entry is on its first way for so long; then it is due to be sent again. */
const FIRST_WAY_MS = 2000
/** One that the server will not take (foreign data under our keys) waits so long, behind all others. */
const POSTPONED_MS = 60_000
/** How long a taken entry is kept, to be sent again where the server lost what it had taken. */
const TAKEN_KEPT_MS = 900_000
const FORGOTTEN_AT_ONCE = 1000
/** Entries whose places are remembered: more than can be on their way. Others of the machine may have sent what this process could not. */
const PLACES_MOST = 4 * PENDING_MOST
/** No entry has this number: where a mark comes for one that never reached the file. */
const NOWHERE = -1

export interface Pending {
  readonly entry: Entry
  /** When it was first sent; null where it never was. Later than that, `unknown` may mean that it was taken and forgotten. */
  readonly sentMs: number | null
}

interface Counts {
  readonly pending: number
  readonly givenUp: number
}

interface Stored {
  readonly number: number
  readonly entry: string
  readonly sent_ms: number | null
}

type Mark = Taken | 'sent' | 'given_up' | 'postponed'

/** Where and in which life Redis took it. */
interface Taken {
  readonly organization: string
  readonly life: number
}

interface Waiting {
  readonly entry: Entry
  readonly isSent: boolean
  readonly committed: () => void
}

/** What a node needs of its log; a simulation gives it another one. */
export interface SettlementLog {
  /** Settlements that are not in the file yet. */
  readonly uncommitted: number
  readonly complaint: string | undefined
  /** How many are to be sent, and how many were given up. */
  count(): Counts
  /** Writes a settlement down. Resolves with the commit that holds it, or at once where commits fail: then memory alone holds it for now. */
  add(entry: Entry, isSent: boolean): Promise<void>
  sent(id: string): void
  /** Redis took it, in a life of its organisation (0 where it has none). Counts only while that life lasts: else it is sent again. */
  taken(id: string, organization: string, life: number): void
  givenUp(id: string): void
  postponed(id: string): void
  /** Those that are due to be sent again, the oldest first; all that are not taken where `early`. */
  pending(most: number, early?: boolean): readonly Pending[]
  /** What was taken since a time is to be sent again: a server that came back may have lost it. With the next commit. */
  reopen(sinceMs: number): void
  /** Lets go of what was taken long ago; for when the server is there, so that none is dropped that it may still turn out to have lost. */
  forget(): void
  /** Commits what is gathered, now. False where the file does not take it. */
  commit(): boolean
  /** The last commit. Throws where it fails. */
  close(): void
}

export class Outbox implements SettlementLog {
  private readonly database: Database
  private readonly writer: LogWriter
  private readonly lives: LifeRows
  private readonly statements: ReturnType<typeof prepare>
  private readonly group: GroupCommit
  private readonly waiting = new Map<string, Waiting>()
  private readonly marks = new Map<string, Mark>()
  /** Where an entry that this process is sending stands, from its commit until its end is marked. */
  private readonly numbers = new Map<string, number>()
  private reopenedSinceMs: number | undefined
  /** What was taken long ago goes with the next commit. */
  private forgets = false

  /** `keepMs`: how long single requests are kept. Throws `LedgerFileError`. */
  constructor(
    directory: string,
    private readonly now: () => number = Date.now,
    keepMs = ROWS_KEPT_MS,
  ) {
    const path = join(directory, OUTBOX_FILE)
    this.database = openDatabase(path, OUTBOX_SCHEMA)
    this.writer = new LogWriter(this.database, keepMs)
    this.lives = new LifeRows(this.database)
    this.statements = prepare(this.database)
    const gathered = {
      write: () => this.write(),
      written: () => this.written(),
      failed: () => this.release(),
    }
    // A settlement is sent once it is written: until then its money is held, and others may be refused for it.
    this.group = new GroupCommit(this.database, path, gathered, 'at_once')
  }

  get uncommitted(): number {
    return this.waiting.size
  }

  get complaint(): string | undefined {
    return this.group.complaint
  }

  count(): Counts {
    // The states as they stand in the indexes: with a parameter in their place the whole table would be read, a quarter of an hour of requests.
    const { pending = 0, givenUp = 0 } = this.statements.count.get() ?? {}
    return { pending, givenUp }
  }

  add(entry: Entry, isSent: boolean): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.set(entry.closing.id, { entry, isSent, committed: resolve })
      this.group.soon()
    })
  }

  sent(id: string): void {
    this.mark(id, 'sent')
  }

  taken(id: string, organization: string, life: number): void {
    this.mark(id, { organization, life })
  }

  givenUp(id: string): void {
    this.mark(id, 'given_up')
  }

  postponed(id: string): void {
    this.mark(id, 'postponed')
  }

  pending(most: number, early = false): readonly Pending[] {
    const query = this.database.query<Stored, [number, number]>(
      'SELECT number, entry, sent_ms FROM outbox WHERE state = 0 AND due_ms <= ? ORDER BY due_ms LIMIT ?',
    )
    return query.all(early ? Number.MAX_SAFE_INTEGER : this.now(), most).map((stored) => this.pendingOf(stored))
  }

  reopen(sinceMs: number): void {
    this.reopenedSinceMs = Math.min(this.reopenedSinceMs ?? Number.POSITIVE_INFINITY, sinceMs)
    this.group.soon()
  }

  forget(): void {
    this.forgets = true
    this.group.soon()
  }

  /** This log's own id. */
  get node(): string {
    return this.lives.node
  }

  knownLives(): readonly KnownLife[] {
    return this.lives.all()
  }

  /** What is to be given back to a life of an organisation in Redis: settled at its first call. Throws where the file does not take it. */
  enter(organization: string, life: number): readonly UsageRow[] {
    // What this process knows of the life before must be in the file, or come after.
    if (!this.commit()) throw new Error(`The outbox cannot be written: ${this.complaint}.`)
    return this.database.transaction(() => this.lives.enter(organization, life)).immediate()
  }

  /** All of it was given back. */
  entered(organization: string, life: number): void {
    this.lives.completed(organization, life)
  }

  commit(): boolean {
    return this.group.commit()
  }

  close(): void {
    this.group.close()
  }

  private release(): void {
    for (const { committed } of this.waiting.values()) committed()
  }

  private pendingOf({ number, entry, sent_ms }: Stored): Pending {
    const parsed: Entry = JSON.parse(entry)
    this.place(parsed.closing.id, number)
    return { entry: parsed, sentMs: sent_ms }
  }

  /** One whose place was forgotten is sent again, and marked then. */
  private place(id: string, number: number): void {
    this.numbers.set(id, number)
    if (this.numbers.size <= PLACES_MOST) return
    for (const oldest of this.numbers.keys()) {
      this.numbers.delete(oldest)
      return
    }
  }

  private written(): void {
    for (const [id, mark] of this.marks) if (mark !== 'sent') this.numbers.delete(id)
    this.release()
    this.waiting.clear()
    this.marks.clear()
    this.reopenedSinceMs = undefined
    this.forgets = false
  }

  private mark(id: string, mark: Mark): void {
    this.marks.set(id, mark)
    this.group.soon()
  }

  private write(): void {
    const now = this.now()
    const { statements } = this
    const usage = new UsageSums()
    const rows = new RowBatch()
    for (const { entry, isSent } of this.waiting.values()) this.put(entry, now, isSent, { usage, rows })
    this.writer.batch(rows)
    const isIn = this.lives.look()
    const taken: number[] = []
    for (const [id, mark] of this.marks) {
      const number = this.numbers.get(id) ?? NOWHERE
      if (mark === 'sent') statements.sent.run(now, number)
      else if (mark === 'postponed') statements.postponed.run(now + POSTPONED_MS, number)
      else if (mark === 'given_up') statements.givenUp.run(number)
      else if (mark.life === 0 || isIn(mark.organization, mark.life)) taken.push(number)
    }
    if (taken.length > 0) statements.taken.run(now, JSON.stringify(taken))
    if (this.reopenedSinceMs !== undefined) {
      // It was taken for certain when it was taken: from then on its doubt counts.
      statements.reopen.run(now, this.reopenedSinceMs)
    }
    if (this.forgets) statements.forget.run(now - TAKEN_KEPT_MS, FORGOTTEN_AT_ONCE)
    usage.each((place, figures) => this.writer.usage(place, figures))
    this.writer.dropOld(now)
  }

  private put(entry: Entry, now: number, isSent: boolean, into: { usage: UsageSums; rows: RowBatch }): void {
    const { account, closing, heldMicroUsd } = entry
    const { lastInsertRowid } = this.statements.insert.run(
      now + FIRST_WAY_MS,
      isSent ? now : null,
      JSON.stringify(entry),
    )
    this.place(closing.id, Number(lastInsertRowid))
    const times = { admittedMs: closing.admittedMs, endedMs: now }
    into.rows.add(
      settledRow(closing.id, account, times, closing.settlement, closing.direct ? 'direct' : 'settled', heldMicroUsd),
    )
    const usage = usageRowOf(entry)
    if (usage !== undefined) into.usage.add(usage, usage)
  }
}

function prepare(database: Database) {
  return {
    count: database.query<Counts, []>(
      'SELECT (SELECT count(*) FROM outbox WHERE state = 0) AS pending, (SELECT count(*) FROM outbox WHERE state = 2) AS givenUp',
    ),
    insert: database.query('INSERT INTO outbox (state, due_ms, sent_ms, entry) VALUES (0, ?, ?, ?)'),
    sent: database.query('UPDATE outbox SET sent_ms = coalesce(sent_ms, ?) WHERE number = ?'),
    taken: database.query('UPDATE outbox SET state = 1, taken_ms = ? WHERE number IN (SELECT value FROM json_each(?))'),
    postponed: database.query('UPDATE outbox SET due_ms = ? WHERE number = ?'),
    givenUp: database.query('UPDATE outbox SET state = 2 WHERE number = ?'),
    reopen: database.query(
      'UPDATE outbox SET state = 0, due_ms = ?, sent_ms = taken_ms WHERE taken_ms >= ? AND state = 1',
    ),
    forget: database.query(
      'DELETE FROM outbox WHERE number IN (SELECT number FROM outbox WHERE taken_ms < ? AND state IN (1, 3) LIMIT ?)',
    ),
  }
}

/**
 * The entries of single settlements in the outbox: those that were not sent when they were written, or not acknowledged
 * in time. Owns their SQL, and remembers the numbers of those that this process sends.
 */

import type { Database } from 'bun:sqlite'
import type { Pending } from '../protocol/node-log.ts'
import { type Settlement, settlementOf, settlementText } from '../protocol/settlement.ts'

const FORGOTTEN_AT_ONCE = 1000
/** No entry has this number: for a mark of an entry that never reached the file. */
const NOWHERE = -1

const PENDING_SQL = `SELECT number, entry, sent_ms,
    (SELECT life FROM life WHERE life.organization = outbox.organization) AS epoch
  FROM outbox`

interface Stored {
  readonly number: number
  readonly entry: string
  readonly sent_ms: number | null
  readonly epoch: number | null
}

export class OutboxEntries {
  /** Numbers of the entries that this process sends, from their commit until they are marked. */
  private readonly numbers = new Map<string, number>()
  private readonly statements: ReturnType<typeof prepare>

  /** `placesMax`: numbers that are kept in memory, more than can be in flight. */
  constructor(
    database: Database,
    private readonly placesMax: number,
  ) {
    this.statements = prepare(database)
  }

  get count(): number {
    return this.statements.count.get()?.n ?? 0
  }

  /** How many of an organisation are to be sent. */
  countOf(organization: string): number {
    return this.statements.countOf.get(organization)?.n ?? 0
  }

  /** Inserts an entry that is to be sent. Returns its number. */
  insert(settlement: Settlement, dueMs: number, sentMs: number | null): number {
    const { organization } = settlement.account
    return Number(this.statements.insert.run(dueMs, sentMs, organization, settlementText(settlement)).lastInsertRowid)
  }

  /** An entry whose number was dropped is resent, and marked then. */
  place(id: string, number: number): void {
    this.numbers.set(id, number)
    if (this.numbers.size <= this.placesMax) return
    for (const oldest of this.numbers.keys()) {
      this.numbers.delete(oldest)
      return
    }
  }

  numberOf(id: string): number {
    return this.numbers.get(id) ?? NOWHERE
  }

  forgetNumber(id: string): void {
    this.numbers.delete(id)
  }

  /** The oldest that are due at a time. */
  due(ms: number, most: number): readonly Pending[] {
    return this.statements.due.all(ms, most).map((stored) => this.pendingOf(stored))
  }

  /** Those of an organisation that its new epoch lacks. */
  resent(organization: string): readonly Pending[] {
    return this.statements.resent.all(organization).map((stored) => this.pendingOf(stored))
  }

  /** The entry of a settlement that this process sends, if it is still to be sent. */
  standing(id: string): Pending | undefined {
    const stored = this.statements.one.get(this.numberOf(id))
    const pending = stored === null ? undefined : this.pendingOf(stored)
    // SQLite reuses the numbers of deleted entries.
    return pending?.settlement.id === id ? pending : undefined
  }

  sent(number: number, now: number): void {
    this.statements.sent.run(now, number)
  }

  postpone(number: number, untilMs: number): void {
    this.statements.postponed.run(untilMs, number)
  }

  taken(numbers: readonly number[], now: number): void {
    if (numbers.length > 0) this.statements.taken.run(now, JSON.stringify(numbers))
  }

  isAnyTakenBefore(ms: number): boolean {
    return this.statements.isAnyOld.get(ms) !== null
  }

  /** Deletes some that were acknowledged before a time. */
  forgetBefore(ms: number): void {
    this.statements.forget.run(ms, FORGOTTEN_AT_ONCE)
  }

  private pendingOf({ number, entry, sent_ms, epoch }: Stored): Pending {
    const settlement = settlementOf(entry)
    this.place(settlement.id, number)
    return { settlement, epoch: epoch ?? 0, wasSent: sent_ms !== null }
  }
}

function prepare(database: Database) {
  return {
    // The state is a literal, as in the index: with a parameter SQLite would read the whole table, 15 minutes of
    // requests.
    count: database.query<{ n: number }, []>('SELECT count(*) AS n FROM outbox WHERE state = 0'),
    countOf: database.query<{ n: number }, [string]>(
      'SELECT count(*) AS n FROM outbox WHERE organization = ? AND state = 0',
    ),
    insert: database.query('INSERT INTO outbox (state, due_ms, sent_ms, organization, entry) VALUES (0, ?, ?, ?, ?)'),
    due: database.query<Stored, [number, number]>(
      `${PENDING_SQL} WHERE state = 0 AND due_ms <= ? ORDER BY due_ms LIMIT ?`,
    ),
    // By its organisation, which few of them have: SQLite would read all that are resent.
    resent: database.query<Stored, [string]>(
      `${PENDING_SQL} INDEXED BY outbox_pending_of WHERE organization = ? AND state = 0 AND due_ms = 0`,
    ),
    one: database.query<Stored, [number]>(`${PENDING_SQL} WHERE number = ? AND state = 0`),
    sent: database.query('UPDATE outbox SET sent_ms = coalesce(sent_ms, ?) WHERE number = ?'),
    taken: database.query(
      'UPDATE outbox SET state = 1, taken_ms = ? WHERE state = 0 AND number IN (SELECT value FROM json_each(?))',
    ),
    postponed: database.query('UPDATE outbox SET due_ms = ? WHERE number = ?'),
    isAnyOld: database.query<{ number: number }, [number]>(
      'SELECT number FROM outbox WHERE taken_ms < ? AND state IN (1, 3) LIMIT 1',
    ),
    forget: database.query(
      'DELETE FROM outbox WHERE number IN (SELECT number FROM outbox WHERE taken_ms < ? AND state IN (1, 3) LIMIT ?)',
    ),
  }
}

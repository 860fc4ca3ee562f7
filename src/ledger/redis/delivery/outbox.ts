/**
 * The log of a gateway whose ledger is in Redis: each settlement is written here before it is sent, resent until Redis
 * acknowledges it, and then marked. It is the record of what this gateway served. Several processes of one machine may
 * share the file, because Redis takes a settlement once, however often it is sent.
 */

import type { Database, Statement } from 'bun:sqlite'
import { join } from 'node:path'
import { turn } from '../../../core/event-loop.ts'
import { fileIdentity, openDatabase } from '../../../sqlite/database.ts'
import { GroupCommit } from '../../../sqlite/group-commit.ts'
import { type AuditRow, chargeOfRow, settledRow } from '../../audit-columns.ts'
import { findRows } from '../../request-table.ts'
import { LogWriter, ROWS_KEPT_MS, RowBatch, UsageSums } from '../../request-writer.ts'
import { type UsagePlace, type UsageRow, usageRowOf } from '../../usage-log.ts'
import { dayOf } from '../../window.ts'
import { EpochRows, type Expected, type FoundOfNode, type KnownEpoch } from '../epochs/epoch-rows.ts'
import { RESEND_MAX } from '../epochs/reconcile.ts'
import { OUTBOX_FILE, OUTBOX_SCHEMA } from './outbox-schema.ts'
import { type Settlement, settlementOf, settlementText } from './settlement.ts'
import type { Pending, SettlementLog } from './settlement-log.ts'

/** Settlements that may wait for their commit; beyond it the ledger takes no new requests. About 10 MB. */
export const PENDING_MAX = 10_000
/** How long after it is written an entry is due to be resent, unless Redis acknowledged it. */
const FIRST_WAY_MS = 2000
/** The pause before an entry is resent that the server refuses because other data are under our keys. */
const POSTPONED_MS = 60_000
/** How long an acknowledged entry is kept, to be resent if the server lost it. */
const TAKEN_KEPT_MS = 900_000
const FORGOTTEN_AT_ONCE = 1000
/** Entries that one statement inserts, if so many wait: 1.3 µs an entry instead of 2.1. */
const INSERTED_AT_ONCE = 16
/**
 * Rows are searched from `CLOCKS_APART_MS` before a request's admission, by the clock of Redis, to `LONGEST_REQUEST_MS`
 * after it.
 */
const LONGEST_REQUEST_MS = 3_600_000
const CLOCKS_APART_MS = 60_000
/** Entries whose row numbers are kept in memory: more than can be in flight. */
const PLACES_MAX = 4 * PENDING_MAX
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

type Mark = Taken | 'sent' | 'postponed'

/** The organisation, and the epoch in which Redis took it. */
interface Taken {
  readonly organization: string
  readonly epoch: number
}

interface Waiting {
  readonly settlement: Settlement
  readonly isSent: boolean
  readonly committed: () => void
}

export class Outbox implements SettlementLog {
  /** The place of the file, which no copy shares. */
  readonly home: string
  private readonly database: Database
  private readonly writer: LogWriter
  private readonly epochs: EpochRows
  private readonly statements: ReturnType<typeof prepare>
  private readonly group: GroupCommit
  private readonly waiting = new Map<string, Waiting>()
  private readonly marks = new Map<string, Mark>()
  /** Row numbers of the entries that this process sends, from their commit until they are marked. */
  private readonly numbers = new Map<string, number>()
  /** The next commit deletes entries that were acknowledged long ago. */
  private forgets = false

  /** `keepMs`: how long single requests are kept. Throws `LedgerFileError`. */
  constructor(
    directory: string,
    private readonly now: () => number = Date.now,
    keepMs = ROWS_KEPT_MS,
  ) {
    const path = join(directory, OUTBOX_FILE)
    this.database = openDatabase(path, OUTBOX_SCHEMA)
    this.home = fileIdentity(path)
    this.writer = new LogWriter(this.database, keepMs)
    this.epochs = new EpochRows(this.database)
    this.statements = prepare(this.database)
    const gathered = {
      write: () => this.write(),
      written: () => this.written(),
      failed: () => this.release(),
    }
    // `at_once`: a settlement is sent after its commit, and until then its reservation may cause refusals.
    this.group = new GroupCommit(this.database, path, gathered)
  }

  get uncommitted(): number {
    return this.waiting.size
  }

  get complaint(): string | undefined {
    return this.group.complaint
  }

  pendingCount(): number {
    return this.statements.count.get()?.n ?? 0
  }

  add(settlement: Settlement, isSent: boolean): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.set(settlement.id, { settlement, isSent, committed: resolve })
      this.group.soon()
    })
  }

  sent(id: string): void {
    this.mark(id, 'sent')
  }

  taken(id: string, organization: string, epoch: number): void {
    this.mark(id, { organization, epoch })
  }

  postponed(id: string): void {
    this.mark(id, 'postponed')
  }

  pending(most: number, early = false): readonly Pending[] {
    const query = this.database.query<Stored, [number, number]>(
      `${PENDING_SQL} WHERE state = 0 AND due_ms <= ? ORDER BY due_ms LIMIT ?`,
    )
    return query.all(early ? Number.MAX_SAFE_INTEGER : this.now(), most).map((stored) => this.pendingOf(stored))
  }

  resent(organization: string): readonly Pending[] {
    const query = this.database.query<Stored, [string]>(
      `${PENDING_SQL} WHERE organization = ? AND state = 0 AND due_ms = 0`,
    )
    return query.all(organization).map((stored) => this.pendingOf(stored))
  }

  standing(settlement: Settlement): Pending | undefined {
    const { id } = settlement
    // An entry that is not in the file is in no sums either.
    if (this.waiting.has(id)) return { settlement, epoch: 0, wasSent: false }
    const query = this.database.query<Stored, [number]>(`${PENDING_SQL} WHERE number = ? AND state = 0`)
    const stored = query.get(this.numbers.get(id) ?? NOWHERE)
    const pending = stored === null ? undefined : this.pendingOf(stored)
    // SQLite reuses the numbers of deleted entries.
    return pending?.settlement.id === id ? pending : undefined
  }

  forget(): void {
    // A commit writes and flushes; without this an idle machine would do so 4 times a second.
    if (this.statements.isAnyOld.get(this.now() - TAKEN_KEPT_MS) === null) return
    this.forgets = true
    this.group.soon()
  }

  get node(): string {
    return this.epochs.node
  }

  knownEpochs(): readonly KnownEpoch[] {
    return this.epochs.all()
  }

  epochOf(organization: string): KnownEpoch {
    return this.epochs.of(organization)
  }

  expected(organization: string): Expected {
    return this.epochs.expected(organization)
  }

  allExpected(): ReadonlyMap<string, Expected> {
    return this.epochs.allExpected()
  }

  get foldedBefore(): number {
    return this.epochs.foldedBefore
  }

  places(organization: string): readonly UsagePlace[] {
    return this.epochs.places(organization)
  }

  async find(organization: string, admittedMs: ReadonlyMap<string, number>): Promise<readonly Settlement[]> {
    if (admittedMs.size === 0) return []
    let [first, last] = [Number.POSITIVE_INFINITY, 0]
    for (const ms of admittedMs.values()) [first, last] = [Math.min(first, ms), Math.max(last, ms)]
    const span = [first - CLOCKS_APART_MS, last + LONGEST_REQUEST_MS] as const
    const rows = await findRows(this.database, organization, new Set(admittedMs.keys()), span)
    return rows.map(loggedSettlement)
  }

  async prepare(organization: string, epoch: number, found: FoundOfNode): Promise<void> {
    // What an earlier version had sent is decided entry by entry when the first epoch is entered.
    if (found.isLegacy && this.epochOf(organization).epoch === 0) return
    let left = this.epochs.pendingCount(organization) - RESEND_MAX
    for (let after = 0; left > 0; await turn()) {
      const work = () => this.epochs.absorb(organization, epoch, found, after)
      const absorbed = this.database.transaction(work).immediate()
      if (absorbed === undefined) return
      after = absorbed.last
      left -= absorbed.count
    }
  }

  enter(organization: string, epoch: number, found: FoundOfNode, resent: readonly Settlement[]): readonly UsageRow[] {
    // Marks of the epoch before must be in the file now, or be written after the new one is entered.
    if (!this.commit()) {
      // An organisation without usage has nothing to give back, so it is served even while the disk is full.
      const known = this.epochOf(organization)
      if (known.epoch === 0 && known.legacyEpoch === 0 && this.places(organization).length === 0) return []
      throw new Error(`The outbox cannot be written: ${this.complaint}.`)
    }
    return this.database.transaction(() => this.epochs.enter(organization, epoch, found, resent)).immediate()
  }

  entered(organization: string, epoch: number): void {
    this.epochs.completed(organization, epoch)
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

  private pendingOf({ number, entry, sent_ms, epoch }: Stored): Pending {
    const settlement = settlementOf(entry)
    this.place(settlement.id, number)
    return { settlement, epoch: epoch ?? 0, wasSent: sent_ms !== null }
  }

  /** An entry whose number was dropped is resent, and marked then. */
  private place(id: string, number: number): void {
    this.numbers.set(id, number)
    if (this.numbers.size <= PLACES_MAX) return
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
    this.put(now, usage)
    const isIn = this.epochs.look()
    const taken: number[] = []
    for (const [id, mark] of this.marks) {
      const number = this.numbers.get(id) ?? NOWHERE
      if (mark === 'sent') statements.sent.run(now, number)
      else if (mark === 'postponed') statements.postponed.run(now + POSTPONED_MS, number)
      else if (isIn(mark.organization, mark.epoch)) taken.push(number)
    }
    if (taken.length > 0) statements.taken.run(now, JSON.stringify(taken))
    if (this.forgets) statements.forget.run(now - TAKEN_KEPT_MS, FORGOTTEN_AT_ONCE)
    usage.each((place, figures) => {
      this.writer.usage(place, figures)
      this.epochs.served(place.organization, figures.requests)
    })
    this.writer.dropOld(now)
    // If the clock is far ahead, recent days are not folded: the day of what Redis loses would be unknown.
    const foldedBefore = this.writer.foldOld(now, Math.min(dayOf(now), this.epochs.newestDay()))
    if (foldedBefore !== undefined) this.epochs.folded(foldedBefore)
  }

  private put(now: number, usage: UsageSums): void {
    const rows = new RowBatch()
    let group: Waiting[] = []
    for (const one of this.waiting.values()) {
      const { id, account, admittedMs, charge, heldMicroUsd } = one.settlement
      const { organization, key } = account
      const ending = { id, organization, key, admittedMs, endedMs: now, kind: 'settled' } as const
      rows.add(settledRow(ending, charge, heldMicroUsd))
      const served = usageRowOf(one.settlement)
      if (served !== undefined) usage.add(served, served)
      group.push(one)
      if (group.length < INSERTED_AT_ONCE) continue
      this.insert(this.statements.insertGroup, group, now)
      group = []
    }
    for (const one of group) this.insert(this.statements.insert, [one], now)
    this.writer.batch(rows)
  }

  /** `statement` inserts as many entries as there are in `group`. */
  private insert(statement: Statement, group: readonly Waiting[], now: number): void {
    const values: (string | number | null)[] = []
    for (const { settlement, isSent } of group) {
      const { organization } = settlement.account
      values.push(now + FIRST_WAY_MS, isSent ? now : null, organization, settlementText(settlement))
    }
    // SQLite numbers the rows of one statement in a sequence.
    let number = Number(statement.run(...values).lastInsertRowid) - group.length
    for (const { settlement } of group) this.place(settlement.id, ++number)
  }
}

function insertSql(count: number): string {
  const entries = Array.from({ length: count }, () => '(0, ?, ?, ?, ?)')
  return `INSERT INTO outbox (state, due_ms, sent_ms, organization, entry) VALUES ${entries.join(', ')}`
}

function prepare(database: Database) {
  return {
    // The state is a literal, as in the index: with a parameter SQLite would read the whole table, 15 minutes of
    // requests.
    count: database.query<{ n: number }, []>('SELECT count(*) AS n FROM outbox WHERE state = 0'),
    insert: database.query(insertSql(1)),
    insertGroup: database.query(insertSql(INSERTED_AT_ONCE)),
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

/** The settlement of a row, to be sent. */
function loggedSettlement(row: AuditRow): Settlement {
  const { id, organization, key, admittedMs, costMicroUsd, overageMicroUsd } = row
  const account = { organization, organizationLimits: {}, key, keyLimits: {} }
  return {
    id,
    account,
    admittedMs,
    charge: chargeOfRow(row),
    heldMicroUsd: Math.max(0, costMicroUsd - overageMicroUsd),
  }
}

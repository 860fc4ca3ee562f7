/**
 * The log of a gateway whose ledger is in Redis: each settlement is written here before it is sent, resent until Redis
 * acknowledges it, and then marked. It is the record of what this gateway served. Several processes of one machine may
 * share the file, because Redis takes a settlement once, however often it is sent.
 */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { HOUR_MS } from '../../../core/durations.ts'
import { turn } from '../../../core/event-loop.ts'
import { requestTimeMs } from '../../../core/request-id.ts'
import { fileIdentity, openDatabase } from '../../../sqlite/database.ts'
import { GroupCommit } from '../../../sqlite/group-commit.ts'
import { settledValues } from '../../audit-columns.ts'
import { findRows, type TimeSpan } from '../../request-table.ts'
import { LogWriter, ROWS_KEPT_MS, UsageSums } from '../../request-writer.ts'
import { usageOf } from '../../usage-figures.ts'
import { placeOf, type UsagePlace, type UsageRow } from '../../usage-log.ts'
import { dayOf } from '../../window.ts'
import { UNKNOWN_EPOCH } from '../protocol/epochs.ts'
import type {
  CommitListener,
  Expected,
  FoundOfNode,
  KnownEpoch,
  LackingListener,
  NodeLog,
  Pending,
} from '../protocol/node-log.ts'
import { type Settlement, settlementOfRow } from '../protocol/settlement.ts'
import { EpochRows } from './epoch-rows.ts'
import { LogTail } from './log-tail.ts'
import { OutboxEntries } from './outbox-entries.ts'
import { type Group, OutboxGroups } from './outbox-groups.ts'
import { OUTBOX_FILE, OUTBOX_SCHEMA } from './outbox-schema.ts'
import { RESEND_MAX } from './reconcile.ts'

/** Settlements that may wait for their commit; beyond it the ledger takes no new requests. About 10 MB. */
export const PENDING_MAX = 10_000
/** How long after it is written an entry is due to be resent, unless Redis acknowledged it. */
const FIRST_WAY_MS = 2000
/** The pause before an entry is resent that the server refuses because other data are under our keys. */
const POSTPONED_MS = 60_000
/** How long an acknowledged entry is kept, to be resent if the server lost it. */
const TAKEN_KEPT_MS = 900_000
/**
 * Rows are searched from `CLOCKS_APART_MS` before a request's admission to `LONGEST_REQUEST_MS` after it. Those of
 * longer requests, and of requests that were admitted by a clock that is further off, are listed in `far_row`.
 */
const LONGEST_REQUEST_MS = 3_600_000
const CLOCKS_APART_MS = 5000
/** Groups that one commit splits. */
const SPLIT_AT_ONCE = 5
/** How long organisations enter epochs in one transaction, and in one turn of the event loop. */
const ENTERING_MS = 10
/** Entries whose row numbers are kept in memory: more than can be in flight. */
const PLACES_MAX = 4 * PENDING_MAX

interface Mark {
  readonly id: string
  readonly as: 'taken' | 'sent' | 'postponed'
  /** For `taken`: the organisation, and the epoch in which Redis took it. */
  readonly organization: string
  readonly epoch: number
}

interface Waiting {
  readonly settlement: Settlement
  readonly isSent: boolean
  readonly listener: CommitListener
  /** A commit failed: it may be sent already. */
  isReleased: boolean
}

/** An organisation that enters an epoch. */
interface Entering {
  readonly organization: string
  readonly epoch: number
  readonly found: FoundOfNode
  readonly resent: readonly Settlement[]
  readonly lacking: LackingListener | undefined
  readonly resolve: (rows: readonly UsageRow[]) => void
  readonly reject: (error: unknown) => void
}

export class Outbox implements NodeLog {
  /** The place of the file, which no copy shares. */
  readonly home: string
  private readonly database: Database
  private readonly writer: LogWriter
  private readonly epochs: EpochRows
  private readonly tail: LogTail
  private readonly groups: OutboxGroups
  private readonly entries: OutboxEntries
  private readonly group: GroupCommit
  private readonly farRows: ReturnType<typeof prepareFarRows>
  private farRowsDroppedMs = 0
  // New lists for each commit, not maps: see `MemberList` for what those would cost the collector.
  private waiting: Waiting[] = []
  private marks: Mark[] = []
  /** Epochs to which everything was given back. */
  private completed: { readonly organization: string; readonly epoch: number }[] = []
  /** The next commit deletes entries that were acknowledged long ago. */
  private forgets = false
  /** The next commit splits more groups. */
  private areMoreDue = false
  /** Those that wait for a transaction, in their order. */
  private entering: Entering[] = []

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
    this.tail = new LogTail(this.database, now)
    this.epochs = new EpochRows(this.database, this.tail)
    this.farRows = prepareFarRows(this.database)
    this.entries = new OutboxEntries(this.database, PLACES_MAX)
    this.groups = new OutboxGroups(this.database, (...entry) => this.entries.insert(...entry))
    const gathered = {
      write: () => this.write(),
      written: () => this.written(),
      failed: () => {
        this.groups.rolledBack()
        for (const one of this.waiting) one.isReleased = true
        release(this.waiting)
      },
    }
    this.group = new GroupCommit(this.database, path, gathered)
  }

  get uncommitted(): number {
    return this.waiting.length
  }

  get complaint(): string | undefined {
    return this.group.complaint
  }

  pendingCount(): number {
    return this.entries.count + this.groups.pendingCount()
  }

  add(settlement: Settlement, isSent: boolean, listener: CommitListener): void {
    this.waiting.push({ settlement, isSent, listener, isReleased: false })
    this.group.soon()
  }

  sent(id: string): void {
    this.mark(id, 'sent')
  }

  taken(id: string, organization: string, epoch: number): void {
    this.mark(id, 'taken', organization, epoch)
  }

  postponed(id: string): void {
    this.mark(id, 'postponed')
  }

  pending(most: number, early = false): readonly Pending[] {
    if (early) this.transaction(() => this.groups.splitAll())
    else if (this.groups.isAnyDue(this.now())) this.transaction(() => this.groups.splitDue(this.now()))
    return this.entries.due(early ? Number.MAX_SAFE_INTEGER : this.now(), most)
  }

  resent(organization: string): readonly Pending[] {
    return this.entries.resent(organization)
  }

  standing(settlement: Settlement): Pending | undefined {
    const { id } = settlement
    // An entry that is not in the file is in no sums either.
    if (this.waiting.some((one) => one.settlement.id === id)) return { settlement, epoch: 0, wasSent: false }
    const group = this.groups.of(id)
    if (group !== undefined) {
      const { organization } = settlement.account
      if (this.groups.isStored(group)) return { settlement, epoch: this.epochOf(organization).epoch, wasSent: true }
      this.transaction(() => this.groups.adopt(group))
    }
    return this.entries.standing(id)
  }

  forget(): void {
    this.tail.release()
    // A commit writes and flushes; without this an idle machine would do so 4 times a second.
    if (!this.entries.isAnyTakenBefore(this.now() - TAKEN_KEPT_MS)) return
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
    const known = new Map<string, number>()
    const times: number[] = []
    for (const [id, ms] of admittedMs) {
      const batch = this.farRows.find.get(id)?.batch
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

  async prepare(organization: string, epoch: number, found: FoundOfNode): Promise<void> {
    // What an earlier version had sent is decided entry by entry when the first epoch is entered.
    const { epoch: known, legacyEpoch } = this.epochOf(organization)
    if (found.isLegacy && known === 0) return
    if (known !== 0 || legacyEpoch !== 0) await this.tail.read()
    if (this.groups.isAnyOf(organization)) this.transaction(() => this.groups.splitOf(organization))
    let left = this.entries.countOf(organization) - RESEND_MAX
    for (let after = 0; left > 0; await turn()) {
      const absorbed = this.transaction(() => this.epochs.absorb(organization, epoch, found, after))
      if (absorbed === undefined) return
      after = absorbed.last
      left -= absorbed.count
    }
  }

  enter(
    organization: string,
    epoch: number,
    found: FoundOfNode,
    resent: readonly Settlement[],
    lacking?: LackingListener,
  ): Promise<readonly UsageRow[]> {
    return new Promise((resolve, reject) => {
      this.entering.push({ organization, epoch, found, resent, lacking, resolve, reject })
      if (this.entering.length === 1) setImmediate(() => this.enterSome())
    })
  }

  /** Lets those that wait enter, in one transaction for as many as one turn of the event loop has time for. */
  private enterSome(): void {
    const { entering } = this
    // Marks of the epochs before must be in the file now, or be written after the new ones are entered.
    if (!this.commit()) {
      this.entering = []
      for (const one of entering) this.enterUnwritten(one)
      return
    }
    const count = this.enterUntil(performance.now() + ENTERING_MS) ?? this.enterUntil(0) ?? 1
    this.entering = this.entering.slice(count)
    if (this.entering.length > 0) setImmediate(() => this.enterSome())
  }

  /**
   * Lets the first enter, and more until a time. Returns how many did. If one of several fails, none has entered: then
   * it returns undefined, and the first must be tried alone.
   */
  private enterUntil(untilMs: number): number | undefined {
    const { entering } = this
    const given: (readonly UsageRow[])[] = []
    let tried = 0
    try {
      this.transaction(() => {
        for (const { organization, epoch, found, resent, lacking } of entering) {
          if (tried > 0 && performance.now() > untilMs) break
          tried += 1
          this.groups.splitOf(organization)
          given.push(this.epochs.enter(organization, epoch, found, resent, lacking))
        }
      })
    } catch (error) {
      // The commit may fail after all of them have entered, as on a full disk.
      if (tried > 1) return undefined
      entering[0]?.reject(error)
      return 1
    }
    for (const [i, rows] of given.entries()) entering[i]?.resolve(rows)
    return given.length
  }

  /** An organisation without usage has nothing to give back, so it is served even while the disk is full. */
  private enterUnwritten({ organization, resolve, reject }: Entering): void {
    try {
      const known = this.epochOf(organization)
      if (known.epoch === 0 && known.legacyEpoch === 0 && this.places(organization).length === 0) return resolve([])
      throw new Error(`The outbox cannot be written: ${this.complaint}.`)
    } catch (error) {
      reject(error)
    }
  }

  entered(organization: string, epoch: number): void {
    this.completed.push({ organization, epoch })
    this.group.soon()
  }

  commit(): boolean {
    return this.group.commit()
  }

  close(): void {
    this.group.close()
  }

  /** Runs what may split groups. */
  private transaction<T>(work: () => T): T {
    try {
      const result = this.database.transaction(work).immediate()
      this.placeWritten()
      return result
    } catch (error) {
      this.groups.rolledBack()
      throw error
    }
  }

  private placeWritten(): void {
    for (const [id, number] of this.groups.committed()) this.entries.place(id, number)
  }

  private written(): void {
    this.placeWritten()
    for (const { id, as } of this.marks) if (as !== 'sent') this.entries.forgetNumber(id)
    const { waiting } = this
    this.waiting = []
    this.marks = []
    this.completed = []
    this.forgets = false
    release(waiting)
    if (this.areMoreDue) this.group.soon()
    this.areMoreDue = false
  }

  private mark(id: string, as: Mark['as'], organization = '', epoch = UNKNOWN_EPOCH): void {
    this.marks.push({ id, as, organization, epoch })
    this.group.soon()
  }

  private write(): void {
    const now = this.now()
    const usage = new UsageSums()
    this.put(now, usage)
    this.writeMarks(now)
    for (const { organization, epoch } of this.completed) this.epochs.completed(organization, epoch)
    if (this.groups.isAnyDue(now)) this.areMoreDue = this.groups.splitDue(now, SPLIT_AT_ONCE)
    if (this.forgets) this.entries.forgetBefore(now - TAKEN_KEPT_MS)
    usage.each((place, figures) => {
      this.writer.usage(place, figures)
      this.epochs.served(place.organization, figures.requests)
    })
    this.writer.dropOld(now)
    this.dropFarRows(now)
    // If the clock is far ahead, recent days are not folded: the day of what Redis loses would be unknown.
    const foldedBefore = this.writer.foldOld(now, Math.min(dayOf(now), this.epochs.newestDay()))
    if (foldedBefore !== undefined) this.epochs.folded(foldedBefore)
  }

  private writeMarks(now: number): void {
    const { entries, groups } = this
    const isIn = this.epochs.look()
    const taken: number[] = []
    const stored = new Map<Group, boolean>()
    for (const mark of this.marks) {
      const { id, as } = mark
      const isTaken = as === 'taken' && isIn(mark.organization, mark.epoch)
      const group = groups.of(id)
      if (group !== undefined) {
        const isStored = stored.get(group) ?? groups.isStored(group)
        stored.set(group, isStored)
        // A group has only settlements that were sent: that need not be marked.
        if (isStored && (isTaken || as === 'sent')) {
          if (isTaken) groups.acknowledge(id, group)
          continue
        }
        if (isStored) groups.split(group)
        else groups.adopt(group)
      }
      const number = groups.numberOf(id) ?? entries.numberOf(id)
      if (isTaken) taken.push(number)
      else if (as === 'sent') entries.sent(number, now)
      else if (as === 'postponed') entries.postpone(number, now + POSTPONED_MS)
    }
    groups.deleteDone()
    entries.taken(taken, now)
  }

  private put(now: number, usage: UsageSums): void {
    const grouped: (readonly (string | number)[])[] = []
    const single: (readonly (string | number)[])[] = []
    const group: Settlement[] = []
    const far: { readonly id: string; readonly rows: unknown }[] = []
    for (const { settlement, isSent, isReleased } of this.waiting) {
      const { id, account, admittedMs, charge, heldMicroUsd } = settlement
      const { organization, key } = account
      // After a commit that failed it may be marked already.
      const isOfGroup = isSent && !isReleased
      const rows = isOfGroup ? grouped : single
      rows.push(settledValues({ id, organization, key, admittedMs }, 'settled', now, charge, heldMicroUsd))
      if (now < admittedMs - CLOCKS_APART_MS || now > admittedMs + LONGEST_REQUEST_MS) far.push({ id, rows })
      const figures = usageOf(charge)
      if (figures !== undefined) usage.add(placeOf(settlement), figures)
      if (isOfGroup) group.push(settlement)
      else this.entries.place(id, this.entries.insert(settlement, now + FIRST_WAY_MS, isSent ? now : null))
    }
    const groupedIn = group.length > 0 ? this.writer.rows(JSON.stringify(grouped), now) : 0
    if (group.length > 0) this.groups.add(groupedIn, group, now + FIRST_WAY_MS)
    const singleIn = single.length > 0 ? this.writer.rows(JSON.stringify(single), now) : 0
    for (const { id, rows } of far) this.farRows.add.run(id, rows === grouped ? groupedIn : singleIn)
  }

  /** Drops those whose rows are dropped, once an hour. */
  private dropFarRows(now: number): void {
    if (Math.abs(now - this.farRowsDroppedMs) < HOUR_MS) return
    this.farRowsDroppedMs = now
    this.farRows.drop.run()
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

function release(waiting: readonly Waiting[]): void {
  for (const { listener } of waiting) listener.committed()
}

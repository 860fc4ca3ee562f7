/**
 * The log of a gateway whose ledger is in Redis: each settlement is written here before it is sent, resent until Redis
 * acknowledges it, and then marked. It is the record of what this gateway served. Several processes of one machine may
 * share the file, because Redis takes a settlement once, however often it is sent.
 */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { turn } from '../../../core/event-loop.ts'
import { fileIdentity, openDatabase } from '../../../sqlite/database.ts'
import { GroupCommit } from '../../../sqlite/group-commit.ts'
import { settledValues } from '../../audit-columns.ts'
import { LogWriter, ROWS_KEPT_MS, UsageSums } from '../../request-writer.ts'
import { usageOf } from '../../usage-figures.ts'
import { placeOf } from '../../usage-log.ts'
import { dayOf } from '../../window.ts'
import type { GivenRow, KeptCounters } from '../protocol/counter-spend.ts'
import { UNKNOWN_EPOCH } from '../protocol/epochs.ts'
import type { CommitListener, FoundOfNode, LackingListener, NodeLog, Pending } from '../protocol/node-log.ts'
import type { Settlement } from '../protocol/settlement.ts'
import { CounterRows, CounterSums } from './counter-rows.ts'
import { EpochEntrance } from './epoch-entrance.ts'
import { EpochRows } from './epoch-rows.ts'
import { LogTail } from './log-tail.ts'
import { OutboxEntries } from './outbox-entries.ts'
import { type Group, OutboxGroups } from './outbox-groups.ts'
import { OUTBOX_FILE, OUTBOX_SCHEMA } from './outbox-schema.ts'
import { RESEND_MAX } from './reconcile.ts'
import { isFar, RowFinder } from './row-finder.ts'

/** Settlements that may wait for their commit; beyond it the ledger takes no new requests. About 10 MB. */
export const PENDING_MAX = 10_000
/** How long after it is written an entry is due to be resent, unless Redis acknowledged it. */
const FIRST_WAY_MS = 2000
/** The pause before an entry is resent that the server refuses because other data are under our keys. */
const POSTPONED_MS = 60_000
/** How long an acknowledged entry is kept, to be resent if the server lost it. */
const TAKEN_KEPT_MS = 900_000
/** Groups that one commit splits. */
const SPLIT_AT_ONCE = 5
/** Entries whose row numbers are kept in memory: more than can be in flight. */
const PLACES_MAX = 4 * PENDING_MAX

/** What became of a settlement that was sent. */
interface Fate {
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

export class Outbox implements NodeLog {
  /** The place of the file, which no copy shares. */
  readonly home: string
  readonly epochs: EpochRows
  private readonly database: Database
  private readonly writer: LogWriter
  private readonly tail: LogTail
  private readonly counterRows: CounterRows
  private readonly groups: OutboxGroups
  private readonly entries: OutboxEntries
  private readonly group: GroupCommit
  private readonly rows: RowFinder
  private readonly entrance: EpochEntrance
  // New lists for each commit, not maps: see `MemberList` for what those would cost the collector.
  private waiting: Waiting[] = []
  private fates: Fate[] = []
  /** Epochs to which everything was given back. */
  private completed: { readonly organization: string; readonly epoch: number }[] = []
  /** The next commit deletes entries that were acknowledged long ago. */
  private forgets = false
  /** The next commit splits more groups. */
  private areMoreDue = false

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
    this.counterRows = new CounterRows(this.database)
    this.epochs = new EpochRows(this.database, this.tail, this.counterRows, now)
    this.rows = new RowFinder(this.database, this.tail)
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
    this.entrance = new EpochEntrance(this.epochs, this.groups, this.group, (work) => this.transaction(work))
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
    this.note(id, 'sent')
  }

  taken(id: string, organization: string, epoch: number): void {
    this.note(id, 'taken', organization, epoch)
  }

  postponed(id: string): void {
    this.note(id, 'postponed')
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
      if (this.groups.isStored(group)) return { settlement, epoch: this.epochs.of(organization).epoch, wasSent: true }
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

  counters(organization: string): readonly string[] {
    return this.counterRows.names(organization)
  }

  endingCounters(): ReadonlyMap<string, readonly string[]> {
    return this.counterRows.ending(this.now())
  }

  keepCounters(organization: string, keptMs: KeptCounters['keptMs']): void {
    this.transaction(() => this.counterRows.keep(organization, keptMs, this.now()))
  }

  find(organization: string, admittedMs: ReadonlyMap<string, number>): Promise<readonly Settlement[]> {
    return this.rows.find(organization, admittedMs)
  }

  async prepare(organization: string, epoch: number, found: FoundOfNode): Promise<void> {
    // What an earlier version had sent is decided entry by entry when the first epoch is entered.
    const { epoch: known, legacyEpoch } = this.epochs.of(organization)
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
  ): Promise<readonly GivenRow[]> {
    return this.entrance.enter({ organization, epoch, found, resent, lacking })
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
    for (const { id, as } of this.fates) if (as !== 'sent') this.entries.forgetNumber(id)
    const { waiting } = this
    this.waiting = []
    this.fates = []
    this.completed = []
    this.forgets = false
    release(waiting)
    if (this.areMoreDue) this.group.soon()
    this.areMoreDue = false
  }

  private note(id: string, as: Fate['as'], organization = '', epoch = UNKNOWN_EPOCH): void {
    this.fates.push({ id, as, organization, epoch })
    this.group.soon()
  }

  private write(): void {
    const now = this.now()
    const usage = new UsageSums()
    const spends = new CounterSums()
    this.put(now, usage, spends)
    this.counterRows.add(spends, now)
    this.writeFates(now)
    for (const { organization, epoch } of this.completed) this.epochs.completed(organization, epoch)
    if (this.groups.isAnyDue(now)) this.areMoreDue = this.groups.splitDue(now, SPLIT_AT_ONCE)
    if (this.forgets) this.entries.forgetBefore(now - TAKEN_KEPT_MS)
    usage.each((place, figures) => {
      this.writer.usage(place, figures)
      this.epochs.served(place.organization, figures.requests)
    })
    this.writer.dropOld(now)
    this.rows.dropFar(now)
    // If the clock is far ahead, recent days are not folded: the day of what Redis loses would be unknown.
    const foldedBefore = this.writer.foldOld(now, Math.min(dayOf(now), this.epochs.newestDay()))
    if (foldedBefore !== undefined) this.epochs.folded(foldedBefore)
  }

  private writeFates(now: number): void {
    const { entries, groups } = this
    const isIn = this.epochs.look()
    const taken: number[] = []
    const stored = new Map<Group, boolean>()
    for (const fate of this.fates) {
      const { id, as } = fate
      const isTaken = as === 'taken' && isIn(fate.organization, fate.epoch)
      const group = groups.of(id)
      if (group !== undefined) {
        const isStored = stored.getOrInsertComputed(group, () => groups.isStored(group))
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

  private put(now: number, usage: UsageSums, spends: CounterSums): void {
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
      if (isFar(admittedMs, now)) far.push({ id, rows })
      const figures = usageOf(charge)
      if (figures !== undefined) usage.add(placeOf(settlement), figures)
      spends.add(settlement)
      if (isOfGroup) group.push(settlement)
      else this.entries.place(id, this.entries.insert(settlement, now + FIRST_WAY_MS, isSent ? now : null))
    }
    const groupedIn = group.length > 0 ? this.writer.rows(JSON.stringify(grouped), now) : 0
    if (group.length > 0) this.groups.add(groupedIn, group, now + FIRST_WAY_MS)
    const singleIn = single.length > 0 ? this.writer.rows(JSON.stringify(single), now) : 0
    for (const { id, rows } of far) this.rows.addFar(id, rows === grouped ? groupedIn : singleIn)
  }
}

function release(waiting: readonly Waiting[]): void {
  for (const { listener } of waiting) listener.committed()
}

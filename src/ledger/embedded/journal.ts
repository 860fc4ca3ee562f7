/**
 * The embedded ledger's journal: collects the changes of the store in memory and appends them together to a file, one
 * line every 20 ms. A kill loses at most the changes since the last line. A full disk loses none: they wait, up to
 * `PENDING_MAX`. SQLite gets them a second later, many groups in one transaction; readers read both.
 */

import type { Database } from 'bun:sqlite'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../core/error-message.ts'
import { MemberList } from '../../core/member-list.ts'
import { hasCode } from '../../core/system-error.ts'
import { type AuditRow, type Charge, type EndKind, noCharge, settledRow, settledValues } from '../audit-columns.ts'
import { readRecentIds } from '../request-table.ts'
import { LogWriter, ROWS_KEPT_MS, RowBatch, UsageSums } from '../request-writer.ts'
import { figureValues, type UsageFigures } from '../usage-figures.ts'
import { partsOf } from '../usage-series.ts'
import { dayOf } from '../window.ts'
import { CrossingWriter, crossingValues } from './crossing-table.ts'
import { type Disk, JournalFile, realDisk } from './journal-file.ts'
import { openLedgerDatabase } from './ledger-database.ts'
import { chargedMicroUsd } from './reservation-moves.ts'
import {
  LEDGER_FILE,
  liveValues,
  readApplied,
  readReservations,
  readScopes,
  StateWriter,
  scopeValues,
} from './state-tables.ts'
import { type Changes, NO_CROSSINGS, type ReservationState, type ScopeState } from './store-state.ts'

/** Ended requests that may wait for the file, about 5 MB. With more, the ledger rejects new requests. */
export const PENDING_MAX = 10_000
/** The same for those that are in the journal and not in SQLite, about 20 MB: SQLite has failed for long. */
const UNFILLED_MAX = 100_000
const COMMIT_MS = 20
/** The pause after a failed write. */
const RETRY_MS = 250
/**
 * SQLite gets the changes of this time together. A state that changes meanwhile is written once, and most reservations
 * never: a transaction after each group took a third more CPU at 3,000 requests a second.
 */
const FILL_MS = 1000
/** With this many states or requests SQLite gets them at once: a transaction takes at most 2 or 3 ms. */
const FILL_STATES = 1000
const FILL_ROWS = 4000
/** The size at which a new file begins. Readers, and a start after a kill, read at most two of this size. */
const ROTATE_BYTES = 4 * 1024 * 1024
/** How long SQLite may block the process if another one has the file locked. */
const BUSY_MS = 20
/**
 * A worker repeats to a new owner what it has heard no end of. It hears of an end milliseconds after it is in the file,
 * so the ids of requests that ended in this time suffice to take none twice.
 */
const RECENT_MS = 10_000
/** How long the state of the journal at the start is reported. */
const NOTICE_MS = 10_000

interface JournalOptions {
  /** How long single requests are kept. */
  readonly keepMs?: number | undefined
  /** Called whenever changes have been appended to the file. */
  readonly appended?: (() => void) | undefined
  /** The size at which a new file begins, and the disk; for tests. */
  readonly rotateBytes?: number
  readonly disk?: Disk
}

export class Journal implements Changes {
  private readonly database: Database
  private readonly log: LogWriter
  private readonly state: StateWriter
  private readonly crossings: CrossingWriter
  private readonly file: JournalFile
  /** SQLite's write-ahead log, to flush it. */
  private readonly wal: number
  /** Changes that are not in the file yet; states with the mark `isChanged`. */
  private scopes: ScopeState[] = []
  private reservations: ReservationState[] = []
  private usage = new UsageSums()
  private readonly rows = new RowBatch()
  /** Changes that are in the file and not in SQLite. */
  private readonly unfilled = new Unfilled()
  /** The number of the last group. */
  private number: number
  private timer: ReturnType<typeof setTimeout> | undefined
  private fillTimer: ReturnType<typeof setTimeout> | undefined
  private readonly onAppended: (() => void) | undefined
  private readonly rotateBytes: number
  private readonly disk: Disk
  private isClosed = false
  private failure: string | undefined
  private fillFailure: string | undefined
  private readonly notice: string | undefined
  private readonly openedMs = performance.now()

  /** `now` is the store's clock. Throws `LedgerFileError`. */
  constructor(
    directory: string,
    private readonly now: () => number,
    { keepMs = ROWS_KEPT_MS, appended, rotateBytes = ROTATE_BYTES, disk = realDisk }: JournalOptions = {},
  ) {
    const { database, notice } = openLedgerDatabase(directory)
    this.database = database
    this.notice = notice
    // What another process has locked can wait, for the journal has it. Streams cannot.
    database.run(`PRAGMA busy_timeout = ${BUSY_MS}`)
    this.number = readApplied(database)
    this.onAppended = appended
    this.rotateBytes = rotateBytes
    this.disk = disk
    this.log = new LogWriter(database, keepMs)
    this.state = new StateWriter(database)
    this.crossings = new CrossingWriter(database)
    this.file = new JournalFile(directory, disk)
    this.wal = openSync(`${join(directory, LEDGER_FILE)}-wal`, 'r')
  }

  /** Ended requests that are not in the file yet. */
  get pending(): number {
    return this.rows.size
  }

  /** Whether all changes are in the file. */
  get isWritten(): boolean {
    return this.scopes.length === 0 && this.reservations.length === 0 && this.rows.size === 0
  }

  /** Why the last write or flush failed; undefined if it succeeded. */
  get complaint(): string | undefined {
    const isNew = performance.now() - this.openedMs < NOTICE_MS
    return this.failure ?? this.fillFailure ?? this.file.complaint ?? (isNew ? this.notice : undefined)
  }

  /** True if too many changes wait because a file cannot be written. */
  get isFull(): boolean {
    return this.rows.size > PENDING_MAX || this.unfilled.rowCount > UNFILLED_MAX
  }

  scope(scope: ScopeState): void {
    if (scope.isChanged) return
    scope.isChanged = true
    this.scopes.push(scope)
    this.soon(COMMIT_MS)
  }

  reservation(reservation: ReservationState): void {
    if (reservation.isChanged) return
    reservation.isChanged = true
    this.reservations.push(reservation)
    this.soon(COMMIT_MS)
  }

  /** Ended reservations are not in the files, and lost ones leave them when their time is over. */
  forgotten(): void {}

  used(reservation: ReservationState, series: string, figures: UsageFigures): void {
    const { organization, key } = reservation
    this.usage.add({ day: dayOf(reservation.admittedMs), organization, key, series }, figures)
  }

  ended(reservation: ReservationState, kind: EndKind, charge: Charge | undefined, now: number): void {
    if (charge === undefined) this.rows.add(lostRow(reservation, kind, now))
    else this.rows.addValues(settledValues(reservation, kind, now, charge, reservation.held.micro_usd), now)
    this.soon(COMMIT_MS)
  }

  /** The state that the last process left. */
  load() {
    const reservations = [...readReservations(this.database, 'live'), ...readReservations(this.database, 'lost')]
    return { scopes: readScopes(this.database), reservations }
  }

  /** The ids of the requests that ended in the last seconds before the last one that did. */
  recentlyEnded(): ReadonlySet<string> {
    return new Set(readRecentIds(this.database, RECENT_MS))
  }

  /** Appends the changes to the file; if that fails, they are kept and it is retried. */
  commit(): void {
    if (!this.append()) return
    const isMuch = this.unfilled.stateCount >= FILL_STATES || this.unfilled.rowCount >= FILL_ROWS
    if (isMuch && this.fillFailure === undefined) this.fill()
    else this.fillTimer ??= setTimeout(() => this.fill(), FILL_MS)
  }

  /** Appends the changes to the file, and writes all that SQLite lacks. False if one of them failed. */
  fill(): boolean {
    clearTimeout(this.fillTimer)
    this.fillTimer = undefined
    // The states in memory are those of the last group only at this moment.
    if (!this.append()) return false
    try {
      this.database.transaction(() => this.write()).immediate()
      this.filled()
      if (this.file.size >= this.rotateBytes) this.file.rotate(this.wal)
      this.fillFailure = undefined
      return true
    } catch (error) {
      this.fillFailure = problemOf(error)
      if (!this.isClosed) this.fillTimer ??= setTimeout(() => this.fill(), RETRY_MS)
      return false
    }
  }

  /** Writes what waits, unless that has failed and will be retried. False if changes wait still. */
  makeRoom(): boolean {
    return this.failure === undefined && this.fillFailure === undefined && this.fill()
  }

  /** Writes everything for the last time. Throws if that fails: what is not in the file either is lost. */
  close(): void {
    this.isClosed = true
    const isFilled = this.fill()
    const lost = this.failure
    clearTimeout(this.timer)
    clearTimeout(this.fillTimer)
    if (isFilled) {
      this.database.run('PRAGMA wal_checkpoint(TRUNCATE)')
      // A reader in another process may have prevented the checkpoint, and the journal goes.
      this.disk.flushNow(this.wal)
    }
    this.database.close()
    closeSync(this.wal)
    this.file.close(isFilled)
    if (lost !== undefined)
      throw new Error(`The last commit of the ledger's file failed, and its changes are lost: ${lost}.`)
  }

  private soon(ms: number): void {
    if (this.timer === undefined && !this.isClosed) this.timer = this.commitIn(ms)
  }

  /** Apart, because a method with a function in it makes its surroundings an object, and `soon` is for each change. */
  private commitIn(ms: number): ReturnType<typeof setTimeout> {
    return setTimeout(() => this.commit(), ms)
  }

  private append(): boolean {
    clearTimeout(this.timer)
    this.timer = undefined
    if (this.isWritten) return true
    const rows = this.rows.read()
    const nowMs = this.now()
    const crossings = this.scopes.flatMap((scope) => crossingValues(scope, nowMs))
    try {
      this.file.append(this.group(rows, crossings), this.number + 1)
    } catch (error) {
      this.failure = problemOf(error)
      this.soon(RETRY_MS)
      return false
    }
    this.failure = undefined
    this.number += 1
    this.appended(rows, crossings)
    this.onAppended?.()
    return true
  }

  /** A group as the JSON text of its line. */
  private group({ rows, endedMs }: Rows, crossings: Crossings): string {
    const scopes = this.scopes.map(scopeValues)
    const live: (readonly (string | number)[])[] = []
    const lost: (readonly (string | number)[])[] = []
    for (const one of this.reservations) {
      if (one.state === 'live') live.push(liveValues(one))
      else if (one.state === 'lost') lost.push(liveValues(one))
    }
    const usage: (readonly (string | number)[])[] = []
    this.usage.each(({ day, organization, key, series }, figures) =>
      usage.push([day, organization, key, series, ...figureValues(figures)]),
    )
    return (
      `{"number":${this.number + 1},"synced":${this.file.synced},"endedMs":${endedMs},` +
      `"scopes":${JSON.stringify(scopes)},"live":${JSON.stringify(live)},"usage":${JSON.stringify(usage)},` +
      `${lost.length === 0 ? '' : `"lost":${JSON.stringify(lost)},`}` +
      `${crossings.length === 0 ? '' : `"crossings":${JSON.stringify(crossings)},`}"rows":${rows}}`
    )
  }

  private appended(rows: Rows, crossings: Crossings): void {
    const { unfilled } = this
    for (const scope of this.scopes) {
      scope.isChanged = false
      scope.crossings = NO_CROSSINGS
      unfilled.scopes.add(scope)
    }
    for (const one of this.reservations) {
      one.isChanged = false
      if (one.isStored || isKept(one)) unfilled.reservations.add(one)
      else unfilled.reservations.remove(one)
    }
    this.usage.each((place, figures) => unfilled.usage.add(place, figures))
    unfilled.crossings.push(...crossings)
    if (this.rows.size > 0) {
      unfilled.batches.push(rows)
      unfilled.rowCount += this.rows.size
      this.rows.clear()
    }
    this.scopes = []
    this.reservations = []
    this.usage = new UsageSums()
  }

  private write(): void {
    const { unfilled, state, log } = this
    for (const scope of unfilled.scopes) state.scope(scope)
    for (const one of unfilled.reservations.snapshot()) {
      if (isKept(one)) state.keep(one)
      else state.drop(one.id)
    }
    for (const { rows, endedMs } of unfilled.batches) log.rows(rows, endedMs)
    unfilled.usage.each((place, figures) => log.usage(place, figures))
    for (const values of unfilled.crossings) this.crossings.add(values)
    this.crossings.dropOld(this.now())
    state.dropLostBefore(this.now())
    state.applied(this.number)
    log.dropOld(this.now())
    log.foldOld(this.now())
    log.foldHours(this.now())
  }

  private filled(): void {
    const { unfilled } = this
    for (const one of unfilled.reservations.snapshot()) {
      one.isStored = isKept(one)
      unfilled.reservations.remove(one)
    }
    unfilled.clear()
  }
}

/** True for a reservation that the next process must know. */
function isKept({ state }: ReservationState): boolean {
  return state === 'live' || state === 'lost'
}

/** The rows of a group as JSON. */
type Rows = ReturnType<RowBatch['read']>
type Crossings = ReturnType<typeof crossingValues>

/** What SQLite gets next. */
class Unfilled {
  readonly scopes = new Set<ScopeState>()
  readonly reservations = new MemberList<ReservationState>()
  usage = new UsageSums()
  readonly batches: Rows[] = []
  readonly crossings: Crossings[number][] = []
  rowCount = 0

  get stateCount(): number {
    return this.scopes.size + this.reservations.size + this.usage.size
  }

  /** All but the reservations, which know whether they are in the list. */
  clear(): void {
    this.scopes.clear()
    this.usage = new UsageSums()
    this.batches.length = 0
    this.crossings.length = 0
    this.rowCount = 0
  }
}

/** In the words of SQLite, which has failed in the same way or will. */
function problemOf(error: unknown): string {
  if (hasCode(error, 'ENOSPC')) return 'database or disk is full'
  return messageOf(error)
}

/** The row of a reservation that was lost or cancelled: it shows the progress that was recorded. */
function lostRow(reservation: ReservationState, kind: EndKind, endedMs: number): AuditRow {
  const { id, organization, key, admittedMs, series, postedInput, postedOutput, held } = reservation
  const { model, tags } = partsOf(series)
  const charge: Charge = {
    ...noCharge('provider_cut'),
    model,
    tags,
    inputTokens: kind === 'lost' ? Math.max(postedInput, reservation.inputTokens) : postedInput,
    outputTokens: postedOutput,
    costMicroUsd: chargedMicroUsd(reservation),
    estimated: true,
  }
  const ending = { id, organization, key, admittedMs, endedMs, kind }
  return { ...settledRow(ending, charge, held.micro_usd), outcome: '' }
}

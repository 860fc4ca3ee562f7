/**
 * The embedded ledger's file: collects the changes of the store in memory and commits them together, one transaction
 * every 20 ms. A kill loses at most the changes since the last commit. A full disk loses none: they wait, up to
 * `PENDING_MAX`.
 */

import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { openDatabase } from '../../sqlite/database.ts'
import { GroupCommit } from '../../sqlite/group-commit.ts'
import { type AuditRow, type Charge, type Ending, type EndKind, noCharge, settledRow } from '../audit-columns.ts'
import { LogWriter, ROWS_KEPT_MS, RowBatch, UsageSums } from '../request-writer.ts'
import type { UsageFigures } from '../usage-figures.ts'
import { dayOf } from '../window.ts'
import type { Changes } from './memory-store.ts'
import { chargedMicroUsd } from './reservation-moves.ts'
import { LEDGER_FILE, LEDGER_SCHEMA, readLive, readScopes, StateWriter } from './state-tables.ts'
import type { ReservationState, ScopeState } from './store-state.ts'

/** Ended requests that may wait for their commit, about 5 MB. With more, the ledger rejects new requests. */
export const PENDING_MAX = 10_000

export class Journal implements Changes {
  private readonly database: Database
  private readonly writer: LogWriter
  private readonly state: StateWriter
  private readonly group: GroupCommit
  private readonly scopes = new Set<ScopeState>()
  private readonly live = new Map<string, ReservationState>()
  /** Ids that are live in the file. A reservation that begins and ends between two commits is never written. */
  private readonly inFile = new Set<string>()
  private readonly usage = new UsageSums()
  private readonly rows = new RowBatch()

  /** `now` is the store's clock; `keepMs` is how long single requests are kept. Throws `LedgerFileError`. */
  constructor(
    directory: string,
    private readonly now: () => number,
    keepMs = ROWS_KEPT_MS,
  ) {
    const path = join(directory, LEDGER_FILE)
    this.database = openDatabase(path, LEDGER_SCHEMA)
    this.writer = new LogWriter(this.database, keepMs)
    this.state = new StateWriter(this.database)
    this.group = new GroupCommit(this.database, path, {
      write: () => this.write(),
      written: () => this.written(),
      failed: () => undefined,
    })
  }

  /** Ended requests that are not in the file yet. */
  get pending(): number {
    return this.rows.size
  }

  /** Why the last commit failed; undefined if it succeeded. */
  get complaint(): string | undefined {
    return this.group.complaint
  }

  scope(scope: ScopeState): void {
    this.scopes.add(scope)
    this.group.soon()
  }

  reservation(reservation: ReservationState): void {
    this.live.set(reservation.id, reservation)
    this.group.soon()
  }

  /** Only live reservations are in the file: a new process gets no repeated or late calls for ended ones. */
  forgotten(): void {}

  used(reservation: ReservationState, model: string, figures: UsageFigures): void {
    const { organization, key } = reservation
    this.usage.add({ day: dayOf(reservation.admittedMs), organization, key, model }, figures)
  }

  ended(reservation: ReservationState, kind: EndKind, charge: Charge | undefined, now: number): void {
    const { id, organization, key, admittedMs, held } = reservation
    const ending = { id, organization, key, admittedMs, endedMs: now, kind }
    const row = charge === undefined ? lostRow(reservation, ending) : settledRow(ending, charge, held.micro_usd)
    this.rows.add(row)
    this.group.soon()
  }

  /** The state that the last process left. */
  load(): { readonly scopes: readonly ScopeState[]; readonly live: readonly ReservationState[] } {
    const live = readLive(this.database)
    for (const { id } of live) this.inFile.add(id)
    return { scopes: readScopes(this.database), live }
  }

  /** Commits now. */
  commit(): boolean {
    return this.group.commit()
  }

  /** Commits for the last time. Throws if that fails. */
  close(): void {
    this.group.close()
  }

  private written(): void {
    for (const { id, state } of this.live.values()) {
      if (state === 'live') this.inFile.add(id)
      else this.inFile.delete(id)
    }
    this.scopes.clear()
    this.live.clear()
    this.usage.clear()
    this.rows.clear()
  }

  private write(): void {
    for (const scope of this.scopes) this.state.scope(scope)
    for (const reservation of this.live.values()) {
      if (reservation.state === 'live') this.state.keep(reservation)
      else if (this.inFile.has(reservation.id)) this.state.drop(reservation.id)
    }
    this.writer.batch(this.rows)
    this.usage.each((place, figures) => this.writer.usage(place, figures))
    this.writer.dropOld(this.now())
    this.writer.foldOld(this.now())
  }
}

/** The row of a reservation that was lost or cancelled: it shows the progress that was recorded. */
function lostRow(reservation: ReservationState, ending: Ending): AuditRow {
  const { model, postedInput, postedOutput, held } = reservation
  const charge: Charge = {
    ...noCharge('provider_cut'),
    model,
    inputTokens: ending.kind === 'lost' ? Math.max(postedInput, reservation.inputTokens) : postedInput,
    outputTokens: postedOutput,
    costMicroUsd: chargedMicroUsd(reservation),
    estimated: true,
  }
  return { ...settledRow(ending, charge, held.micro_usd), outcome: '' }
}

/**
 * Opens the SQLite file of an embedded ledger for its owner. If the last process was killed, the journal has changes
 * that the file lacks: writes them first, once.
 */

import type { Database } from 'bun:sqlite'
import { closeSync, fdatasyncSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase } from '../../sqlite/database.ts'
import { LogWriter, ROWS_KEPT_MS } from '../request-writer.ts'
import { CROSSING_NAMES, CrossingWriter } from './crossing-table.ts'
import { hasJournal, JOURNAL_FILE, removeJournal } from './journal-file.ts'
import type { Group } from './journal-format.ts'
import { idOfRow, readJournal, tailOf, usageOfRow } from './journal-tail.ts'
import { LEDGER_FILE, LEDGER_SCHEMA, liveOf, type Row, readApplied, StateWriter, scopeOf } from './state-tables.ts'
import type { ReservationState } from './store-state.ts'

interface LedgerDatabase {
  readonly database: Database
  /** For the operator, if the journal's end was incomplete. */
  readonly notice: string | undefined
}

/** For the process that has the directory's lock. Throws `LedgerFileError`. */
export function openLedgerDatabase(directory: string): LedgerDatabase {
  const path = join(directory, LEDGER_FILE)
  const database = openDatabase(path, LEDGER_SCHEMA)
  try {
    return { database, notice: hasJournal(directory) ? replay(database, directory, path) : undefined }
  } catch (error) {
    database.close()
    throw error
  }
}

function replay(database: Database, directory: string, path: string): string | undefined {
  const tail = tailOf(readJournal(directory), readApplied(database), directory)
  if (tail.groups.length > 0) {
    const write = database.transaction(() => writeGroups(database, tail.groups))
    write.immediate()
  }
  flushLog(path)
  removeJournal(directory)
  if (tail.cutBytes === 0 && tail.cutGroups === 0) return undefined
  return (
    `The end of ${JOURNAL_FILE} was not written completely, because the machine or the process stopped. It was ` +
    `dropped (${tail.cutBytes} bytes, ${tail.cutGroups} later groups of changes).`
  )
}

/** Later groups have later states, so each scope and each reservation is written once. */
function writeGroups(database: Database, groups: readonly Group<Row>[]): void {
  const state = new StateWriter(database)
  const log = new LogWriter(database, ROWS_KEPT_MS)
  const crossings = new CrossingWriter(database)
  const scopes = new Map<string, Row>()
  const reservations = new Map<string, ReservationState | undefined>()
  for (const group of groups) {
    for (const row of group.scopes) scopes.set(JSON.stringify([row['organization'], row['key']]), row)
    for (const values of group.rows) reservations.set(idOfRow(values), undefined)
    for (const row of group.live) reservations.set(String(row['id']), liveOf(row))
    for (const row of group.lost) reservations.set(String(row['id']), liveOf(row, 'lost'))
    for (const row of group.usage) {
      const { place, figures } = usageOfRow(row)
      log.usage(place, figures)
    }
    for (const row of group.crossings) crossings.add(CROSSING_NAMES.map((name) => row[name] ?? 0))
    if (group.rows.length > 0) log.rows(JSON.stringify(group.rows), group.endedMs)
  }
  for (const row of scopes.values()) state.scope(scopeOf(row))
  for (const [id, reservation] of reservations) {
    if (reservation === undefined) state.drop(id)
    else state.keep(reservation)
  }
  state.applied(groups.at(-1)?.number ?? 0)
}

/** The transaction must be on the disk before the journal is removed. */
function flushLog(path: string): void {
  const log = openSync(`${path}-wal`, 'r')
  try {
    fdatasyncSync(log)
  } finally {
    closeSync(log)
  }
}

/** Opens SQLite files: sets them up, checks and migrates them, and explains why a file cannot be used. */

import { Database, SQLiteError } from 'bun:sqlite'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { messageOf } from '../core/error-message.ts'
import { keepPrivate, makePrivateFolder } from './private-files.ts'

/**
 * Files up to this size are checked completely when they are opened; of larger ones, the tables that the schema names.
 */
const CHECKED_WHOLE_BYTES = 64 * 1024 * 1024
/** How long a statement waits for another process' commit, which takes a few milliseconds. */
const BUSY_MS = 2000
/** How long opening a file is retried while other processes have it locked. */
const OPENING_MS = 10_000
/** The longest pause between two tries. */
const PAUSE_MS_MAX = 10
/** A random id that Linux draws at each boot. */
const BOOT_ID = '/proc/sys/kernel/random/boot_id'

/** A SQLite file cannot be used: the ledger, its outbox or the keys. `message` is a complete line for the operator. */
export class LedgerFileError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'LedgerFileError'
  }
}

/** Another process holds the lock on the ledger; it may be about to end. */
export class LedgerInUseError extends LedgerFileError {}

/**
 * The format of a file. Its version grows only with a change that earlier versions of weir cannot read or write: they
 * refuse such a file. What is merely added (tables, triggers, columns, views) keeps the version, so that an operator
 * can go back to the version before.
 */
export interface Schema {
  /** Stored in the file. */
  readonly version: number
  /** The oldest version that queries can read before it is migrated; without it only `version`. */
  readonly readableFrom?: number
  /** Makes a new file. */
  readonly sql: string
  /** By the version of an older file, what makes the next version of it. All steps run in one transaction. */
  readonly migrations?: Readonly<Record<number, string>>
  /** Tables that are read whole at every start, however large the file. */
  readonly checked: readonly string[]
  /**
   * What files of this version may lack, because it was added later: statements that change nothing the second time.
   */
  readonly additions?: string
  /** By table, the definitions of columns that it may lack. Each has a default. */
  readonly columns?: Readonly<Record<string, readonly string[]>>
  /** By name: made, or made again if one of these columns is missing. */
  readonly views?: Readonly<Record<string, { readonly columns: readonly string[]; readonly sql: string }>>
}

/**
 * Opens a file for writing, creates it if it does not exist, migrates it and checks it. A commit survives a crash of
 * the process at once, and a crash of the machine after the next `fsync` of the write-ahead log. Throws
 * `LedgerFileError`.
 */
export function openDatabase(path: string, schema: Schema): Database {
  return orFileError(path, () => {
    makePrivateFolder(dirname(path))
    const database = new Database(path, { create: true, strict: true })
    return orClosed(database, () => {
      untilFree(() => prepare(database, path, schema))
      for (const file of [path, `${path}-wal`, `${path}-shm`]) keepPrivate(file)
      return database
    })
  })
}

/**
 * Opens a file for queries while another process may write to it. Undefined if there is none, or if `openDatabase` has
 * still to create or migrate it. Creates no file, but adds what an earlier version of weir left out, because queries
 * name it. Throws `LedgerFileError`.
 */
export function openReadOnly(path: string, schema: Schema): Database | undefined {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined
  return orFileError(path, () => {
    // Not `readonly`: if no process has the write-ahead log open, the reader has to create its index.
    const database = new Database(path, { readwrite: true, create: false, strict: true })
    return orClosed(database, () => {
      database.run(`PRAGMA busy_timeout = ${BUSY_MS}`)
      const { version, readableFrom = version } = schema
      if (!untilFree(() => checkVersion(database, path, schema) || versionOf(database) >= readableFrom)) {
        database.close()
        return undefined
      }
      untilFree(() => addMissing(database, schema))
      database.run('PRAGMA query_only = true')
      return database
    })
  })
}

/**
 * Identifies a file by boot, device and inode, so that a copy has another identity. The boot stands for the machine:
 * device and inode may be the same on another one.
 */
export function fileIdentity(path: string): string {
  const { dev, ino } = statSync(path)
  return `${existsSync(BOOT_ID) ? readFileSync(BOOT_ID, 'utf8').trim() : ''} ${dev} ${ino}`
}

function orClosed<T>(database: Database, action: () => T): T {
  try {
    return action()
  } catch (error) {
    database.close()
    throw error
  }
}

/**
 * Retries while other processes hold the file. SQLite waits for a lock by itself, except when two connections both hold
 * a shared lock and both want to write, as when a new file gets its write-ahead log: that would be a deadlock, so
 * SQLite fails at once, and a retry succeeds.
 */
function untilFree<T>(action: () => T): T {
  const deadline = performance.now() + OPENING_MS
  for (;;) {
    try {
      return action()
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw error
      // A random pause, so that the processes do not collide again.
      Bun.sleepSync(1 + Math.random() * (PAUSE_MS_MAX - 1))
    }
  }
}

/** Another process has the lock, or so many open and close the write-ahead log that SQLite gave up (`PROTOCOL`). */
export function isBusy(error: unknown): boolean {
  return error instanceof SQLiteError && /^SQLITE_(BUSY|PROTOCOL)/.test(error.code ?? '')
}

/** Idempotent, because it is retried when another process interferes. */
function prepare(database: Database, path: string, schema: Schema): void {
  database.run(`PRAGMA busy_timeout = ${BUSY_MS}`)
  checkIntact(database, path, schema)
  database.run('PRAGMA journal_mode = WAL')
  database.run('PRAGMA synchronous = NORMAL')
  // 16 MB. A checkpoint blocks the process until the disk has it, 5 ms or more: at 1,000 requests/s every 6 s, not
  // every 1.5 s.
  database.run('PRAGMA wal_autocheckpoint = 4000')
  database.run('PRAGMA foreign_keys = OFF')
  if (!checkVersion(database, path, schema)) database.transaction(() => migrate(database, schema)).immediate()
  addMissing(database, schema)
}

/** Makes a new file, or the current format of an older one. Inside a transaction. */
function migrate(database: Database, schema: Schema): void {
  let version = versionOf(database)
  // Workers that start together open the same file: the second to get the lock finds it made.
  if (version === schema.version) return
  if (version === 0) database.run(schema.sql)
  else for (; version < schema.version; version++) database.run(schema.migrations?.[version] ?? '')
  database.run(`PRAGMA user_version = ${schema.version}`)
}

/**
 * Adds what this version of weir has and the one that made the file had not. Takes the lock only if something is
 * missing.
 */
function addMissing(database: Database, { additions, columns = {}, views = {} }: Schema): void {
  if (additions !== undefined) database.run(additions)
  const missing = (): readonly string[] => [
    ...Object.entries(columns).flatMap(([table, definitions]) => {
      const known = columnsOf(database, table)
      const added = definitions.filter((definition) => !known.has(definition.split(' ')[0] ?? ''))
      return added.map((definition) => `ALTER TABLE ${table} ADD COLUMN ${definition}`)
    }),
    ...Object.entries(views).flatMap(([view, { columns: wanted, sql }]) => {
      const known = columnsOf(database, view)
      if (wanted.every((name) => known.has(name))) return []
      return [`DROP VIEW IF EXISTS ${view}`, `CREATE VIEW ${view} AS ${sql}`]
    }),
  ]
  if (missing().length === 0) return
  const add = database.transaction(() => {
    // Determined again with the lock: another process may have added it in the meantime.
    for (const statement of missing()) database.run(statement)
  })
  add.immediate()
}

function columnsOf(database: Database, table: string): ReadonlySet<string> {
  const query = database.query<{ name: string }, [string]>('SELECT name FROM pragma_table_info(?)')
  return new Set(query.all(table).map(({ name }) => name))
}

/** Throws `LedgerFileError` if the file is damaged. Of a large file, only the tables in `checked` are read. */
function checkIntact(database: Database, path: string, schema: Schema): void {
  const isSmall = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) <= CHECKED_WHOLE_BYTES
  const checks = isSmall
    ? ['PRAGMA quick_check']
    : schema.checked
        .filter((table) => columnsOf(database, table).size > 0)
        .map((table) => `PRAGMA quick_check('${table}')`)
  for (const check of checks) {
    const first = database.query<{ quick_check: string }, []>(check).get()
    if (first?.quick_check !== 'ok') throw damaged(path, first?.quick_check ?? 'no answer')
  }
}

function versionOf(database: Database): number {
  return database.query<{ user_version: number }, []>('PRAGMA user_version').get()?.user_version ?? 0
}

/** True if the file has the format of the schema, false if it is new or can be migrated. */
function checkVersion(database: Database, path: string, schema: Schema): boolean {
  const version = versionOf(database)
  if (version === schema.version) return true
  if (version === 0) return false
  if (version > schema.version) {
    throw new LedgerFileError(
      `${path} was written by a newer version of weir (format ${version}; this one reads up to ${schema.version}). ` +
        'Use that version, or restore a backup from before the upgrade.',
    )
  }
  for (let from = version; from < schema.version; from++) {
    if (schema.migrations?.[from] !== undefined) continue
    throw new LedgerFileError(
      `${path} was written by an older version of weir (format ${version}) that this one cannot migrate to format ` +
        `${schema.version}. Start a version in between first.`,
    )
  }
  return false
}

function damaged(path: string, what: string, cause?: unknown): LedgerFileError {
  return new LedgerFileError(
    `${path} is damaged (${what}). weir does not start with figures that may be wrong: restore a backup, or move the ` +
      'file aside to begin with an empty one.',
    cause,
  )
}

/** Runs an action on a file. An error becomes a `LedgerFileError`, whose message is for the operator. */
function orFileError<T>(path: string, action: () => T): T {
  try {
    return action()
  } catch (error) {
    if (error instanceof LedgerFileError) throw error
    if (isBusy(error)) {
      throw new LedgerFileError(
        `${path} has been locked by another process for ${OPENING_MS / 1000} s. End that process, then try again.`,
        error,
      )
    }
    if (error instanceof SQLiteError) {
      if (/NOTADB|CORRUPT/.test(error.code ?? '')) throw damaged(path, error.message, error)
      if (/FULL/.test(error.code ?? '')) throw new LedgerFileError(`No space is left on the disk of ${path}.`, error)
    }
    throw new LedgerFileError(`${path} cannot be opened: ${messageOf(error)}.`, error)
  }
}

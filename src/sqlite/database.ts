/** Opens the ledger's SQLite files: the settings that make a commit survive what it must, and clear words where a file cannot be used. */

import { Database, SQLiteError } from 'bun:sqlite'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { keepPrivate, makePrivateFolder } from './private-files.ts'

/** Files up to this are read whole when they are opened; of larger ones only the tables named by the caller. */
const CHECKED_WHOLE_BYTES = 64 * 1024 * 1024
/** How long a statement waits for another process' commit, which takes a few milliseconds. */
const BUSY_MS = 2000
/** How long an opening waits for other processes that open the same new file, and the most between two tries. */
const OPENING_MS = 10_000
const PAUSE_MS = 10
/** Where Linux names the boot of the machine. */
const BOOT_ID = '/proc/sys/kernel/random/boot_id'

/** A ledger file that cannot be used. `message` is for the operator, whole. */
export class LedgerFileError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'LedgerFileError'
  }
}

/** Another process has it. It may be about to end. */
export class LedgerInUseError extends LedgerFileError {}

export interface Schema {
  /** Stored in the file; another one is refused. */
  readonly version: number
  readonly sql: string
  /** What makes this format of an older one, in one transaction, by the older one's version. */
  readonly upgrades?: Readonly<Record<number, string>>
  /** Tables that are read whole at every start, however large the file. */
  readonly checked: readonly string[]
  /** What files of this version may lack, because it came later: statements that change nothing the second time. */
  readonly additions?: string
  /**
   * All columns of tables that grow, as `CREATE TABLE` defines them. A file that lacks some gets them when its owner opens it; a reader
   * finds it without.
   */
  readonly columns?: Readonly<Record<string, readonly string[]>>
}

/**
 * Opens a file for writing, made where it does not exist, and checks it. Commits are in the write-ahead log: they survive the death of the
 * process at once, that of the machine after the next `fsync`. Throws `LedgerFileError`.
 */
export function openDatabase(path: string, schema: Schema): Database {
  return clearly(path, () => {
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
 * Opens a file that another process may be writing to. Undefined where there is none yet, or one that is only being made; makes none.
 * Throws `LedgerFileError`.
 */
export function openReadOnly(path: string, schema: Schema): Database | undefined {
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined
  return clearly(path, () => {
    // Not `readonly`: a reader of a write-ahead log that nobody has open must be able to make its index.
    const database = new Database(path, { readwrite: true, create: false, strict: true })
    return orClosed(database, () => {
      database.run(`PRAGMA busy_timeout = ${BUSY_MS}`)
      if (!untilFree(() => checkVersion(database, path, schema))) {
        database.close()
        return undefined
      }
      if (schema.additions !== undefined) database.run(schema.additions)
      database.run('PRAGMA query_only = true')
      return database
    })
  })
}

/** A name for the place of a file: another on every machine, and for every copy. */
export function placeOf(path: string): string {
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
 * Tries again while other processes are in the way. SQLite itself waits for a lock, but not where two connections want to raise one that
 * both have, as when a new file gets its write-ahead log: they would wait for each other, so it fails at once, and to begin anew is right.
 */
function untilFree<T>(action: () => T): T {
  const deadline = performance.now() + OPENING_MS
  for (;;) {
    try {
      return action()
    } catch (error) {
      if (!isBusy(error) || performance.now() > deadline) throw error
      // Each waits differently long, so that they do not meet again.
      Bun.sleepSync(1 + Math.random() * (PAUSE_MS - 1))
    }
  }
}

/** Another process has the lock, or opens and closes the write-ahead log so often that SQLite gave up (`PROTOCOL`). */
function isBusy(error: unknown): boolean {
  return error instanceof SQLiteError && /^SQLITE_(BUSY|PROTOCOL)/.test(error.code ?? '')
}

/** May be run again where another process came between: each step leaves what it finds done. */
function prepare(database: Database, path: string, schema: Schema): void {
  database.run(`PRAGMA busy_timeout = ${BUSY_MS}`)
  checkWhole(database, path, schema)
  database.run('PRAGMA journal_mode = WAL')
  database.run('PRAGMA synchronous = NORMAL')
  // 16 MB. A checkpoint waits for the disk, 5 ms and more, and the process with it: at a thousand requests a second every 6 s, not every 1.5.
  database.run('PRAGMA wal_autocheckpoint = 4000')
  database.run('PRAGMA foreign_keys = OFF')
  const { additions } = schema
  if (checkVersion(database, path, schema)) {
    if (additions !== undefined) database.run(additions)
    addColumns(database, schema)
    return
  }
  const make = database.transaction(() => {
    // Workers that start together open the same new file: whoever gets the lock second finds it made.
    const version = versionOf(database)
    if (version === schema.version) return
    database.run(schema.upgrades?.[version] ?? schema.sql)
    if (additions !== undefined) database.run(additions)
    database.run(`PRAGMA user_version = ${schema.version}`)
  })
  make.immediate()
}

function addColumns(database: Database, { columns = {} }: Schema): void {
  for (const [table, definitions] of Object.entries(columns)) {
    const known = new Set(
      database
        .query<{ name: string }, [string]>('SELECT name FROM pragma_table_info(?)')
        .all(table)
        .map(({ name }) => name),
    )
    for (const definition of definitions) {
      if (!known.has(definition.split(' ')[0] ?? '')) database.run(`ALTER TABLE ${table} ADD COLUMN ${definition}`)
    }
  }
}

function checkWhole(database: Database, path: string, schema: Schema): void {
  const isSmall = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) <= CHECKED_WHOLE_BYTES
  const known = new Set(
    database
      .query<{ name: string }, []>("SELECT name FROM sqlite_schema WHERE type = 'table'")
      .all()
      .map(({ name }) => name),
  )
  const checks = isSmall
    ? ['PRAGMA quick_check']
    : schema.checked.filter((table) => known.has(table)).map((table) => `PRAGMA quick_check('${table}')`)
  for (const check of checks) {
    const first = database.query<{ quick_check: string }, []>(check).get()
    if (first?.quick_check !== 'ok') throw damaged(path, first?.quick_check ?? 'no answer')
  }
}

function versionOf(database: Database): number {
  return database.query<{ user_version: number }, []>('PRAGMA user_version').get()?.user_version ?? 0
}

/** True if the file has the schema, false if it is new or of a format that can be upgraded. */
function checkVersion(database: Database, path: string, schema: Schema): boolean {
  const version = versionOf(database)
  if (version === schema.version) return true
  if (version === 0 || schema.upgrades?.[version] !== undefined) return false
  throw new LedgerFileError(
    `${path} was written by another version of weir (format ${version}, this one has ${schema.version}).`,
  )
}

function damaged(path: string, what: string, cause?: unknown): LedgerFileError {
  return new LedgerFileError(
    `${path} is damaged (${what}). weir does not start on figures that may be wrong: put a backup in its place, or move it aside to begin anew.`,
    cause,
  )
}

/** Runs something, and says in the operator's words what SQLite says in its own. */
function clearly<T>(path: string, action: () => T): T {
  try {
    return action()
  } catch (error) {
    if (error instanceof LedgerFileError) throw error
    if (error instanceof SQLiteError) {
      if (/NOTADB|CORRUPT/.test(error.code ?? '')) throw damaged(path, error.message, error)
      if (/FULL/.test(error.code ?? '')) throw new LedgerFileError(`No space is left on the disk of ${path}.`, error)
    }
    throw new LedgerFileError(
      `${path} cannot be opened: ${error instanceof Error ? error.message : String(error)}.`,
      error,
    )
  }
}

/** The lock on a directory: one process at a time owns an embedded ledger. Held by the operating system, so that it ends with the process. */

import { Database, SQLiteError } from 'bun:sqlite'
import { join } from 'node:path'
import { LedgerFileError, LedgerInUseError } from '../../sqlite/database.ts'
import { keepPrivate, makePrivateFolder } from '../../sqlite/private-files.ts'

export interface Lock {
  release(): void
}

/** Takes the lock. Throws a `LedgerInUseError` that names the process that has it, a `LedgerFileError` where there can be none. */
export function lockDirectory(directory: string): Lock {
  const path = join(directory, 'ledger.lock')
  let database: Database | undefined
  try {
    makePrivateFolder(directory)
    database = new Database(path, { create: true, strict: true })
    keepPrivate(path)
    database.run('PRAGMA busy_timeout = 0')
    database.run('CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY CHECK (one = 1), pid INTEGER NOT NULL)')
    database.run('INSERT OR REPLACE INTO owner VALUES (1, ?)', [process.pid])
    // An open write transaction is the lock. Others may still read who has it.
    database.run('BEGIN IMMEDIATE')
  } catch (error) {
    const problem = refusal(directory, database, error)
    database?.close()
    throw problem
  }
  const held = database
  return {
    release: () => {
      held.run('ROLLBACK')
      held.close()
    },
  }
}

function refusal(directory: string, database: Database | undefined, error: unknown): LedgerFileError {
  if (database === undefined || !(error instanceof SQLiteError) || !error.code?.startsWith('SQLITE_BUSY')) {
    const why = error instanceof Error ? error.message : String(error)
    return new LedgerFileError(`The ledger in ${directory} cannot be locked: ${why}.`, error)
  }
  return new LedgerInUseError(
    `The ledger in ${directory} is in use by another process${ownerOf(database)}. An embedded ledger has one owner: for several workers or nodes use Redis.`,
    error,
  )
}

function ownerOf(database: Database): string {
  try {
    const owner = database.query<{ pid: number }, []>('SELECT pid FROM owner').get()
    return owner === null ? '' : ` (pid ${owner.pid})`
  } catch {
    // Locked at the very moment of another's start: the message is as true without the number.
    return ''
  }
}

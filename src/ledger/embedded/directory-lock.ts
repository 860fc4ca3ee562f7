/**
 * The lock on `data_dir`: one gateway at a time can use it. With an embedded ledger the process that owns that has the
 * lock, with Redis the supervisor. It is a lock of the operating system, so it ends with the process.
 */

import { Database, SQLiteError } from 'bun:sqlite'
import { join } from 'node:path'
import { messageOf } from '../../core/error-message.ts'
import { LedgerFileError, LedgerInUseError } from '../../sqlite/database.ts'
import { keepPrivate, makePrivateFolder } from '../../sqlite/private-files.ts'

export interface Lock {
  release(): void
}

/** In the directory, or shared by many nodes. */
type LedgerKind = 'embedded' | 'shared'

/**
 * Takes the lock. Throws `LedgerInUseError`, which names the process that has it, or `LedgerFileError` if it cannot be
 * taken at all.
 */
export function lockDirectory(directory: string, ledger: LedgerKind = 'embedded'): Lock {
  const path = join(directory, 'ledger.lock')
  let database: Database | undefined
  try {
    makePrivateFolder(directory)
    database = new Database(path, { create: true, strict: true })
    keepPrivate(path)
    database.run('PRAGMA busy_timeout = 0')
    database.run('CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY CHECK (one = 1), pid INTEGER NOT NULL)')
    database.run('INSERT OR REPLACE INTO owner VALUES (1, ?)', [process.pid])
    // An open write transaction is the lock. Other processes can still read the owner.
    database.run('BEGIN IMMEDIATE')
  } catch (error) {
    const problem = refusal(directory, ledger, database, error)
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

function refusal(
  directory: string,
  ledger: LedgerKind,
  database: Database | undefined,
  error: unknown,
): LedgerFileError {
  if (database === undefined || !(error instanceof SQLiteError) || !error.code?.startsWith('SQLITE_BUSY')) {
    const why = messageOf(error)
    return new LedgerFileError(`The ledger in ${directory} cannot be locked: ${why}.`, error)
  }
  if (ledger === 'shared') {
    return new LedgerInUseError(
      `data_dir: ${directory} is in use by another gateway${ownerOf(database)}. End the other one, or give each a ` +
        'data_dir of its own: they share limits in Redis.',
      error,
    )
  }
  return new LedgerInUseError(
    `The ledger in ${directory} is in use by another process${ownerOf(database)}. Only one gateway can use an ` +
      'embedded ledger: end the other one, or give each a data_dir of its own. Gateways share limits in Redis.',
    error,
  )
}

function ownerOf(database: Database): string {
  try {
    const owner = database.query<{ pid: number }, []>('SELECT pid FROM owner').get()
    return owner === null ? '' : ` (pid ${owner.pid})`
  } catch {
    // Another process is writing its pid at this moment. The message is correct without it.
    return ''
  }
}

/** Copies a SQLite file while other processes write to it. */

import { Database } from 'bun:sqlite'
import { messageOf } from '../core/error-message.ts'
import { LedgerFileError } from './database.ts'
import { keepPrivate } from './private-files.ts'

/** How long a copy waits for another process' commit. */
const BUSY_MS = 10_000

/**
 * Writes what the file has at one moment, with everything that its write-ahead log has, to a new file, which it
 * checks. Needs the disk space of the file, and no memory of its size. Throws `LedgerFileError`.
 */
export function snapshotDatabase(from: string, to: string): void {
  try {
    // Not `readonly`: if no process has the write-ahead log open, the reader has to create its index.
    const source = new Database(from, { readwrite: true, create: false, strict: true })
    try {
      source.run(`PRAGMA busy_timeout = ${BUSY_MS}`)
      source.run('VACUUM INTO ?', [to])
    } finally {
      source.close()
    }
    keepPrivate(to)
    const problem = problemOf(to)
    if (problem !== undefined) throw new Error(`the copy is damaged: ${problem}`)
  } catch (error) {
    throw new LedgerFileError(`${from} cannot be copied: ${messageOf(error)}`, error)
  }
}

function problemOf(path: string): string | undefined {
  const database = new Database(path, { readonly: true, strict: true })
  try {
    const found = database.query<{ readonly quick_check: string }, []>('PRAGMA quick_check(1)').get()?.quick_check
    return found === 'ok' ? undefined : (found ?? 'it cannot be checked')
  } finally {
    database.close()
  }
}

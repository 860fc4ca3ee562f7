/**
 * Group commit: one transaction for all changes of 20 ms, and a flush to the disk after it. Owns the timer and the
 * flush; its owner collects the changes and writes them.
 */

import type { Database } from 'bun:sqlite'
import { fdatasync, openSync } from 'node:fs'
import { messageOf } from '../core/error-message.ts'
import { isBusy } from './database.ts'
import { FileSync, type Flush } from './file-sync.ts'

const COMMIT_MS = 20
/** The pause after a failed commit. */
const RETRY_MS = 250
/** How long the last commit is tried while another process has the lock: that may be stopped, or get no CPU time. */
const CLOSING_MS = 5000

interface Gathered {
  /** Writes all changes that wait; runs inside the transaction. */
  write(): void
  /** The transaction is committed: the changes need not be kept. */
  written(): void
  /** It failed and will be retried. */
  failed(): void
}

export class GroupCommit {
  private readonly log: FileSync
  private timer: ReturnType<typeof setTimeout> | undefined
  private closed = false
  private failure: string | undefined
  /** The last commit failed because another process has the lock. */
  private isLocked = false
  private committedMs = Number.NEGATIVE_INFINITY

  /** `path` is the database's file; it has a write-ahead log. */
  constructor(
    private readonly database: Database,
    path: string,
    private readonly gathered: Gathered,
    flush: Flush = fdatasync,
  ) {
    const flushed = (error: Error | null) => {
      if (error !== null) this.failure = error.message
    }
    this.log = new FileSync(openSync(`${path}-wal`, 'r'), flushed, flush)
  }

  /** Why the last commit failed; undefined if it succeeded. */
  get complaint(): string | undefined {
    return this.failure
  }

  /** Schedules a commit: as soon as the last one is 20 ms ago, because somebody waits for it. */
  soon(): void {
    // Called for each change: one is scheduled most times.
    if (this.timer === undefined) this.later(Math.max(0, COMMIT_MS - (performance.now() - this.committedMs)))
  }

  /** Commits now. False if the commit failed. */
  commit(): boolean {
    clearTimeout(this.timer)
    this.timer = undefined
    this.committedMs = performance.now()
    try {
      this.database.transaction(() => this.gathered.write()).immediate()
    } catch (error) {
      this.failure = messageOf(error)
      this.isLocked = isBusy(error)
      this.gathered.failed()
      this.later(RETRY_MS)
      return false
    }
    this.failure = undefined
    this.gathered.written()
    this.log.soon()
    return true
  }

  /** Commits for the last time and closes the file. Throws if that fails: then the changes that waited are lost. */
  close(): void {
    const endMs = performance.now() + CLOSING_MS
    let isWritten = this.commit()
    while (!isWritten && this.isLocked && performance.now() < endMs) isWritten = this.commit()
    clearTimeout(this.timer)
    this.closed = true
    if (isWritten) this.database.run('PRAGMA wal_checkpoint(TRUNCATE)')
    this.database.close()
    this.log.close()
    if (!isWritten)
      throw new Error(`The last commit of the ledger's file failed, and its changes are lost: ${this.failure}.`)
  }

  private later(ms: number): void {
    if (this.timer === undefined && !this.closed) this.timer = setTimeout(() => this.commit(), ms)
  }
}

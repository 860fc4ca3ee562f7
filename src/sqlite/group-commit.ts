/**
 * Group commit: one transaction for all changes of 20 ms, and a flush to the disk after it. Owns the timer and the
 * flush; its owner collects the changes and writes them.
 */

import type { Database } from 'bun:sqlite'
import { closeSync, fdatasync, openSync } from 'node:fs'

const COMMIT_MS = 20
/** The pause after a failed commit. */
const RETRY_MS = 250

interface Gathered {
  /** Writes all changes that wait; runs inside the transaction. */
  write(): void
  /** The transaction is committed: the changes need not be kept. */
  written(): void
  /** It failed and will be retried. */
  failed(): void
}

/**
 * - `beat`: 20 ms after the first change · `at_once`: as soon as the last commit is 20 ms ago, because somebody waits
 * for the commit
 */
type Pace = 'beat' | 'at_once'

export class GroupCommit {
  private readonly log: number
  private timer: ReturnType<typeof setTimeout> | undefined
  private syncing = false
  /** A commit came during a flush, which may not cover it. */
  private isUnsynced = false
  private closed = false
  private failure: string | undefined
  private committedMs = Number.NEGATIVE_INFINITY

  /** `path` is the database's file; it has a write-ahead log. */
  constructor(
    private readonly database: Database,
    path: string,
    private readonly gathered: Gathered,
    private readonly pace: Pace = 'beat',
    private readonly flush: (file: number, done: (error: Error | null) => void) => void = fdatasync,
  ) {
    this.log = openSync(`${path}-wal`, 'r')
  }

  /** Why the last commit failed; undefined if it succeeded. */
  get complaint(): string | undefined {
    return this.failure
  }

  /** Schedules a commit. */
  soon(): void {
    const rested = this.pace === 'beat' ? 0 : performance.now() - this.committedMs
    this.later(Math.max(0, COMMIT_MS - rested))
  }

  /** Commits now. False if the commit failed. */
  commit(): boolean {
    clearTimeout(this.timer)
    this.timer = undefined
    this.committedMs = performance.now()
    try {
      this.database.transaction(() => this.gathered.write()).immediate()
    } catch (error) {
      this.failure = error instanceof Error ? error.message : String(error)
      this.gathered.failed()
      this.later(RETRY_MS)
      return false
    }
    this.failure = undefined
    this.gathered.written()
    this.sync()
    return true
  }

  /** Commits for the last time and closes the file. Throws if that fails: then the changes that waited are lost. */
  close(): void {
    const isWritten = this.commit()
    clearTimeout(this.timer)
    this.closed = true
    if (isWritten) this.database.run('PRAGMA wal_checkpoint(TRUNCATE)')
    this.database.close()
    if (!this.syncing) closeSync(this.log)
    if (!isWritten)
      throw new Error(`The last commit of the ledger's file failed, and its changes are lost: ${this.failure}.`)
  }

  private later(ms: number): void {
    if (this.timer === undefined && !this.closed) this.timer = setTimeout(() => this.commit(), ms)
  }

  /** Flushes the commit to the disk on another thread: a slow disk must not delay streams. */
  private sync(): void {
    this.isUnsynced = this.syncing
    if (this.syncing) return
    this.syncing = true
    this.flush(this.log, (error) => {
      this.syncing = false
      if (error !== null) this.failure = error.message
      if (this.closed) closeSync(this.log)
      else if (this.isUnsynced) this.sync()
    })
  }
}

/**
 * Commits what was gathered, together, on a beat: one transaction for all that happened in 20 ms. Owns the beat, and the disk's flush; what is
 * written is its owner's.
 */

import type { Database } from 'bun:sqlite'
import { closeSync, fdatasync, openSync } from 'node:fs'

const COMMIT_MS = 20
/** After a commit that failed. */
const RETRY_MS = 250

interface Gathered {
  /** Writes everything that is gathered; runs inside the transaction. */
  write(): void
  /** The transaction is committed: what was gathered may go. */
  written(): void
  /** It failed, and will be tried again. */
  failed(): void
}

/** - `beat` 20 ms after the first that is gathered · `at_once` as soon as the last commit is 20 ms ago: for what somebody else waits for */
type Pace = 'beat' | 'at_once'

export class GroupCommit {
  private readonly log: number
  private timer: ReturnType<typeof setTimeout> | undefined
  private syncing = false
  /** A commit came while the disk was flushing: that flush may not hold it. */
  private isUnsynced = false
  private closed = false
  private failure: string | undefined
  private committedMs = Number.NEGATIVE_INFINITY

  /** `path` is the database's own file, which has a write-ahead log. */
  constructor(
    private readonly database: Database,
    path: string,
    private readonly gathered: Gathered,
    private readonly pace: Pace = 'beat',
    private readonly flush: (file: number, done: (error: Error | null) => void) => void = fdatasync,
  ) {
    this.log = openSync(`${path}-wal`, 'r')
  }

  /** Why the last commit failed; undefined where it did not. */
  get complaint(): string | undefined {
    return this.failure
  }

  /** Sees to a commit soon. */
  soon(): void {
    const rested = this.pace === 'beat' ? 0 : performance.now() - this.committedMs
    this.later(Math.max(0, COMMIT_MS - rested))
  }

  /** Commits now. False where the file does not take it. */
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

  /** The last commit, and the end of the file. Throws where it fails: what was gathered is lost then, and must be said so. */
  close(): void {
    const isWritten = this.commit()
    clearTimeout(this.timer)
    this.closed = true
    if (isWritten) this.database.run('PRAGMA wal_checkpoint(TRUNCATE)')
    this.database.close()
    if (!this.syncing) closeSync(this.log)
    if (!isWritten) throw new Error(`The ledger's file could not be written at the end: ${this.failure}.`)
  }

  private later(ms: number): void {
    if (this.timer === undefined && !this.closed) this.timer = setTimeout(() => this.commit(), ms)
  }

  /** Makes the commit outlast the machine, too, off this thread: a slow disk must not hold a stream up. */
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

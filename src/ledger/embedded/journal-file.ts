/**
 * The files of the journal: `ledger.journal` grows by one line for each group of changes. When it is large, it becomes
 * `ledger-old.journal` and a new one begins; the old one is removed once SQLite has what it contains. Flushes to the
 * disk run on another thread.
 */

import {
  closeSync,
  constants,
  existsSync,
  fdatasync,
  fsyncSync,
  ftruncateSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { messageOf } from '../../core/error-message.ts'
import { FileSync, type Flush } from '../../sqlite/file-sync.ts'
import { FILE_MODE, keepPrivate } from '../../sqlite/private-files.ts'
import { LineEncoder } from './journal-format.ts'

export const JOURNAL_FILE = 'ledger.journal'
export const OLD_JOURNAL_FILE = 'ledger-old.journal'
const NEW_JOURNAL_FILE = 'ledger-new.journal'

/** What the journal does to the disk; tests replace it. */
export interface Disk {
  create(path: string): number
  write(file: number, bytes: Uint8Array, at: number): number
  truncate(file: number, size: number): void
  rename(from: string, to: string): void
  remove(path: string): void
  readonly flush: Flush
  /** Flushes on this thread. */
  flushNow(file: number): void
}

export const realDisk: Disk = {
  create: (path) => {
    const file = openSync(path, constants.O_CREAT | constants.O_TRUNC | constants.O_WRONLY, FILE_MODE)
    keepPrivate(path)
    return file
  },
  write: (file, bytes, at) => writeSync(file, bytes, 0, bytes.length, at),
  truncate: ftruncateSync,
  rename: renameSync,
  remove: (path) => rmSync(path, { force: true }),
  flush: fdatasync,
  flushNow: fsyncSync,
}

/** One file that is being written. */
interface Written {
  readonly file: number
  readonly sync: FileSync
  size: number
}

export class JournalFile {
  private readonly encoder = new LineEncoder()
  private readonly folder: number
  private current: Written
  private hasOld = false
  private isDropping = false
  private isClosed = false
  private failure: string | undefined
  private syncedTo = 0

  /** Begins a new file; there must be none. */
  constructor(
    private readonly directory: string,
    private readonly disk: Disk = realDisk,
  ) {
    this.current = this.begin(JOURNAL_FILE)
    this.folder = openSync(directory, constants.O_RDONLY)
    // A file whose name is not on the disk is lost with the power, whatever was written to it.
    disk.flushNow(this.folder)
  }

  /** Bytes of the current file. */
  get size(): number {
    return this.current.size
  }

  /** The last group that is known to be on the disk. */
  get synced(): number {
    return this.syncedTo
  }

  /** Why the last flush failed; undefined if it succeeded. */
  get complaint(): string | undefined {
    return this.failure
  }

  /** Appends a line and requests a flush. Throws if the disk does not take it all: then the file is as before. */
  append(json: string, number: number): void {
    const { current } = this
    const before = current.size
    try {
      if (before === 0) this.write(this.encoder.header())
      this.write(this.encoder.line(json))
    } catch (error) {
      current.size = before
      this.shorten()
      throw error
    }
    current.sync.soon(number)
  }

  /**
   * Begins a new file, unless the last old one is still there. Call it when SQLite contains all groups; `wal` is its
   * write-ahead log, which must be on the disk before the old file can go.
   */
  rotate(wal: number): void {
    if (!this.hasOld) this.replaceCurrent()
    if (this.isDropping) return
    this.isDropping = true
    const flushed = (error: Error | null, next: () => void) => {
      if (error !== null) this.failure = error.message
      if (error !== null || this.isClosed) this.isDropping = false
      else next()
    }
    this.disk.flush(wal, (error) =>
      flushed(error, () => this.disk.flush(this.folder, (problem) => flushed(problem, () => this.dropOld()))),
    )
  }

  /** Closes the files, and removes them if SQLite has everything. */
  close(isFilled: boolean): void {
    this.isClosed = true
    this.current.sync.close()
    closeSync(this.folder)
    if (isFilled) removeJournal(this.directory, this.disk)
  }

  private begin(name: string): Written {
    const file = this.disk.create(this.path(name))
    return { file, size: 0, sync: new FileSync(file, (error, number) => this.flushed(error, number), this.disk.flush) }
  }

  private path(name: string): string {
    return join(this.directory, name)
  }

  private write(bytes: Uint8Array): void {
    const { current } = this
    for (let rest = bytes; rest.length > 0; ) {
      const count = this.disk.write(current.file, rest, current.size)
      if (count === 0) throw new Error('the disk takes no more')
      current.size += count
      rest = rest.subarray(count)
    }
  }

  /** Removes what a failed write left. If that fails too, the next write overwrites it. */
  private shorten(): void {
    try {
      this.disk.truncate(this.current.file, this.current.size)
    } catch (error) {
      this.failure = messageOf(error)
    }
  }

  private flushed(error: Error | null, number: number): void {
    this.failure = error?.message
    // Until the old file is gone, its last groups may not be on the disk.
    if (error === null && !this.hasOld) this.syncedTo = Math.max(this.syncedTo, number)
  }

  private replaceCurrent(): void {
    const next = this.begin(NEW_JOURNAL_FILE)
    this.disk.rename(this.path(JOURNAL_FILE), this.path(OLD_JOURNAL_FILE))
    this.hasOld = true
    this.current.sync.close()
    this.current = next
    this.disk.rename(this.path(NEW_JOURNAL_FILE), this.path(JOURNAL_FILE))
  }

  private dropOld(): void {
    this.disk.remove(this.path(OLD_JOURNAL_FILE))
    this.hasOld = false
    this.isDropping = false
  }
}

/** Removes the files of a journal whose groups are all in SQLite, and on the disk there. */
export function removeJournal(directory: string, disk: Disk = realDisk): void {
  for (const name of [OLD_JOURNAL_FILE, JOURNAL_FILE, NEW_JOURNAL_FILE]) disk.remove(join(directory, name))
}

/** Whether a directory has a journal. */
export function hasJournal(directory: string): boolean {
  return [OLD_JOURNAL_FILE, JOURNAL_FILE].some((name) => existsSync(join(directory, name)))
}

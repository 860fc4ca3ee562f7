/**
 * Flushes a file to the disk on another thread: a slow disk must not delay streams. One flush runs at a time; one that
 * is requested meanwhile begins when it ends, because the running flush may not cover what was written since.
 */

import { closeSync, fdatasync } from 'node:fs'

export type Flush = (file: number, done: (error: Error | null) => void) => void

export class FileSync {
  private isRunning = false
  private isAgain = false
  private isClosed = false
  /** The mark of the last request. */
  private mark = 0

  /** `done` gets the mark of the last request that the flush covers. Closes `file` in `close`. */
  constructor(
    private readonly file: number,
    private readonly done: (error: Error | null, mark: number) => void,
    private readonly flush: Flush = fdatasync,
  ) {}

  /** Flushes what was written so far; `mark` identifies it for the caller. */
  soon(mark = 0): void {
    this.mark = mark
    this.isAgain = this.isRunning
    if (this.isRunning) return
    this.isRunning = true
    this.flush(this.file, (error) => {
      this.isRunning = false
      this.done(error, mark)
      if (this.isClosed) closeSync(this.file)
      else if (this.isAgain) this.soon(this.mark)
    })
  }

  /** Closes the file, after the flush that runs. */
  close(): void {
    this.isClosed = true
    if (!this.isRunning) closeSync(this.file)
  }
}

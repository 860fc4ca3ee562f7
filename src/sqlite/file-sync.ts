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
  /** The number of the last request. */
  private number = 0

  /** `done` gets the number of the last request that the flush covers. Closes `file` in `close`. */
  constructor(
    private readonly file: number,
    private readonly done: (error: Error | null, number: number) => void,
    private readonly flush: Flush = fdatasync,
  ) {}

  /** Flushes what was written so far; `number` identifies it for the caller. */
  soon(number = 0): void {
    this.number = number
    this.isAgain = this.isRunning
    if (this.isRunning) return
    this.isRunning = true
    this.flush(this.file, (error) => {
      this.isRunning = false
      this.done(error, number)
      if (this.isClosed) closeSync(this.file)
      else if (this.isAgain) this.soon(this.number)
    })
  }

  /** Closes the file, after the flush that runs. */
  close(): void {
    this.isClosed = true
    if (!this.isRunning) closeSync(this.file)
  }
}

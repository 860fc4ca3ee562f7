/**
 * Writes log lines to a file descriptor without ever blocking the process: asynchronously, in whole lines; if the
 * reader stalls, lines are dropped and counted. It must never block, throw or buffer without bound.
 */

import fs from 'node:fs'

/**
 * Linux writes at most this many bytes to a pipe atomically (PIPE_BUF). Several workers share one pipe, and the
 * writes of others may split a longer write.
 */
const WRITE_BYTES_MAX = 4096
/**
 * The capacity of a pipe. If one worker alone writes requests, larger writes cost a tenth, because each write wakes
 * the reader.
 */
const WRITE_BYTES_MAX_ALONE = 64 * 1024
/** The most bytes in memory while the reader of the log stalls; further lines are dropped and counted. */
const HELD_BYTES_MAX = 8 * 1024 * 1024
/** How long a line may wait for others to share its system call. */
const GATHER_MS = 20
/** How long after a full pipe the lines are written again. */
const RETRY_MS = 50

/** `fs.write` for a whole buffer; a parameter so that a test can stall it. */
export type Write = (bytes: Uint8Array, done: (error: NodeJS.ErrnoException | null, written: number) => void) => void

interface SinkOptions {
  readonly write: Write
  /** The line that reports how many lines were dropped, with its line end. */
  readonly notice: (dropped: number) => string
  readonly heldBytesMax?: number
}

/** Whole lines that share one write. */
interface Chunk {
  text: string
  bytes: number
}

/**
 * Returns a function that writes to a descriptor without ever waiting for its reader. A pipe is opened again in
 * non-blocking mode, because that flag of the shared descriptor is not ours to set: 4 KiB take 2 µs, compared to 35
 * µs in Bun's thread pool. Anything else, a file or a terminal, goes through the pool: a stalled reader blocks one of
 * its threads, never the event loop.
 */
export function descriptor(fd: number): Write {
  const pipe = openPipe(fd)
  if (pipe === undefined) return (bytes, done) => fs.write(fd, bytes, 0, bytes.length, null, done)
  return (bytes, done) => {
    let written: number
    try {
      written = fs.writeSync(pipe, bytes)
    } catch (error) {
      if (!isErrno(error)) throw error
      done(error, 0)
      return
    }
    done(null, written)
  }
}

/** A descriptor of our own for the same pipe; undefined if it is no pipe, or the system has no `/proc`. */
function openPipe(fd: number): number | undefined {
  try {
    if (!fs.fstatSync(fd).isFIFO()) return undefined
    return fs.openSync(`/proc/self/fd/${fd}`, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK)
  } catch (error) {
    if (isErrno(error)) return undefined
    throw error
  }
}

function isErrno(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'code' in error
}

/** A destination of pino. */
export class LineSink {
  private readonly chunks: Chunk[] = []
  /** Bytes that are not written yet, including those of the write in progress. */
  private held = 0
  private dropped = 0
  private writing = false
  /** Whether the last write succeeded. The count of dropped lines waits for that, because it would be lost, too. */
  private flows = true
  private timer: NodeJS.Timeout | undefined
  private readonly waiters: (() => void)[] = []
  private readonly heldBytesMax: number
  private writeBytesMax = WRITE_BYTES_MAX

  constructor(private readonly options: SinkOptions) {
    this.heldBytesMax = options.heldBytesMax ?? HELD_BYTES_MAX
  }

  /** Declares whether no other process regularly writes to the same pipe, so that larger writes are safe. */
  writeAlone(isAlone: boolean): void {
    this.writeBytesMax = isAlone ? WRITE_BYTES_MAX_ALONE : WRITE_BYTES_MAX
  }

  /** Takes one line with its line end. */
  write(text: string): void {
    const bytes = Buffer.byteLength(text)
    if (this.held + bytes > this.heldBytesMax) {
      this.dropped++
      return
    }
    this.append(text, bytes)
    if (this.writing) return
    if (this.held >= this.writeBytesMax) this.writeNext()
    else this.timer ??= setTimeout(() => this.writeNext(), GATHER_MS)
  }

  /**
   * Resolves when everything is written, or after `withinMs`: a process that ends must not wait for a stalled reader.
   */
  async flush(withinMs: number): Promise<void> {
    if (!this.writing) this.writeNext()
    if (this.held === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.waiters.push(resolve)
    const limit = setTimeout(resolve, withinMs)
    await promise
    clearTimeout(limit)
  }

  /** A line that is longer than one write goes alone. */
  private append(text: string, bytes: number): void {
    const last = this.chunks.at(-1)
    if (last !== undefined && last.bytes + bytes <= this.writeBytesMax) {
      last.text += text
      last.bytes += bytes
    } else {
      this.chunks.push({ text, bytes })
    }
    this.held += bytes
  }

  private writeNext(): void {
    clearTimeout(this.timer)
    this.timer = undefined
    if (this.dropped > 0 && this.flows && this.held < this.heldBytesMax / 2) this.reportDropped()
    const next = this.chunks.shift()
    this.writing = next !== undefined
    if (next !== undefined) this.send(Buffer.from(next.text))
    else for (const resolve of this.waiters.splice(0)) resolve()
  }

  private reportDropped(): void {
    const text = this.options.notice(this.dropped)
    this.dropped = 0
    this.append(text, Buffer.byteLength(text))
  }

  private send(bytes: Uint8Array): void {
    this.options.write(bytes, (error, written) => {
      if (error !== null && isTransient(error)) {
        setTimeout(() => this.send(bytes), RETRY_MS)
        return
      }
      if (error !== null) {
        // The reader is gone or the disk is full: these lines are lost, and weir tries the next ones.
        this.flows = false
        this.dropped += countLines(bytes)
        this.held -= bytes.length
      } else {
        this.flows = true
        this.held -= written
        if (written < bytes.length) {
          this.send(bytes.subarray(written))
          return
        }
      }
      this.writeNext()
    })
  }
}

function isTransient(error: NodeJS.ErrnoException): boolean {
  return error.code === 'EAGAIN' || error.code === 'EINTR' || error.code === 'EBUSY'
}

function countLines(bytes: Uint8Array): number {
  let count = 0
  for (const byte of bytes) if (byte === 0x0a) count++
  return count
}

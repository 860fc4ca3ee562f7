/** The caller's side of a streamed answer: what is written to it, and how the stream ends there. */

import { ticker } from '../core/ticker.ts'
import type { Outcome } from '../ledger/ledger.ts'
import { KEEP_ALIVE_COMMENT } from '../wire/sse.ts'

/** What a pump writes one stream to; each transport has its own. */
export interface CallerStream {
  /** When the caller last took something, or was sent something: at most a tick later than this. */
  progressMs: number
  /** Sends the bytes at once. A promise if the caller's socket is full, which resolves once it is not. */
  write(bytes: string | Uint8Array): Promise<unknown> | undefined
  /** Sends something to a caller that may have left. */
  writeIdle(bytes: string | Uint8Array): void
  /** Sends the last bytes of a stream that is complete. `close` follows. */
  finish(bytes: string | Uint8Array): void
  /**
   * Nothing more is written. After `finish` the outcome is `completed`. With any other outcome the caller must not take
   * the stream for a complete one. Over HTTP, where the connection is the stream's alone, it is closed without its last
   * chunk; on a connection that outlives its streams, the stream needs a last message that states the failure.
   */
  close(outcome: Outcome): void
}

/**
 * Between the last write and a cut. Bun resets the connection, which loses what Bun gathered in this turn (even after
 * its flush has resolved) and what the caller's host has not passed on yet: without this delay the last whole events,
 * and a head that was just written, are lost.
 */
const LAST_BYTES_MS = 100

/**
 * What Bun's direct streams give to `pull`. `write` returns a promise if the socket is full, which resolves once it has
 * taken the bytes; else a number, so that nothing is allocated for a write to a caller that reads.
 */
export interface ByteSink {
  write(bytes: string | Uint8Array): unknown
  flush(): unknown
  end(): unknown
}

/** The connection that a stream is written to. */
export interface CallerConnection {
  /** Called just before a complete stream ends, while Bun still accepts a timeout for its connection. */
  limitSilence(): void
}

/** A stream over HTTP, from the moment when Bun accepts its bytes. */
export class HttpStream implements CallerStream {
  progressMs = performance.now()
  /** The head is sent with the first bytes of the body. */
  private isHeadOut = false
  private readonly pulled = Promise.withResolvers<void>()

  constructor(
    private readonly sink: ByteSink,
    private readonly connection?: CallerConnection,
  ) {}

  /** For Bun: the stream lasts until this resolves, and is cut if it rejects. */
  get ended(): Promise<void> {
    return this.pulled.promise
  }

  write(bytes: string | Uint8Array): Promise<unknown> | undefined {
    const written = this.sink.write(bytes)
    this.sink.flush()
    this.isHeadOut = true
    this.progressMs = ticker.nowMs
    return written instanceof Promise ? written : undefined
  }

  writeIdle(bytes: string | Uint8Array): void {
    this.write(bytes)?.catch(() => {})
  }

  finish(bytes: string | Uint8Array): void {
    this.sink.write(bytes)
    this.connection?.limitSilence()
    this.sink.end()
  }

  /** A cut is a reset: at once if the caller has left, else after the last bytes have reached it. */
  close(outcome: Outcome): void {
    if (outcome === 'completed') return this.pulled.resolve()
    const cut = () => this.pulled.reject(new Error('cut'))
    if (outcome === 'caller_left') return cut()
    // A connection that is cut before its head looks like a failed one, and the request is retried.
    if (!this.isHeadOut) this.writeIdle(KEEP_ALIVE_COMMENT)
    setTimeout(cut, LAST_BYTES_MS)
  }
}

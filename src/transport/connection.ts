/**
 * One connection to an origin: it carries one exchange at a time, and reports when it is free for the next. It never
 * sends a request twice and never gives bytes to an exchange that they do not belong to: a byte on an idle connection
 * closes it.
 */

import type { RawSocket, SocketEvents } from './dial.ts'
import type { HttpExchange } from './exchange.ts'
import { ResponseSyntaxError } from './response-head.ts'
import { ResponseParser } from './response-parser.ts'
import { TransportError } from './transport-error.ts'

/** Takes connections back. */
interface ConnectionOwner {
  /** The response is whole, and the connection can carry another exchange. */
  idle(connection: Connection): void
  /** It is no longer usable. */
  closed(connection: Connection): void
}

export class Connection implements SocketEvents {
  private readonly parser = new ResponseParser()
  private exchange: HttpExchange | undefined
  /** What the socket did not take yet; the rest of the request follows it. */
  private unwritten: Uint8Array | undefined
  private isPaused = false
  private isClosed = false
  /** How many exchanges it has carried to their end. */
  served = 0
  /** When it became idle. */
  idleSinceMs = 0
  /** How long the server keeps it when it is idle, if it reports that; else infinite. */
  keepAliveMs = Number.POSITIVE_INFINITY

  constructor(
    private readonly socket: RawSocket,
    private readonly owner: ConnectionOwner,
  ) {}

  /** Sends the request of an exchange; its response goes to it. Only while the connection is idle. */
  start(exchange: HttpExchange): void {
    if (this.isClosed || this.exchange !== undefined) throw new Error('the connection is not idle')
    this.exchange = exchange
    this.parser.begin(exchange)
    exchange.assign(this, this.served > 0)
    this.write()
  }

  /** An idle connection does not keep the process alive. */
  ref(): void {
    this.socket.ref()
  }

  unref(): void {
    this.socket.unref()
  }

  /** Closes the connection at once. An exchange that runs on it is not called again. */
  close(): void {
    if (this.isClosed) return
    this.isClosed = true
    this.unwritten = undefined
    this.exchange = undefined
    this.socket.terminate()
    this.owner.closed(this)
  }

  /** Nothing is read until `resume`. Bun may deliver what it has already read: at most 512 KiB. */
  pause(): void {
    if (this.isPaused || this.isClosed) return
    this.isPaused = true
    this.socket.pause()
  }

  resume(): void {
    if (!this.isPaused || this.isClosed) return
    this.isPaused = false
    this.socket.resume()
  }

  received(bytes: Buffer): void {
    const { exchange } = this
    if (exchange === undefined) return this.close()
    exchange.hasHeard = true
    let taken: number
    try {
      taken = this.parser.push(bytes)
    } catch (error) {
      if (error instanceof ResponseSyntaxError) return this.fail(new TransportError('malformed', error.message))
      this.fail(new TransportError('cut', 'the response could not be taken'))
      // Bun would give it to the socket's `error` handler, as if it were the network's.
      queueMicrotask(() => {
        throw error
      })
      return
    }
    // Not if the handler has aborted it.
    if (this.exchange === exchange && this.parser.isDone) this.finish(exchange, taken === bytes.length)
  }

  ended(): void {
    const { exchange } = this
    if (exchange === undefined) this.close()
    else if (this.parser.close()) this.finish(exchange, false)
    else this.fail(new TransportError('cut', 'the connection ended before the response', 'ECONNRESET'))
  }

  broke(code: string): void {
    if (this.isClosed) return
    if (this.exchange === undefined) this.close()
    // Without an error the peer closed it in the middle of an exchange, which comes to the same.
    else this.fail(new TransportError('cut', 'the connection broke before the response ended', code || 'ECONNRESET'))
  }

  drained(): void {
    this.write()
  }

  /** Writes as much as the socket takes. A response may end the exchange before its request is written. */
  private write(): void {
    while (!this.isClosed) {
      const piece = this.unwritten ?? this.exchange?.next()
      if (piece === undefined) return
      const size = typeof piece === 'string' ? (this.exchange?.textBytes ?? 0) : piece.byteLength
      const written = this.socket.write(piece)
      if (written > 0 && this.exchange !== undefined) this.exchange.hasSent = true
      if (written < size) {
        this.unwritten = undefined
        if (this.exchange?.rewind(size - Math.max(0, written)) === true) return
        const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece
        this.unwritten = written > 0 ? bytes.subarray(written) : bytes
        return
      }
      this.unwritten = undefined
    }
  }

  private finish(exchange: HttpExchange, isClean: boolean): void {
    this.resume()
    this.exchange = undefined
    this.served += 1
    this.keepAliveMs = this.parser.keepAliveMs
    const isFree = isClean && this.parser.isReusable && this.unwritten === undefined && exchange.isWritten
    // Before the handler is called, so that its next request can use this connection.
    if (isFree) this.owner.idle(this)
    else this.close()
    exchange.complete()
  }

  private fail(error: TransportError): void {
    const { exchange } = this
    this.close()
    exchange?.fail(error)
  }
}

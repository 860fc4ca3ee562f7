/** One request and its response: what is still to be sent, what has come, and how either side ends it. */

import { BytePieces } from '../core/byte-pieces.ts'
import { partOf } from '../core/bytes.ts'
import { ProviderError } from '../core/provider-error.ts'
import { type Decompressor, decompressorOf } from './decompressor.ts'
import type { Origin } from './origin.ts'
import { PieceWriter } from './piece-writer.ts'
import { proxyRefusal } from './proxy-tunnel.ts'
import type { ClientRequest, OutgoingHead } from './request-head.ts'
import type { ResponseHead } from './response-head.ts'
import type { ResponseSink } from './response-parser.ts'
import { TransportError } from './transport-error.ts'

/**
 * Takes a response: its head, any number of pieces of its body, then its end; or an error at any point. Nothing is
 * called before `send` has returned, or after `end`, `fail` or an abort. None of the methods may throw.
 */
export interface ResponseHandler {
  head(status: number, headers: Pick<ResponseHead, 'get' | 'has'>): void
  /** The bytes from `from` to `to`; at least one. The handler alone may use them from then on. */
  data(bytes: Uint8Array, from: number, to: number): void
  /** Whether a body that comes whole goes to `text`. Asked after `head`. */
  readonly takesText?: boolean
  /** All of a body in UTF-8, and its size, instead of `data`. */
  text?(text: string, bytes: number): void
  /** The clean end of the body. The connection can already serve another exchange. */
  end(): void
  /**
   * Before the head: `unreachable`, or `broken` for an answer that is not HTTP. After it: `cut`, if the connection
   * broke or the body is not the one announced. The cause is a `TransportError`.
   */
  fail(error: ProviderError): void
}

/** The connections to one origin. */
interface Connections {
  /** The exchange needs a connection. */
  connect(exchange: HttpExchange): void
  /** The exchange no longer needs one. */
  withdraw(exchange: HttpExchange): void
  /** Resolves with false if no new connection can be made within `ms`. */
  canConnect(ms: number): Promise<boolean>
}

/** Finds connections for exchanges. */
export interface ExchangeOwner {
  /** Throws `TransportError` for a request that cannot be sent. */
  headOf(request: ClientRequest): OutgoingHead
  poolOf(origin: Origin): Connections
}

/** The connection that an exchange runs on. */
interface Carrier {
  pause(): void
  resume(): void
  /** At once; the exchange is not called again. */
  close(): void
}

/** Requests up to this size are kept until their response begins, so that they can be sent once more. */
const REPEATABLE_BYTES_MAX = 1024 * 1024
/**
 * A server that closed an idle connection answers with a reset within a round trip. Later it has read the request, and
 * may have done, and charged, all that the request asks for.
 */
const REPEAT_WITHIN_MS = 100
/** A longer text is written as bytes, without the copy that joining it to the head makes. */
const TEXT_CHARS_MAX = 64 * 1024
/** One object per request: it is what its caller holds, what waits for a connection, and what the parser feeds. */
export class HttpExchange implements ResponseSink {
  /** Absent before `send`, and if the request cannot be sent. */
  private request: OutgoingHead | undefined
  /** Absent once it is not needed again: the response may take minutes, and bodies are up to 10 MiB. */
  private body: ClientRequest['body'] | undefined
  private handler: ResponseHandler | undefined
  private carrier: Carrier | undefined
  private decompressor: Decompressor | undefined
  /** Bytes of the body. */
  private bodyBytes = 0
  /** Of head and body, if the body comes in pieces. Absent until the head is written, and after everything was. */
  private writer: PieceWriter | undefined
  /** When its connection had taken all of the request (`performance.now()`). */
  private writtenMs: number | undefined
  private isSentOnce = false
  private isPaused = false
  private isOver = false
  private hasHead = false
  /** The response is whole; what is still to be decompressed may remain. */
  private isComplete = false
  /** Everything was handed to the connection. */
  isWritten = false
  /** The bytes of the text that `next` returned. */
  textBytes = 0
  /** It is sent for the second time, which only a new connection may carry. */
  isRepeat = false
  /** A connection was assigned, now or before. */
  private wasConnected = false
  /** Its connection had carried another exchange before. */
  private isOnKept = false
  /** A byte of the request has left. */
  hasSent = false
  /** A byte of the response has come. */
  hasHeard = false

  constructor(private readonly owner: ExchangeOwner) {}

  /** Sends a request; its response goes to the handler. Once. */
  send(request: ClientRequest, handler: ResponseHandler): void {
    const { body } = request
    this.handler = handler
    try {
      this.request = this.owner.headOf(request)
    } catch (error) {
      if (!(error instanceof TransportError)) throw error
      return this.failSoon(error)
    }
    this.isSentOnce = request.isSentOnce === true
    this.body = typeof body === 'string' && body.length > TEXT_CHARS_MAX ? BytePieces.of([Buffer.from(body)]) : body
    this.bodyBytes = typeof this.body === 'string' ? Buffer.byteLength(this.body) : this.body.byteLength
    this.pool.connect(this)
  }

  private failSoon(error: TransportError): void {
    queueMicrotask(() => this.fail(error))
  }

  /** Only of a request that can be sent. */
  private get origin(): Origin {
    if (this.request === undefined) throw new Error('the exchange has no request')
    return this.request.origin
  }

  private get pool(): Connections {
    return this.owner.poolOf(this.origin)
  }

  /** False if no byte of the request has left, so that the server cannot have received any. */
  wasSent(): boolean {
    return this.hasSent
  }

  /** Ends the exchange wherever it is; its connection is closed at once. */
  abort(): void {
    if (this.isOver) return
    const { carrier, request } = this
    this.finish()
    if (carrier !== undefined) carrier.close()
    else if (request !== undefined && !this.isComplete) this.pool.withdraw(this)
  }

  /** Stops reading. Bytes that were already read may still come: at most 512 KiB, and an end after them. */
  pause(): void {
    this.isPaused = true
    this.decompressor?.pause()
    this.carrier?.pause()
  }

  resume(): void {
    this.isPaused = false
    this.decompressor?.resume()
    this.carrier?.resume()
  }

  /**
   * Resolves with false if no connection can be made within `ms`. A connection that was made for this request proves
   * that one can. One that was kept proves nothing until a byte has come, because the machine may be gone: then another
   * one is tried.
   */
  async canConnect(ms: number): Promise<boolean> {
    if (this.isOver || this.hasHeard) return true
    if (this.wasConnected) return !this.isOnKept || (await this.pool.canConnect(ms))
    await new Promise((resolve) => setTimeout(resolve, ms))
    return this.wasConnected || this.isOver
  }

  // What follows is for the pool and the connection.

  /** Whether the request can be sent once more; else it may have lost its body. */
  get isRepeatable(): boolean {
    return this.bodyBytes <= REPEATABLE_BYTES_MAX && !this.isSentOnce
  }

  assign(carrier: Carrier, isKept: boolean): void {
    this.carrier = carrier
    this.isOnKept = isKept
    this.wasConnected = true
    this.writer = undefined
    this.isWritten = false
    this.writtenMs = undefined
    if (this.isPaused) carrier.pause()
  }

  /**
   * What is to be written next; undefined if everything was. If the socket does not take all of it, `rewind` must be
   * called before anything else is written.
   */
  next(): string | Uint8Array | undefined {
    const { body, request } = this
    if (this.isWritten) {
      this.writtenMs = performance.now()
      this.writer = undefined
      if (!this.isRepeatable) this.body = undefined
      return undefined
    }
    if (body === undefined || request === undefined) return undefined
    if (typeof body !== 'string') {
      this.writer ??= new PieceWriter(Buffer.from(this.headText(request), 'latin1'), body)
      const bytes = this.writer.next()
      this.isWritten = this.writer.isDone
      return bytes
    }
    this.isWritten = true
    const head = this.headText(request)
    if (!request.isAscii) return Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)])
    this.textBytes = head.length + this.bodyBytes
    return head + body
  }

  private headText({ text }: OutgoingHead): string {
    return `${text}${this.bodyBytes}\r\n\r\n`
  }

  /** The last bytes that `next` returned were not taken: it returns them again. False if they are to be kept. */
  rewind(bytes: number): boolean {
    if (this.writer === undefined) return false
    this.writer.rewind(bytes)
    this.isWritten = false
    return true
  }

  head(head: ResponseHead): void {
    const { proxy, isSecure } = this.origin
    // The provider has not seen it, and its caller cannot know of the proxy.
    if (head.status === 407 && proxy !== undefined && !isSecure) return this.breakOff(proxyRefusal(proxy, head.status))
    this.hasHead = true
    this.body = this.isWritten ? undefined : this.body
    if (head.coding !== '') this.decompressor = decompressorOf(head.coding, this)
    this.handler?.head(head.status, head)
  }

  data(bytes: Uint8Array, from: number, to: number): void {
    if (this.decompressor === undefined) this.handler?.data(bytes, from, to)
    else if (!this.isOver && !this.decompressor.write(partOf(bytes, from, to))) this.carrier?.pause()
  }

  get takesText(): boolean {
    return this.decompressor === undefined && this.handler?.takesText === true
  }

  text(text: string, bytes: number): void {
    this.handler?.text?.(text, bytes)
  }

  /** The response is whole, and the connection is another's. */
  complete(): void {
    if (this.isOver) return
    this.carrier = undefined
    this.isComplete = true
    if (this.decompressor === undefined) this.decompressedAll()
    else this.decompressor.end()
  }

  /** The connection is gone, or none was made. */
  fail(error: TransportError): void {
    if (this.isOver) return
    this.carrier = undefined
    if (this.isLostInPool(error)) {
      this.isRepeat = true
      this.pool.connect(this)
      return
    }
    const { handler } = this
    this.finish()
    handler?.fail(reported(error, this.hasHead))
  }

  /** Its connection was closed before the server can have read the request. */
  private isLostInPool({ kind }: TransportError): boolean {
    if (kind !== 'cut' || !this.isOnKept || this.hasHeard || this.isRepeat || !this.isRepeatable) return false
    return this.writtenMs === undefined || performance.now() - this.writtenMs < REPEAT_WITHIN_MS
  }

  // What follows is for the decompressor.

  decompressed(bytes: Uint8Array): void {
    this.handler?.data(bytes, 0, bytes.byteLength)
  }

  decompressedAll(): void {
    const { handler } = this
    this.finish()
    handler?.end()
  }

  notDecompressed(): void {
    this.breakOff(new TransportError('malformed', 'the body does not match its content coding'))
  }

  decompressorDrained(): void {
    if (!this.isPaused) this.carrier?.resume()
  }

  private breakOff(error: TransportError): void {
    const { carrier } = this
    this.carrier = undefined
    carrier?.close()
    this.fail(error)
  }

  private finish(): void {
    this.isOver = true
    this.carrier = undefined
    this.handler = undefined
    this.body = undefined
    this.writer = undefined
    this.decompressor?.destroy()
  }
}

function reported(cause: TransportError, hasHead: boolean): ProviderError {
  if (hasHead) return new ProviderError('cut', 'the connection to the provider broke', { cause })
  if (cause.kind === 'malformed') return new ProviderError('broken', 'the provider did not answer in HTTP', { cause })
  // The codes of the system and of TLS show all that is known.
  const why = cause.code === '' || cause.code.startsWith('proxy_') ? `: ${cause.message}` : ''
  return new ProviderError('unreachable', `the provider cannot be reached${why}`, { cause })
}

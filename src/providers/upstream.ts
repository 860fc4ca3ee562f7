/**
 * One request to a provider and its answer, with their deadlines and caps. Whatever ends a call, `abort` leaves nothing
 * open.
 */

import type { ReportedLimit } from '../core/capacity-limits.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { ProviderError, type ProviderErrorDetail } from '../core/provider-error.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import { HttpClient } from '../transport/client.ts'
import { HttpExchange, type ResponseHandler } from '../transport/exchange.ts'
import { withToken } from './access-tokens.ts'
import { type BodyReader, BodyText, type TextReader } from './body-readers.ts'
import type { Dispatch, ResponseHeaders } from './provider.ts'
import { exhaustedMs, reportedLimits } from './retry-after.ts'

/** A whole answer in JSON; images are base64 inside one. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024
/** Only the message of an error body is used. */
const ERROR_BYTES_MAX = 64 * 1024
/** A provider that does not end its answer within this time after its final marker is disconnected. */
const RELEASE_MS = 1000
/**
 * A call whose caller left is ended within a second, also if it is noticed late that the caller left, and the deadline
 * late that it is over.
 */
const READ_ON_MS = 800
/** Calls of one process that read on at once, and what may come of all their answers: these are kept to be parsed. */
const READING_ON_MAX = 1024
const READING_ON_BYTES_MAX = 64 * 1024 * 1024

/** Its connections are those of all requests of the process. Nothing is connected before the first one. */
const client = new HttpClient()

type Phase = 'connect' | 'first byte' | 'idle' | 'paused' | 'release'

/** What a call needs of its exchange. */
export type ExchangeInUse = Pick<HttpExchange, 'send' | 'pause' | 'resume' | 'abort' | 'canConnect' | 'wasSent'>

/** Takes the head of an answer, or the error that came instead: one call of one of the two. Neither may throw. */
export interface HeadReader {
  /** `status` and `headers` are known. The body goes to the reader that is set before this returns. */
  head(): void
  /** `ProviderError` `unreachable`, `timeout`, `broken` or `credential`; another error is a bug of signing. */
  fail(error: unknown): void
}

/**
 * Its readers get the head of the answer and then its body. Four deadlines run on their own: connecting, the first
 * byte, silence between bytes, and the whole call.
 */
export class UpstreamCall implements Ticking, ResponseHandler {
  place = -1
  status = 0
  /** Empty before the head. */
  headers: ResponseHeaders = NO_HEADERS
  private readonly startedMs = performance.now()
  private phase: Phase = 'connect'
  private phaseMs = this.startedMs
  /** Bytes have come since the last tick, which is when their silence begins: reading a clock costs 50 ns an event. */
  private hasHeard = false
  /** It has ended, failed or was aborted: nothing is open. */
  private isOver = false
  private probing = false
  /** Set once the caller has left. */
  private lastRead: LastRead | undefined
  /** Dropped as soon as the exchange has it: the answer may take minutes, and bodies are up to 10 MiB. */
  private request: Dispatch | undefined
  /** Sent in addition; no signature covers them. */
  private added: Readonly<Record<string, string>> | undefined
  private opener: HeadReader | undefined
  private reader: BodyReader | undefined

  constructor(
    request: Dispatch,
    private readonly endpoint: Endpoint,
    private readonly stream: boolean,
    /** No answer later than this (`performance.now()`), even if the provider's own deadlines allow it. */
    private dueMs: number,
    private readonly exchange: ExchangeInUse = new HttpExchange(client),
  ) {
    this.request = request
  }

  /** Before `send`: headers to send in addition to those of the request. They override headers of the same spelling. */
  addHeaders(headers: Readonly<Record<string, string>> | undefined): void {
    this.added = headers
  }

  /** Sends the request. The reader is called later, or at once if the call was aborted before. */
  send(opener: HeadReader): void {
    const { request } = this
    this.request = undefined
    if (this.isOver || request === undefined) return opener.fail(abortedBeforeSent())
    this.opener = opener
    ticker.add(this)
    const { identity } = this.endpoint
    if (request.sign !== undefined) void this.sendSigned(request, request.sign)
    else if (identity === undefined) this.exchange.send(this.withAdded(request), this)
    else this.sendIdentified(request, identity)
  }

  private sendIdentified(request: Dispatch, identity: NonNullable<Endpoint['identity']>): void {
    void this.sendSigned(request, () => withToken(this.endpoint, identity, request.headers))
  }

  private async sendSigned(request: Dispatch, sign: NonNullable<Dispatch['sign']>): Promise<void> {
    try {
      const headers = await sign()
      if (!this.isOver) this.exchange.send(this.withAdded({ ...request, headers }), this)
    } catch (error) {
      this.close()
      this.opener?.fail(error)
      this.opener = undefined
    }
  }

  private withAdded(request: Dispatch): Dispatch {
    return this.added === undefined ? request : { ...request, headers: { ...request.headers, ...this.added } }
  }

  /** Gives the body to the reader, from here on. */
  read(reader: BodyReader): void {
    this.reader = reader
  }

  /** Gives the whole body to the reader, at most `bytesMax` bytes. */
  readText(reader: TextReader, bytesMax: number = ANSWER_BYTES_MAX): void {
    if (Number(this.headers.get('content-length')) > bytesMax) return reader.fail(this.tooLarge(bytesMax))
    this.reader = new BodyText(this, reader, bytesMax)
  }

  /** The body of an error; '' if it is too large or cannot be read. */
  readErrorText(take: (text: string) => void): void {
    this.readText({ text: take, fail: () => take('') }, ERROR_BYTES_MAX)
  }

  head(status: number, headers: ResponseHeaders): void {
    this.status = status
    this.headers = headers
    this.phase = 'first byte'
    const { opener } = this
    this.opener = undefined
    opener?.head()
  }

  data(bytes: Uint8Array, from: number, to: number): void {
    // What was read before a pause may still come.
    if (!this.hasHeard && this.phase !== 'paused' && this.phase !== 'release') {
      this.phase = 'idle'
      this.hasHeard = true
    }
    if (this.lastRead?.admits(to - from) === false) return this.interrupt()
    this.reader?.data(bytes, from, to)
  }

  get takesText(): boolean {
    return this.reader instanceof BodyText
  }

  text(text: string, bytes: number): void {
    if (this.reader instanceof BodyText) this.reader.whole(text, bytes)
  }

  end(): void {
    const { reader } = this
    this.close()
    reader?.end()
  }

  fail(error: ProviderError): void {
    const { opener, reader } = this
    this.opener = undefined
    this.close()
    if (opener !== undefined) opener.fail(error)
    else reader?.fail(error)
  }

  /** The caller, not the provider, is the slow one: stops reading, and the idle deadline. */
  pause(): void {
    if (this.isOver) return
    this.phase = 'paused'
    this.exchange.pause()
  }

  resume(): void {
    if (this.isOver) return
    this.enter('idle')
    this.exchange.resume()
  }

  /** Aborts the call; its reader gets a `ProviderError` `cut`. */
  interrupt(): void {
    this.stop(new ProviderError('cut', 'the request was aborted'))
  }

  /**
   * The caller has left: what comes within `READ_ON_MS` is still read, because the usage may be in it; then the call
   * ends as by `interrupt`. False if nothing is to be read: nothing of the request was sent, or too many calls read on.
   */
  readOn(): boolean {
    if (this.isOver || this.lastRead !== undefined) return true
    if (this.wasSent()) this.lastRead = LastRead.begin()
    return this.lastRead !== undefined
  }

  /** For a body of more than `bytesMax` bytes: aborts the call. */
  tooLarge(bytesMax: number): ProviderError {
    this.abort()
    return new ProviderError('broken', `the answer is larger than ${bytesMax} bytes`, { status: this.status })
  }

  /** This candidate is the one that answers: from now on only the provider's own deadlines apply. */
  endSearch(): void {
    this.dueMs = Number.POSITIVE_INFINITY
  }

  /** What the provider reports of its limits. */
  get reportedLimits(): readonly ReportedLimit[] {
    return reportedLimits(this.headers)
  }

  /** How long the provider has nothing left of a rate limit, in milliseconds; undefined if it did not report that. */
  get exhaustedMs(): number | undefined {
    return exhaustedMs(this.headers)
  }

  /** False if the provider cannot have received any byte of the request, so that nothing is charged for it. */
  wasSent(): boolean {
    return this.exchange.wasSent()
  }

  /** Ends the call in any phase. Its readers are not called again. */
  abort(): void {
    if (this.isOver) return
    this.close()
    this.opener = undefined
    this.exchange.abort()
  }

  /**
   * The answer is complete, but its connection can be reused only after the end of the body was read. Providers end a
   * body right after their final marker, so this waits at most `RELEASE_MS`.
   */
  release(): void {
    if (this.isOver) return
    const wasPaused = this.phase === 'paused'
    this.enter('release')
    this.reader = undefined
    if (wasPaused) this.exchange.resume()
  }

  tick(nowMs: number): void {
    const { deadlines } = this.endpoint
    if (this.hasHeard) this.phaseMs = nowMs
    this.hasHeard = false
    const sinceMs = nowMs - this.phaseMs
    if (this.lastRead !== undefined && nowMs >= this.lastRead.dueMs) return this.interrupt()
    if (nowMs - this.startedMs >= deadlines.totalMs) return this.expire('total', 'in time')
    if (nowMs >= this.dueMs) return this.expire('total', 'in time', true)
    switch (this.phase) {
      case 'connect':
        if (sinceMs >= deadlines.connectMs / 2) this.probe()
        if (sinceMs >= this.firstByteMs) this.expire('first_byte', `within ${this.firstByteMs} ms`)
        return
      case 'first byte':
        if (nowMs - this.startedMs >= this.firstByteMs) this.expire('first_byte', `within ${this.firstByteMs} ms`)
        return
      case 'idle':
        if (sinceMs >= deadlines.idleMs) this.expire('idle', `for ${deadlines.idleMs} ms`)
        return
      case 'paused':
        return
      case 'release':
        if (sinceMs >= RELEASE_MS) this.abort()
        return
    }
  }

  private get firstByteMs(): number {
    const { firstByteMs } = this.endpoint.deadlines
    return this.stream ? firstByteMs.stream : firstByteMs.whole
  }

  private enter(phase: Phase): void {
    this.phase = phase
    this.phaseMs = performance.now()
    this.hasHeard = false
  }

  private expire(timeout: ProviderErrorDetail['timeout'], when: string, hurried = false): void {
    this.stop(new ProviderError('timeout', `the provider did not answer ${when}`, { timeout, hurried }))
  }

  private stop(error: ProviderError): void {
    if (this.isOver) return
    this.exchange.abort()
    this.fail(error)
  }

  private close(): void {
    this.isOver = true
    this.reader = undefined
    this.lastRead?.end()
    ticker.remove(this)
  }

  /**
   * A provider that is slow to answer looks like one that cannot be reached. So after half of the connect deadline
   * without a head, the exchange finds out whether a connection can be made by the deadline.
   */
  private probe(): void {
    if (this.probing) return
    this.probing = true
    const { connectMs } = this.endpoint.deadlines
    this.exchange.canConnect(connectMs / 2).then((can) => {
      if (can || this.phase !== 'connect') return
      const message = `no connection to the provider within ${connectMs} ms`
      this.stop(new ProviderError('timeout', message, { timeout: 'connect' }))
    }, ignoreProbe)
  }
}

/** What a call may still read after its caller left: few calls, few bytes, for a short time. */
class LastRead {
  private static running = 0
  private static bytes = 0
  readonly dueMs = performance.now() + READ_ON_MS
  private bytes = 0

  /** Undefined if too many calls read on already. */
  static begin(): LastRead | undefined {
    if (LastRead.running === READING_ON_MAX) return undefined
    LastRead.running++
    return new LastRead()
  }

  /** Counts so many bytes; false if all such calls together have read too many. */
  admits(bytes: number): boolean {
    this.bytes += bytes
    LastRead.bytes += bytes
    return LastRead.bytes <= READING_ON_BYTES_MAX
  }

  /** Once. */
  end(): void {
    LastRead.running--
    LastRead.bytes -= this.bytes
  }
}

const NO_HEADERS: ResponseHeaders = new Headers()

function abortedBeforeSent(): ProviderError {
  return new ProviderError('unreachable', 'the request was aborted before it was sent')
}

/** A probe that fails proves nothing; the first-byte deadline goes on. */
function ignoreProbe(): void {}

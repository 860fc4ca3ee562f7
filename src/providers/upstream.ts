/**
 * One request to a provider and its answer, with their deadlines and caps. Whatever ends a call, `abort` leaves nothing
 * open.
 */

import type { Endpoint } from '../core/endpoint.ts'
import { ProviderError } from '../core/provider-error.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import { FetchTransport } from './fetch-transport.ts'
import type { Dispatch, ResponseHeaders } from './provider.ts'
import type { ResponseHandler, Transport } from './transport.ts'

/** A whole answer in JSON; images are base64 inside one. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024
/** Only the message of an error body is used. */
const ERROR_BYTES_MAX = 64 * 1024
/** Bytes of an answer that wait for `read`; above this the provider has to wait. */
const WAITING_BYTES_MAX = 64 * 1024
/** A provider that does not end its answer within this time after its final marker is disconnected. */
const RELEASE_MS = 1000

type Phase = 'connect' | 'first byte' | 'idle' | 'paused' | 'release'

/**
 * `open` resolves with the head of the answer, `read` returns its bytes. Four deadlines run on their own: connecting,
 * the first byte, silence between bytes, and the whole call.
 */
export class UpstreamCall implements Ticking, ResponseHandler {
  status = 0
  /** Empty before the head. */
  headers: ResponseHeaders = NO_HEADERS
  private readonly startedMs = performance.now()
  private phase: Phase = 'connect'
  private phaseMs = this.startedMs
  private aborted = false
  /** The deadline that ended the call. */
  private expired: ProviderError | undefined
  private probing = false
  /** Dropped as soon as the transport has it: the answer may take minutes, and bodies are up to 10 MiB. */
  private request: Dispatch | undefined
  private opening: PromiseWithResolvers<void> | undefined
  private reading: PromiseWithResolvers<Uint8Array | undefined> | undefined
  private releasing: PromiseWithResolvers<void> | undefined
  /** Came while nobody was reading. */
  private waiting: Uint8Array[] = []
  private waitingBytes = 0
  private isEnded = false
  private failure: ProviderError | undefined

  constructor(
    request: Dispatch,
    private readonly endpoint: Endpoint,
    private readonly stream: boolean,
    /** No answer later than this (`performance.now()`), even if the provider's own deadlines allow it. */
    private dueMs: number,
    private readonly transport: Transport = new FetchTransport(endpoint),
  ) {
    this.request = request
  }

  /**
   * Sends the request; resolves with the head of the answer. Throws `ProviderError` `unreachable`, `timeout` or
   * `broken`.
   */
  async open(): Promise<void> {
    const { request } = this
    this.request = undefined
    if (this.aborted || request === undefined) throw abortedBeforeSent()
    ticker.add(this)
    try {
      const signed = request.sign === undefined ? request : await this.signed(request, request.sign)
      this.opening = Promise.withResolvers()
      this.transport.send(signed, this)
      await this.opening.promise
    } catch (error) {
      this.close()
      throw this.expired ?? error
    }
  }

  private async signed(request: Dispatch, sign: NonNullable<Dispatch['sign']>): Promise<Dispatch> {
    const headers = await sign()
    if (this.aborted) throw abortedBeforeSent()
    return { ...request, headers }
  }

  /**
   * The next bytes, or undefined at the clean end. Throws `ProviderError` `cut` after a reset or a short body,
   * `timeout` after a deadline.
   */
  async read(): Promise<Uint8Array | undefined> {
    const chunk = this.waiting.shift()
    if (chunk !== undefined) {
      this.waitingBytes -= chunk.byteLength
      if (this.waiting.length === 0) this.transport.resume()
      this.enter('idle')
      return chunk
    }
    if (this.failure !== undefined) throw this.expired ?? this.failure
    if (this.isEnded) return undefined
    this.reading = Promise.withResolvers()
    return await this.reading.promise
  }

  head(status: number, headers: ResponseHeaders): void {
    this.status = status
    this.headers = headers
    this.enter('first byte')
    this.opening?.resolve()
  }

  data(bytes: Uint8Array): void {
    if (this.releasing !== undefined) return
    if (this.reading !== undefined) {
      this.enter('idle')
      this.reading.resolve(bytes)
      this.reading = undefined
      return
    }
    this.waiting.push(bytes)
    this.waitingBytes += bytes.byteLength
    if (this.waitingBytes > WAITING_BYTES_MAX) this.transport.pause()
  }

  end(): void {
    this.isEnded = true
    this.close()
    this.reading?.resolve(undefined)
    this.releasing?.resolve()
  }

  fail(error: ProviderError): void {
    this.failure = error
    this.close()
    this.opening?.reject(error)
    this.reading?.reject(this.expired ?? error)
    this.releasing?.resolve()
  }

  /** The caller, not the provider, is the slow one: stops reading, and the idle deadline. */
  pause(): void {
    this.phase = 'paused'
    this.transport.pause()
  }

  resume(): void {
    this.enter('idle')
    if (this.waitingBytes <= WAITING_BYTES_MAX) this.transport.resume()
  }

  /** The whole body as text. Throws `ProviderError` `broken` over the cap, else what `read` throws. */
  async text(bytesMax: number = ANSWER_BYTES_MAX): Promise<string> {
    if (Number(this.headers.get('content-length')) > bytesMax) throw this.tooLarge(bytesMax)
    const chunks: Uint8Array[] = []
    let size = 0
    for (;;) {
      const chunk = await this.read()
      if (chunk === undefined) break
      size += chunk.byteLength
      if (size > bytesMax) throw this.tooLarge(bytesMax)
      chunks.push(chunk)
    }
    const [only] = chunks
    return new TextDecoder().decode(chunks.length === 1 ? only : Buffer.concat(chunks, size))
  }

  /** The body of an error; '' if it is too large or cannot be read. */
  async errorText(): Promise<string> {
    try {
      return await this.text(ERROR_BYTES_MAX)
    } catch (error) {
      if (error instanceof ProviderError) return ''
      throw error
    }
  }

  /** This candidate is the one that answers: from now on only the provider's own deadlines apply. */
  endSearch(): void {
    this.dueMs = Number.POSITIVE_INFINITY
  }

  /** False if the provider cannot have received any byte of the request, so that nothing is charged for it. */
  wasSent(): boolean | Promise<boolean> {
    return this.transport.wasSent()
  }

  /** Ends the call in any phase. */
  abort(): void {
    this.aborted = true
    this.transport.abort()
    if (this.isEnded || this.failure !== undefined) return
    const isOpen = this.status !== 0
    this.fail(new ProviderError(isOpen ? 'cut' : 'unreachable', 'the request was aborted'))
  }

  /**
   * The answer is complete, but its connection can be reused only after the end of the body was read. Providers end a
   * body right after their final marker, so this waits at most `RELEASE_MS`.
   */
  release(): Promise<void> {
    if (this.isEnded || this.failure !== undefined) return Promise.resolve()
    this.enter('release')
    this.releasing = Promise.withResolvers()
    this.waiting = []
    this.transport.resume()
    return this.releasing.promise
  }

  tick(nowMs: number): void {
    const { deadlines } = this.endpoint
    const sinceMs = nowMs - this.phaseMs
    if (nowMs - this.startedMs >= deadlines.totalMs) return this.expire('in time')
    if (nowMs >= this.dueMs) return this.expire('in time', true)
    switch (this.phase) {
      case 'connect':
        if (sinceMs >= deadlines.connectMs / 2) this.probe()
        if (sinceMs >= this.firstByteMs) this.expire(`within ${this.firstByteMs} ms`)
        return
      case 'first byte':
        if (nowMs - this.startedMs >= this.firstByteMs) this.expire(`within ${this.firstByteMs} ms`)
        return
      case 'idle':
        if (sinceMs >= deadlines.idleMs) this.expire(`for ${deadlines.idleMs} ms`)
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

  private tooLarge(bytesMax: number): ProviderError {
    this.abort()
    return new ProviderError('broken', `the answer is larger than ${bytesMax} bytes`, { status: this.status })
  }

  private enter(phase: Phase): void {
    this.phase = phase
    this.phaseMs = performance.now()
  }

  private expire(when: string, hurried = false): void {
    this.expired = new ProviderError('timeout', `the provider did not answer ${when}`, { hurried })
    this.abort()
  }

  private close(): void {
    ticker.remove(this)
  }

  /**
   * A transport may be unable to distinguish a connection that is not made yet from an answer that takes its time. So
   * after half of the connect deadline without a head, it is asked whether a connection can be made by the deadline; if
   * not, the request's was not made.
   */
  private probe(): void {
    if (this.probing) return
    this.probing = true
    const { connectMs } = this.endpoint.deadlines
    this.transport.canConnect(connectMs / 2).then((can) => {
      if (can || this.phase !== 'connect' || this.expired !== undefined) return
      this.expired = new ProviderError('timeout', `no connection to the provider within ${connectMs} ms`)
      this.abort()
    }, ignoreProbe)
  }
}

const NO_HEADERS: ResponseHeaders = new Headers()

function abortedBeforeSent(): ProviderError {
  return new ProviderError('unreachable', 'the request was aborted before it was sent')
}

/** A probe that fails proves nothing; the first-byte deadline goes on. */
function ignoreProbe(): void {}

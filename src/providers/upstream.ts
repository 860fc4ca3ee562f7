/** The one place that calls `fetch`: one request to a provider, with its deadlines, its abort and its caps. */

import type { Endpoint } from '../core/endpoint.ts'
import { ProviderError } from '../core/provider-error.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import type { Dispatch } from './provider.ts'
import { canConnect } from './reachability.ts'
import { scrub } from './scrub.ts'

/** A whole answer in JSON; images come as base64 inside one. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024
/** Of an error body only the message is of use. */
const ERROR_BYTES_MAX = 64 * 1024

type BodyReader = Pick<ReadableStreamDefaultReader<Uint8Array>, 'read'>

type Phase = 'connect' | 'first byte' | 'idle' | 'paused' | 'release'

/**
 * One call to a provider. `open` resolves with its headers, `read` gives its bytes. The deadlines run by themselves: connecting, the
 * first byte, silence between bytes, all in all. Whatever ends it, `abort` leaves nothing open.
 */
export class UpstreamCall implements Ticking {
  /** None before the request, and none once the answer was read to its end: then it is another call's. */
  private controller: AbortController | undefined
  private aborted = false
  private readonly startedMs = performance.now()
  private phase: Phase = 'connect'
  private phaseMs = this.startedMs
  private response: Response | undefined
  private reader: BodyReader | undefined
  private expired: ProviderError | undefined
  private probing = false

  private readonly url: string
  /** Whether a byte of it may have left; undefined while nobody can tell: `fetch` asks for pieces once it is connected, and hides it of a text. */
  private sent: boolean | undefined = false
  /** Let go as soon as `fetch` has it: the answer may take minutes, and bodies are up to 10 MiB. */
  private request: Dispatch | undefined

  constructor(
    request: Dispatch,
    private readonly endpoint: Endpoint,
    private readonly stream: boolean,
    /** No answer later than this (`performance.now()`), whatever the provider's own deadlines say. */
    private dueMs: number,
  ) {
    this.url = request.url
    this.request = request
  }

  get status(): number {
    return this.response?.status ?? 0
  }

  get headers(): Headers {
    return this.response?.headers ?? new Headers()
  }

  /** Sends the request; resolves with the answer's headers. Throws `ProviderError` `unreachable`, `timeout` or `broken`. */
  async open(): Promise<void> {
    const { request } = this
    if (this.aborted || request === undefined)
      throw new ProviderError('unreachable', 'the request was ended before it was sent')
    ticker.add(this)
    this.controller = spare.pop() ?? new AbortController()
    try {
      this.request = undefined
      if (isSmall(request.body)) this.sent = undefined
      this.response = await fetched(request, this.controller.signal, () => {
        this.sent = true
      })
    } catch (error) {
      this.close()
      if (neverConnected(error)) this.sent = false
      throw this.expired ?? unreachable(error)
    }
    this.sent = true
    heardMs.set(this.endpoint.baseUrl, performance.now())
    this.enter('first byte')
  }

  /** The next bytes, or undefined at the clean end. Throws `ProviderError` `cut` for a reset or a short body, `timeout` for a deadline. */
  async read(): Promise<Uint8Array | undefined> {
    this.reader ??= this.response?.body?.getReader()
    if (this.reader === undefined) return undefined
    try {
      const { value, done } = await this.reader.read()
      this.enter('idle')
      if (!done) return value
      this.finish()
      return undefined
    } catch (error) {
      this.close()
      throw this.expired ?? new ProviderError('cut', 'the connection to the provider broke', { cause: error })
    }
  }

  /** Silence does not count while the caller, not the provider, is the slow one. */
  pause(): void {
    this.phase = 'paused'
  }

  resume(): void {
    this.enter('idle')
  }

  /** The whole body as text. Throws `ProviderError` `broken` over the cap. */
  async text(bytesMax: number = ANSWER_BYTES_MAX): Promise<string> {
    const { headers } = this
    const declared = headers.get('content-length')
    // A declared length is kept to by the HTTP parser, and one native read costs 8 µs less; what is compressed grows behind it.
    if (declared === null || headers.has('content-encoding')) return this.countedText(bytesMax)
    if (Number(declared) > bytesMax) throw this.tooLarge(bytesMax)
    this.enter('idle')
    try {
      const text = (await this.response?.text()) ?? ''
      this.finish()
      return text
    } catch (error) {
      this.close()
      throw this.expired ?? new ProviderError('cut', 'the connection to the provider broke', { cause: error })
    }
  }

  private async countedText(bytesMax: number): Promise<string> {
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

  /** The body of an error, as much of it as is of use; '' where it cannot be had. */
  async errorText(): Promise<string> {
    try {
      return await this.text(ERROR_BYTES_MAX)
    } catch (error) {
      if (error instanceof ProviderError) return ''
      throw error
    }
  }

  /** The search for an answer is over: from here on only the provider's own deadlines hold. */
  found(): void {
    this.dueMs = Number.POSITIVE_INFINITY
  }

  /**
   * False if the provider cannot have seen anything of the request. Of a small text that was broken off before an answer only another connection
   * can tell: if none can be made, the request's never was. A provider that answered lately may have got it on a connection that was kept.
   */
  wasSent(): boolean | Promise<boolean> {
    if (this.sent !== undefined) return this.sent
    const { baseUrl, deadlines } = this.endpoint
    const sinceMs = performance.now() - (heardMs.get(baseUrl) ?? Number.NEGATIVE_INFINITY)
    if (sinceMs < KEPT_MS || !Number.isFinite(deadlines.connectMs)) return true
    return canConnect(this.url, Math.min(deadlines.connectMs / 2, CONNECTABLE_MS))
  }

  /** Ends the call wherever it is. */
  abort(): void {
    this.close()
    this.aborted = true
    this.controller?.abort()
  }

  /**
   * The answer is whole, its connection may not be free yet: reads what is left so that it can serve again, but only what is there
   * at once. Providers end a body right behind their final marker.
   */
  async release(): Promise<void> {
    this.enter('release')
    try {
      while ((await this.reader?.read())?.done === false);
      this.finish()
    } catch {
      // Nobody waits for these bytes. A connection that broke cannot serve again, and has nothing open.
      this.close()
    }
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

  /** The answer was read to its end: nothing is left to abort. */
  private finish(): void {
    this.close()
    if (this.controller !== undefined && !this.controller.signal.aborted && spare.length < SPARE_MAX)
      spare.push(this.controller)
    this.controller = undefined
  }

  /**
   * `fetch` does not tell a connection that is not made yet from an answer that takes its time. So where there are no headers after half
   * of the connect deadline, a connection of our own tells: if it cannot be made by the deadline either, the request's never was.
   */
  private probe(): void {
    if (this.probing) return
    this.probing = true
    const { connectMs } = this.endpoint.deadlines
    canConnect(this.url, connectMs / 2).then((can) => {
      if (can || this.response !== undefined || this.expired !== undefined) return
      this.expired = new ProviderError('timeout', `no connection to the provider within ${connectMs} ms`)
      this.abort()
    }, reportAsOpen)
  }
}

/** Controllers whose calls ended well serve again: a fresh one a call is 15 µs of a small request, most of it garbage collection. */
const spare: AbortController[] = []
const SPARE_MAX = 1024

/** When each provider last began to answer, by its address. */
const heardMs = new Map<string, number>()
/** Longer than connections are kept between requests. */
const KEPT_MS = 600_000
/** The longest wait for a connection that only tells whether there was one. */
const CONNECTABLE_MS = 1000

/** A provider that does not end its answer this long behind its final marker is left. */
const RELEASE_MS = 1000

/** The fault with a message that may be shown: the provider's words without what is the operator's own, wherever they quote it. */
export function conceal(error: ProviderError, endpoint: Endpoint): ProviderError {
  const message = scrub(error.message, ownWords(endpoint))
  return message === error.message ? error : new ProviderError(error.kind, message, error.detail)
}

/** Credentials, hosts and addresses of a provider, and its own headers' values. */
function ownWords({ apiKey, aws, baseUrl, headers }: Endpoint): readonly string[] {
  const { host, hostname, pathname } = new URL(baseUrl)
  const secrets = [apiKey, aws?.accessKeyId, aws?.secretAccessKey, aws?.sessionToken, ...Object.values(headers)]
  return [...secrets, host, hostname, pathname].filter((word) => word !== undefined)
}

/** How much is handed to the socket at a time. */
const PIECE_BYTES = 64 * 1024
/** From here on a text is sent in pieces: a stream costs a small request 20 µs. */
const PIECEMEAL_CHARS_MIN = 256 * 1024

function isSmall(body: Dispatch['body']): body is string {
  return typeof body === 'string' && body.length < PIECEMEAL_CHARS_MIN
}

/** `leaves` is called when the first piece is about to leave; never for a small text. */
function fetched({ url, headers, body }: Dispatch, signal: AbortSignal, leaves: () => void): Promise<Response> {
  const small = isSmall(body)
  const pieces = typeof body === 'string' ? (small ? [] : [Buffer.from(body)]) : body
  return fetch(url, {
    method: 'POST',
    // Bun asks for compression by itself; an answer that is not compressed can be counted and copied.
    headers: { 'accept-encoding': 'identity', ...headers, ...(small ? {} : lengthOf(pieces)) },
    body: small ? body : streamOf(pieces, leaves),
    redirect: 'manual',
    // Bun ends a request whose provider says nothing for 5 minutes; whole answers may take longer, and have deadlines of their own.
    timeout: false,
    signal,
  })
}

/** A stream goes out chunked, which not every provider takes, unless its length is said. */
function lengthOf(pieces: readonly Uint8Array[]): Readonly<Record<string, string>> {
  return { 'content-length': String(pieces.reduce((sum, piece) => sum + piece.byteLength, 0)) }
}

/**
 * Pieces as a stream, each let go once it was sent. Bun copies texts, bytes and Blobs that it is given whole, and keeps the copy until
 * the answer has ended: with 10 MiB uploads that is 21 MB a request that waits, against 11 this way.
 */
function streamOf(pieces: readonly Uint8Array[], leaves: () => void): ReadableStream<Uint8Array> {
  const left = [...pieces].reverse()
  let at = 0
  return new ReadableStream(
    {
      pull(controller) {
        leaves()
        while (left.length > 0 && at >= (left.at(-1)?.byteLength ?? 0)) {
          left.pop()
          at = 0
        }
        const piece = left.at(-1)
        if (piece === undefined) return controller.close()
        controller.enqueue(piece.subarray(at, at + PIECE_BYTES))
        at += PIECE_BYTES
      },
    },
    { highWaterMark: 0 },
  )
}

/** A probe that cannot be made proves nothing; the first-byte deadline goes on. */
function reportAsOpen(): void {}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

/** True if no connection was made: refused, no such host, or a certificate that is not trusted. */
function neverConnected(error: unknown): boolean {
  return /CONN_?REFUSED|FailedToOpenSocket|NOTFOUND|EAI_AGAIN|CERT|ALTNAME/i.test(codeOf(error))
}

function unreachable(error: unknown): ProviderError {
  const code = codeOf(error)
  const kind = /InvalidHTTPResponse|Malformed_HTTP|HPE_|InvalidContentLength/.test(code) ? 'broken' : 'unreachable'
  return new ProviderError(
    kind,
    kind === 'broken' ? 'the provider did not answer in HTTP' : 'the provider cannot be reached',
    {
      cause: error,
    },
  )
}

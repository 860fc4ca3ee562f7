/** The transport that uses `fetch`, and the one place that calls it. */

import { BytePieces } from '../core/byte-pieces.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { ProviderError } from '../core/provider-error.ts'
import { codeOf } from '../core/system-error.ts'
import type { Dispatch } from './provider.ts'
import { canConnect } from './reachability.ts'
import type { ResponseHandler, Transport } from './transport.ts'

export class FetchTransport implements Transport {
  /** Absent before `send`, and after the end: then another request uses it. */
  private controller: AbortController | undefined
  /** The handler is not called again. */
  private isOver = false
  /** While paused: what `resume` resolves. */
  private paused: PromiseWithResolvers<void> | undefined
  private url = ''
  /**
   * Whether a byte of the request may have been sent. Undefined if unknown: `fetch` reads a streamed body once it is
   * connected, but does not report when it sends a text.
   */
  private sent: boolean | undefined = false

  constructor(private readonly endpoint: Endpoint) {}

  send(request: Dispatch, handler: ResponseHandler): void {
    void this.exchange(request, handler)
  }

  private async exchange(request: Dispatch, handler: ResponseHandler): Promise<void> {
    const response = await this.open(request)
    if (this.isOver) return
    if (response instanceof ProviderError) return this.fail(handler, response)
    handler.head(response.status, response.headers)
    const error = response.body === null ? undefined : await this.read(response.body.getReader(), handler)
    if (this.isOver) return
    if (error !== undefined) return this.fail(handler, error)
    this.isOver = true
    if (this.controller !== undefined && spare.length < SPARE_MAX) spare.push(this.controller)
    this.controller = undefined
    handler.end()
  }

  private async open(request: Dispatch): Promise<Response | ProviderError> {
    this.url = request.url
    this.controller = spare.pop() ?? new AbortController()
    if (isSmall(request.body)) this.sent = undefined
    try {
      const response = await fetched(request, this.controller.signal, () => {
        this.sent = true
      })
      this.sent = true
      answeredMs.set(this.endpoint.baseUrl, performance.now())
      return response
    } catch (error) {
      if (neverConnected(error)) this.sent = false
      return unreachable(error)
    }
  }

  /** Reads the body to its end; returns the error if there is none. */
  private async read(reader: Reader, handler: ResponseHandler): Promise<ProviderError | undefined> {
    try {
      while (!this.isOver) {
        if (this.paused !== undefined) await this.paused.promise
        const { value, done } = await reader.read()
        if (done || this.isOver) break
        handler.data(value, 0, value.byteLength)
      }
      return undefined
    } catch (cause) {
      return new ProviderError('cut', 'the connection to the provider broke', { cause })
    }
  }

  private fail(handler: ResponseHandler, error: ProviderError): void {
    this.isOver = true
    handler.fail(error)
  }

  pause(): void {
    this.paused ??= Promise.withResolvers()
  }

  resume(): void {
    this.paused?.resolve()
    this.paused = undefined
  }

  abort(): void {
    this.isOver = true
    this.controller?.abort()
    this.resume()
  }

  canConnect(ms: number): Promise<boolean> {
    return canConnect(this.url, ms)
  }

  /**
   * Whether `fetch` sent a small text before it was aborted can only be inferred: if a second connection cannot be
   * made, the first was not either. Not if the provider answered within the last minutes, because the text may have
   * left on a connection kept open since.
   */
  async wasSent(): Promise<boolean> {
    if (this.sent !== undefined) return this.sent
    const { baseUrl, deadlines } = this.endpoint
    const sinceMs = performance.now() - (answeredMs.get(baseUrl) ?? Number.NEGATIVE_INFINITY)
    if (sinceMs < KEPT_MS || !Number.isFinite(deadlines.connectMs)) return true
    return canConnect(this.url, Math.min(deadlines.connectMs / 2, PROBE_MS_MAX))
  }
}

type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, 'read'>

/**
 * Controllers of requests that ended well are reused: a new one costs a small request 15 µs, most of it garbage
 * collection.
 */
const spare: AbortController[] = []
const SPARE_MAX = 1024

/**
 * When each provider last began to answer (`performance.now()`), by its base URL; as many as the configurations so far
 * name.
 */
const answeredMs = new Map<string, number>()
/** Longer than `fetch` keeps an idle connection open. */
const KEPT_MS = 600_000
/** The longest wait for a connection that is made only to learn whether there was one before. */
const PROBE_MS_MAX = 1000

/** Bytes that are handed to the socket at a time. */
const PIECE_BYTES = 64 * 1024
/** A longer text is streamed; a shorter one is not, because a stream costs a small request 20 µs. */
const STREAMED_CHARS_MIN = 256 * 1024

function isSmall(body: Dispatch['body']): body is string {
  return typeof body === 'string' && body.length < STREAMED_CHARS_MIN
}

/**
 * `onSend` is called when the first bytes of a streamed body are about to be sent; never for a small text. Rejects for
 * headers and URLs that `fetch` does not accept, too.
 */
async function fetched(
  { method, url, headers, body }: Dispatch,
  signal: AbortSignal,
  onSend: () => void,
): Promise<Response> {
  const small = isSmall(body)
  const pieces = typeof body === 'string' ? BytePieces.of(small ? [] : [Buffer.from(body)]) : body
  return fetch(url, {
    method: method ?? 'POST',
    // Bun requests compression by default; only bytes that are not compressed can be counted and copied.
    headers: { 'accept-encoding': 'identity', ...headers, ...(small ? {} : lengthOf(pieces)) },
    body: method === 'GET' ? undefined : small ? body : streamOf(pieces, onSend),
    redirect: 'manual',
    // Bun ends a request after 5 minutes of silence; whole answers may take longer, and `UpstreamCall` has the
    // deadlines.
    timeout: false,
    signal,
  })
}

/** Without its length a stream is sent chunked, which some providers reject. */
function lengthOf({ byteLength }: BytePieces): Readonly<Record<string, string>> {
  return { 'content-length': String(byteLength) }
}

/**
 * The pieces as a stream; each is dropped after it was sent. Bun copies a text, bytes or a Blob that is given whole and
 * keeps the copy until the answer has ended: 21 MB for each waiting request with a 10 MiB upload, against 11 MB this
 * way.
 */
function streamOf(pieces: BytePieces, onSend: () => void): ReadableStream<Uint8Array> {
  const left = [...pieces].reverse()
  let at = 0
  return new ReadableStream(
    {
      pull(controller) {
        onSend()
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

/** True if no connection was made: refused, no such host, or a certificate that is not trusted. */
function neverConnected(error: unknown): boolean {
  return /CONN_?REFUSED|FailedToOpenSocket|NOTFOUND|EAI_AGAIN|CERT|ALTNAME/i.test(codeOf(error))
}

function unreachable(cause: unknown): ProviderError {
  return /InvalidHTTPResponse|Malformed_HTTP|HPE_|InvalidContentLength/.test(codeOf(cause))
    ? new ProviderError('broken', 'the provider did not answer in HTTP', { cause })
    : new ProviderError('unreachable', 'the provider cannot be reached', { cause })
}

/** One request over HTTP: reads its body within a deadline, makes its response, and watches its connection. */

import type { Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import { newRequestId } from '../core/request-id.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import { errorBody } from '../dialects/error-body.ts'
import { COMPLETED, RequestLog } from '../gateway/access-log.ts'
import type { Answer } from '../gateway/answer.ts'
import type { RequestLine } from '../gateway/request-line.ts'
import { readBody } from '../wire/body.ts'
import { responseOf } from './answer-response.ts'
import { errorHeaders, idHeaders, jsonHeaders } from './headers.ts'
import { type ApiPath, type EdgeState, RequestLife, type Responder, type Run, writeLine } from './request-life.ts'
import { SocketConnection } from './socket-connection.ts'
import type { Sockets } from './sockets.ts'

/** The longest wait for a body. A declared one has as long as it takes at 1 KiB/s, and at least the minimum. */
const BODY_MS_MAX = 60_000
const BODY_MS_MIN = 15_000
/**
 * How long a connection may be silent after its answer began: the caller reads nothing, or sends no further request.
 */
const SILENCE_SECONDS = 120

/** Of the WebSocket protocol (RFC 6455, section 4.4): another version gets the one that is taken. */
const VERSION = '13'

/** Bun's server, as a request needs it. */
interface HttpServer {
  timeout(request: Request, seconds: number): void
  upgrade(
    request: Request,
    options: { readonly data: SocketConnection; readonly headers: Record<string, string> },
  ): boolean
}

/** Serves one request: answers through its life, at once or later. What it throws fails the request. */
export type Handler = (http: HttpRequest) => void

export class HttpRequest implements Responder, Ticking {
  place = -1
  readonly life: RequestLife
  private isUpgraded = false
  /** How long the connection may be silent is ours to limit, not Bun's. */
  private isSilenceOurs = false
  private isSilenceLifted = false
  /** When the body is too late (`performance.now()`). */
  private bodyDueMs = 0
  private response: Response | undefined
  /** Resolves the promise that Bun waits for, if there was no response at once. */
  private resolve: ((response: Response) => void) | undefined

  constructor(
    private readonly state: EdgeState,
    private readonly request: Request,
    private readonly server: HttpServer,
    endpoint: ApiPath,
  ) {
    this.life = new RequestLife(state, this, request, remoteOf(state, request), endpoint)
  }

  /**
   * What Bun gets: the response, or a promise of it; undefined for a connection that became a socket. Whatever the
   * handler throws becomes an error in the shape of the endpoint: nothing that a caller sends ends in anything else.
   */
  serve(handle: Handler): Response | Promise<Response> | undefined {
    try {
      this.life.admit()
      handle(this)
    } catch (error) {
      this.life.failed(error)
    }
    if (this.response !== undefined) return this.response
    if (this.isUpgraded) return undefined
    const answering = new Promise(takeResolve)
    this.resolve = resolveTaken
    return answering
  }

  /** Runs a request that has no body, or whose body has no meaning. Throws `CallerError`. */
  runBare(run: Run): void {
    this.life.begin(run)
    this.life.body(NO_BYTES)
  }

  /**
   * Runs a request once its body has arrived, and fails it if that takes too long. Throws `CallerError`.
   *
   * Bun would end an upload slower than 16 KiB/s, and a silent stream, after 10 s. From the next tick on silence is
   * ours to limit: many requests have ended before it.
   */
  receive(run: Run): void {
    const { life, request } = this
    life.begin(run)
    rejectEncoded(request.headers)
    this.isSilenceOurs = true
    this.bodyDueMs = life.log.startedMs + bodyMs(request)
    ticker.add(this)
    // Bun gives the body after this has returned, even if it came in one packet with the head.
    readBody(request, life)
  }

  /**
   * Makes a socket of the connection, if the key and the gateway allow it. Throws `CallerError`. From here on Bun gives
   * the connection's events to the handler of sockets, and there is no response.
   */
  upgrade(key: Key, sockets: Sockets): void {
    const { life, request, state } = this
    // Bun keeps the headers of a request only until its handler returns.
    const head = { method: request.method, url: request.url, headers: new Headers(request.headers) }
    // Bun would answer another version by itself, without the ids of the request.
    if (head.headers.get('sec-websocket-version') !== VERSION) throw otherHandshake()
    // It would be taken for that of each turn.
    head.headers.delete('content-type')
    const connection = new SocketConnection(state, head, life.log.remote, key, sockets, life.log.requestId)
    sockets.add(connection)
    if (!this.server.upgrade(request, { data: connection, headers: idHeaders(life.log.requestId) })) {
      sockets.remove(connection)
      throw otherHandshake()
    }
    this.isUpgraded = true
    life.upgraded()
  }

  get hasLeft(): boolean {
    return this.request.signal.aborted
  }

  /**
   * A listener costs 0.5 µs and garbage, and nearly all whole answers come before the first tick; a caller that left
   * before it is noticed now.
   */
  tick(nowMs: number): void {
    const { life, request } = this
    this.liftSilence()
    if (!life.isReceived) {
      if (nowMs >= this.bodyDueMs) life.failed(bodyTimeout())
      return
    }
    ticker.remove(this)
    if (this.hasLeft) life.left()
    else request.signal.addEventListener('abort', this, ONCE)
  }

  /** The caller has left. As a method, because a closure for each open stream takes 0.2 KiB. */
  handleEvent(): void {
    this.life.left()
  }

  private liftSilence(): void {
    if (this.isSilenceLifted) return
    this.isSilenceLifted = true
    this.server.timeout(this.request, 0)
  }

  /**
   * Sets a limit on the silence of the connection, which may have none. To be called before the answer ends: Bun
   * accepts no timeout afterwards.
   */
  limitSilence(): void {
    if (this.isSilenceOurs) this.server.timeout(this.request, SILENCE_SECONDS)
  }

  answered(answer: Answer | string): void {
    const { log, running } = this.life
    if (typeof answer !== 'string') return this.respond(responseOf(answer, this.life, this))
    this.limitSilence()
    this.respond(new Response(answer, { headers: jsonHeaders(log.requestId, running.limitHeaders) }))
  }

  failed(error: CallerError): void {
    const { log, running, endpoint } = this.life
    const { status } = error
    this.limitSilence()
    const body = JSON.stringify(errorBody(error, endpoint.family, log.requestId))
    this.respond(new Response(body, { status, headers: errorHeaders(error, log.requestId, running.limitHeaders) }))
  }

  ended(): void {
    ticker.remove(this)
  }

  private respond(response: Response): void {
    this.response = response
    this.resolve?.(response)
    this.resolve = undefined
  }
}

/** `HEAD` succeeds at once, without authentication and even while the process drains: agents probe with it. */
export function answerProbe(state: EdgeState, request: Request, { dialect }: ApiPath): Response {
  const write = (line: RequestLine) => {
    writeLine(state, line)
    state.figures.record(line, log, state.current.gateway.catalog)
  }
  const log = new RequestLog(newRequestId(), { write })
  log.remote = remoteOf(state, request)
  log.dialect = dialect
  log.status = 200
  log.end(COMPLETED)
  return new Response(null, { headers: idHeaders(log.requestId) })
}

/** Takes the `resolve` of a new promise: a function of its own for each would be garbage of each request. */
function takeResolve(resolve: (response: Response) => void): void {
  resolveTaken = resolve
}

let resolveTaken: ((response: Response) => void) | undefined

const ONCE = { once: true } as const
const NO_BYTES = new Uint8Array(0)

/** The caller's address. Read at the start of a request, because Bun no longer has it once the caller has left. */
function remoteOf({ current, peerOf }: EdgeState, request: Request): string {
  return current.callerAddress.of(request.headers, peerOf(request))
}

function bodyTimeout(): CallerError {
  const message = 'The request body did not arrive in time: it came slower than 1 KiB a second, or took a minute.'
  return new CallerError('body_timeout', message)
}

/** Bun does not decompress request bodies, and decompressed bytes would need a limit of their own. */
function rejectEncoded(headers: Headers): void {
  const encoding = headers.get('content-encoding')
  if (encoding === null || encoding.trim() === '' || encoding.trim().toLowerCase() === 'identity') return
  const message = 'Send the body without Content-Encoding; compressed bodies are not supported.'
  throw new CallerError('unsupported_encoding', message)
}

function bodyMs(request: Request): number {
  const declared = request.headers.get('content-length')
  if (declared === null) return BODY_MS_MAX
  return Math.min(BODY_MS_MAX, Math.max(BODY_MS_MIN, (Number(declared) / 1024) * 1000))
}

function otherHandshake(): CallerError {
  const message = 'This is no handshake of a WebSocket of version 13 (RFC 6455).'
  return new CallerError('upgrade_required', message, { headers: { 'sec-websocket-version': VERSION } })
}

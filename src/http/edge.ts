/**
 * What all requests of the public port have in common: the request id, the log line, the list of requests in flight,
 * and the shape of an error. Every request ends here, whichever way it ends.
 */

import type { Server } from 'bun'
import type { Catalog, Key } from '../catalog/catalog.ts'
import type { PatternModels } from '../catalog/model-list.ts'
import type { CallerAddress } from '../core/caller-address.ts'
import { CallerError } from '../core/caller-error.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import { newRequestId } from '../core/request-id.ts'
import { type Ticking, ticker } from '../core/ticker.ts'
import type { Dialect, DialectName } from '../dialects/dialect.ts'
import { type ErrorFamily, errorBody } from '../dialects/error-body.ts'
import type { ImageUrls } from '../dialects/image-url.ts'
import type { ResponsesDialect } from '../dialects/responses/responses.ts'
import { COMPLETED, type LineWriter, type RequestEnd, RequestLog } from '../gateway/access-log.ts'
import type { BodyMemory } from '../gateway/body-memory.ts'
import type { Answer, FlowListener } from '../gateway/flow.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { InFlight, RunningRequest } from '../gateway/in-flight.ts'
import type { RequestLine } from '../gateway/request-line.ts'
import { RequestTags, type TagCounts } from '../gateway/request-tags.ts'
import type { Tracer } from '../gateway/request-trace.ts'
import type { KeyFinder } from '../keys/key-ring.ts'
import type { RequestBody } from '../wire/request-body.ts'
import type { AnonymousLog } from './anonymous-log.ts'
import { responseOf } from './answer-response.ts'
import { authenticate } from './credentials.ts'
import { errorHeaders, idHeaders } from './headers.ts'
import { TAGS_HEADER, type TagsReader } from './tags-header.ts'

/**
 * What one configuration makes of the edge. A reload replaces all of it; running requests keep what they started with.
 */
export interface EdgeParts {
  readonly gateway: Gateway
  readonly catalog: Catalog
  /** What its patterns stand for. */
  readonly patterns: PatternModels
  readonly keys: KeyFinder
  readonly dialects: Readonly<Record<DialectName, Dialect>> & { readonly responses: ResponsesDialect }
  /** Which image URLs are passed on to providers. */
  readonly imageUrls: ImageUrls
  /** Finds the address of a caller, also if proxies are in between. */
  readonly callerAddress: CallerAddress
  /** Undefined if the configuration has no tags: then their header is ignored. */
  readonly tags: TagsReader | undefined
  /** Converts a request whose tokens are only counted. */
  readonly acceptCount: (body: RequestBody) => ChatRequest
  /** Absent without `tracing` in the configuration. */
  readonly tracer: Tracer | undefined
}

/** Counts every request once, when it has ended. */
interface RequestRecorder {
  record(line: RequestLine, log: RequestLog, catalog: Catalog): void
}

export interface EdgeState {
  current: EdgeParts
  readonly inFlight: InFlight
  readonly bodies: BodyMemory
  readonly log: (line: RequestLine) => void
  readonly anonymous: AnonymousLog
  readonly tagCounts: TagCounts
  readonly figures: RequestRecorder
  /** The address that a connection comes from; set once there is a server. */
  peerOf: (request: Request) => string
  /** New requests are rejected: the process ends. */
  draining: boolean
  /** New requests are rejected: the process is nearly out of file descriptors. */
  crowded: boolean
}

/** What a path is: the shape of its errors, and the dialect that is logged, if it is known. */
export interface Endpoint {
  readonly family: ErrorFamily
  readonly dialect: string | undefined
}

/** One request at the edge: it has one response, and one end. */
export class RequestContext implements FlowListener, LineWriter, Ticking {
  place = -1
  readonly log: RequestLog
  readonly running: RunningRequest
  readonly parts: EdgeParts
  readonly bodies: BodyMemory
  readonly family: ErrorFamily
  /** Whether a whole answer is the text of server-sent events. */
  isEventText = false
  /** How long the connection may be silent is ours to limit, not Bun's. */
  private isSilenceOurs = false
  private isSilenceLifted = false
  /** While the body is awaited: when it is too late (`performance.now()`). */
  private bodyDueMs: number | undefined
  private response: Response | undefined
  /** Resolves the promise that Bun waits for, if there was no response at once. */
  private resolve: ((response: Response) => void) | undefined

  constructor(
    private readonly state: EdgeState,
    readonly request: Request,
    private readonly server: Pick<Server<undefined>, 'timeout'>,
    { family, dialect }: Endpoint,
  ) {
    this.parts = state.current
    this.log = new RequestLog(newRequestId(), this)
    this.log.remote = remoteOf(state, request)
    this.log.dialect = dialect
    this.running = state.inFlight.add()
    this.log.trace = this.parts.tracer?.begin(request)
    this.bodies = state.bodies
    this.family = family
  }

  /**
   * The caller's key, after which the tags are read. From here on the log line names it. Throws `CallerError`
   * `unauthenticated`, `multiple_credentials` or `invalid_tags`.
   */
  authenticate(): Key {
    const key = authenticate(this.request.headers, this.parts.keys, Date.now())
    this.log.organization = key.organization.id
    this.log.key = key.id
    if (this.parts.tags !== undefined) this.readTags(this.parts.tags, key)
    return key
  }

  private readTags(reader: TagsReader, key: Key): void {
    const text = reader.read(this.request.headers.get(TAGS_HEADER), key)
    if (text !== '') this.log.tags = new RequestTags(text, key.organization.id, this.state.tagCounts)
  }

  /**
   * The request fails if its body has not arrived after `ms`. Bun would end an upload slower than 16 KiB/s, and a
   * silent stream, after 10 s. From the next tick on silence is ours to limit: many requests have ended before it.
   */
  awaitBody(ms: number): void {
    this.isSilenceOurs = true
    this.bodyDueMs = this.log.startedMs + ms
    ticker.add(this)
  }

  /**
   * Sets a limit on the silence of the connection, which may have none. To be called before the answer ends: Bun
   * accepts no timeout afterwards.
   */
  limitSilence(): void {
    if (this.isSilenceOurs) this.server.timeout(this.request, SILENCE_SECONDS)
  }

  /** The body has arrived: from here on a caller that leaves interrupts the request. False if it came too late. */
  bodyArrived(): boolean {
    this.bodyDueMs = undefined
    this.log.markReceived()
    this.running.answers(this)
    return this.response === undefined
  }

  get hasLeft(): boolean {
    return this.request.signal.aborted
  }

  /**
   * A listener costs 0.5 µs and garbage, and nearly all whole answers come before the first tick; a caller that left
   * before it is noticed now.
   */
  tick(nowMs: number): void {
    const { running, request, bodyDueMs } = this
    this.liftSilence()
    if (bodyDueMs !== undefined) {
      if (nowMs >= bodyDueMs) this.failed(bodyTimeout())
      return
    }
    ticker.remove(this)
    if (this.hasLeft) running.interrupt('caller_left')
    else request.signal.addEventListener('abort', this, ONCE)
  }

  private liftSilence(): void {
    if (this.isSilenceLifted) return
    this.isSilenceLifted = true
    this.server.timeout(this.request, 0)
  }

  /** The caller has left. As a method, because a closure for each open stream takes 0.2 KiB. */
  handleEvent(): void {
    this.running.interrupt('caller_left')
  }

  /** What Bun gets: the response, or a promise of it. */
  answer(): Response | Promise<Response> {
    if (this.response !== undefined) return this.response
    const answering = new Promise(takeResolve)
    this.resolve = resolveTaken
    return answering
  }

  answered(answer: Answer): void {
    try {
      if (this.isEventText) this.log.streamed = true
      this.respond(responseOf(answer, this))
    } catch (error) {
      this.failed(error)
    }
  }

  /** A response that is complete, so that its request ends with it. */
  complete(response: Response): void {
    this.limitSilence()
    this.respond(response)
    this.ended(COMPLETED)
  }

  write(line: RequestLine): void {
    const { state, log, parts } = this
    writeLine(state, line)
    state.figures.record(line, log, parts.catalog)
  }

  /** Writes the log line and removes the request from those in flight: the only place that does either. */
  ended(end: RequestEnd): void {
    ticker.remove(this)
    this.log.end(end)
    this.running.end()
  }

  /** Answers with an error, with which the request ends. */
  failed(thrown: unknown): void {
    // The rest of a body that came too late.
    if (this.response !== undefined) return
    const { log, running } = this
    this.limitSilence()
    const error = thrown instanceof CallerError ? thrown : this.internalError(thrown)
    const { status } = error.row
    log.reject(error, this.request)
    const left = this.hasLeft ? 'caller_left' : undefined
    this.ended({ outcome: running.interrupted ?? left ?? (status === 504 ? 'timed_out' : 'refused') })
    const body = JSON.stringify(errorBody(error, this.family, log.requestId))
    this.respond(new Response(body, { status, headers: errorHeaders(error, log.requestId, running.limitHeaders) }))
  }

  private respond(response: Response): void {
    this.response = response
    this.resolve?.(response)
    this.resolve = undefined
  }

  /** An error of our own is logged for the operator; the caller sees nothing of it. */
  private internalError(cause: unknown): CallerError {
    this.parts.gateway.report(cause, this.log.requestId)
    const message = 'An internal error occurred; its details are in the log of the gateway.'
    return new CallerError('internal_error', message, { cause })
  }
}

/** Takes the `resolve` of a new promise: a function of its own for each would be garbage of each request. */
function takeResolve(resolve: (response: Response) => void): void {
  resolveTaken = resolve
}

let resolveTaken: ((response: Response) => void) | undefined

const ONCE = { once: true } as const

/**
 * How long a connection may be silent after its answer began: the caller reads nothing, or sends no further request.
 */
const SILENCE_SECONDS = 120

/** Serves one request: answers through the context, at once or later. What it throws becomes an error. */
export type Handler = (context: RequestContext) => void

/**
 * Runs the handler of an endpoint. Whatever it throws becomes an error in the shape of the path: nothing that a caller
 * sends ends in anything else.
 */
export function serve(
  state: EdgeState,
  request: Request,
  server: Pick<Server<undefined>, 'timeout'>,
  endpoint: Endpoint,
  handle: Handler,
): Response | Promise<Response> {
  const context = new RequestContext(state, request, server, endpoint)
  try {
    rejectUnlessServing(state)
    handle(context)
  } catch (error) {
    context.failed(error)
  }
  return context.answer()
}

/** `HEAD` succeeds at once, without authentication and even while the process drains: agents probe with it. */
export function answerProbe(state: EdgeState, request: Request, dialect: string | undefined): Response {
  const write = (line: RequestLine) => {
    writeLine(state, line)
    state.figures.record(line, log, state.current.catalog)
  }
  const log = new RequestLog(newRequestId(), { write })
  log.remote = remoteOf(state, request)
  log.dialect = dialect
  log.status = 200
  log.end(COMPLETED)
  return new Response(null, { headers: idHeaders(log.requestId) })
}

/** Until the caller has a valid key, the line goes to the log of anonymous requests, which limits its lines. */
function writeLine(state: EdgeState, line: RequestLine): void {
  if (line.organization === undefined) state.anonymous.write(line.remote, line)
  else state.log(line)
}

/** The caller's address. Read at the start of a request, because Bun no longer has it once the caller has left. */
function remoteOf({ current, peerOf }: EdgeState, request: Request): string {
  return current.callerAddress.of(request.headers, peerOf(request))
}

const CLOSE = { connection: 'close' } as const

function bodyTimeout(): CallerError {
  const message = 'The request body did not arrive in time: it came slower than 1 KiB a second, or took a minute.'
  return new CallerError('body_timeout', message)
}

function rejectUnlessServing({ draining, crowded }: EdgeState): void {
  if (draining) {
    const message = 'The gateway is shutting down; try again.'
    throw new CallerError('shutting_down', message, { retryAfterSeconds: 1, headers: CLOSE })
  }
  if (crowded) {
    const message = 'The gateway has too many connections; try again.'
    throw new CallerError('overloaded', message, { retryAfterSeconds: 1, headers: CLOSE })
  }
}

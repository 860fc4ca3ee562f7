/**
 * The life of one request, whatever carries it: its id and log line, its key, its place among those in flight, and its
 * one end. How an answer reaches the caller is up to a `Responder`.
 */

import type { Catalog, Key } from '../catalog/catalog.ts'
import type { PatternModels } from '../catalog/model-list.ts'
import type { CallerAddress } from '../core/caller-address.ts'
import { CallerError } from '../core/caller-error.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import type { Compatibility } from '../core/compatibility.ts'
import { newRequestId } from '../core/request-id.ts'
import type { Caller, Dialect, DialectName } from '../dialects/dialect.ts'
import type { ErrorFamily } from '../dialects/error-body.ts'
import type { ImageUrls } from '../dialects/image-url.ts'
import type { ResponsesDialect } from '../dialects/responses/responses.ts'
import { COMPLETED, type LineWriter, type RequestEnd, RequestLog } from '../gateway/access-log.ts'
import type { Answer, FlowListener } from '../gateway/answer.ts'
import type { BodyMemory } from '../gateway/body-memory.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { InFlight, RunningRequest } from '../gateway/in-flight.ts'
import type { RequestLine } from '../gateway/request-line.ts'
import { RequestTags, type TagCounts } from '../gateway/request-tags.ts'
import type { RequestHead, Tracer } from '../gateway/request-trace.ts'
import type { KeyFinder } from '../keys/key-ring.ts'
import type { BodyReceiver } from '../wire/body.ts'
import type { RequestBody } from '../wire/request-body.ts'
import type { AnonymousLog } from './anonymous-log.ts'
import { authenticate } from './credentials.ts'
import type { TagsReader } from './tags-reader.ts'

/**
 * What one configuration makes of the edge. A reload replaces all of it; running requests keep what they started with.
 */
export interface EdgeParts {
  readonly gateway: Gateway
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
  readonly acceptCount: (body: RequestBody, caller: Caller) => ChatRequest
  /** Absent without `tracing` in the configuration. */
  readonly tracer: Tracer | undefined
  readonly sockets: SocketSettings
}

/** The settings of WebSockets. */
export interface SocketSettings {
  /** Whether callers may open one. */
  readonly isOffered: boolean
  /** The most of one worker. */
  readonly max: number
  readonly lifeMs: number
  /** What the conversations of one organisation may take in one worker. */
  readonly continuableBytes: number
}

/** Counts every request once, when it has ended, and what sockets do besides. */
interface RequestRecorder {
  record(line: RequestLine, log: RequestLog, catalog: Catalog): void
  /** A turn was to continue an earlier response: whether its socket still had it. */
  continued(result: 'found' | 'not_found'): void
}

/**
 * Why a socket ended. The caller closed it, was `lost` without closing it, answered no ping (`silent`), read nothing
 * (`stalled`) or sent a frame that is `too_large`; its key was refused, it reached its age (`expired`), or the worker
 * ends (`restart`).
 */
export type SocketEndReason =
  | 'caller'
  | 'lost'
  | 'silent'
  | 'stalled'
  | 'too_large'
  | 'key_refused'
  | 'expired'
  | 'restart'

/** What is logged of a socket that closed. */
interface SocketEnd {
  /** The request id of its handshake, which the lines of its turns have, too. */
  readonly socket: string
  readonly organization: string
  readonly key: string
  readonly remote: string
  readonly turns: number
  readonly duration_ms: number
  readonly reason: SocketEndReason
  /** The code that it was closed with (RFC 6455): 1006 = without one. */
  readonly code: number
}

export interface EdgeState {
  current: EdgeParts
  readonly inFlight: InFlight
  readonly bodies: BodyMemory
  readonly log: (line: RequestLine) => void
  readonly anonymous: AnonymousLog
  readonly tagCounts: TagCounts
  readonly figures: RequestRecorder
  readonly socketClosed: (fields: SocketEnd) => void
  /** The address that a connection comes from; set once there is a server. */
  peerOf: (request: Request) => string
  /** New requests are rejected: the process ends. */
  draining: boolean
  /** New requests are rejected: the process is nearly out of file descriptors. */
  crowded: boolean
}

/** What a request is made to: the shape of its errors, and the dialect that is logged, if it is known. */
export interface ApiPath {
  readonly family: ErrorFamily
  readonly dialect: string | undefined
}

/**
 * Serves a request whose caller has a valid key and whose body has arrived: hands it to the gateway, which answers
 * through the life, or answers with JSON of weir's own. What it throws, or its promise rejects with, fails the request.
 */
export type Run = (life: RequestLife, key: Key, bytes: Uint8Array) => void | Promise<void>

/**
 * How one request is answered by its transport: `answered` or `failed` once, then `ended`. None but `answered` may
 * throw. A transport may outlive its requests: a socket has one responder for each turn.
 */
export interface Responder {
  /** Whether the caller is gone, so that no answer would arrive. */
  readonly hasLeft: boolean
  /**
   * Sends an answer: what a provider has made, whole or as a stream that is to be attached to the caller, or JSON of
   * weir's own. What it throws fails the request.
   */
  answered(answer: Answer | string): void
  /** Sends an error instead. Nothing of an answer has been sent. */
  failed(error: CallerError): void
  /** The request is settled, counted and logged, and no more of its stream is written. */
  ended(): void
}

/** One for each request: `begin`, then its body by `take` and `body`, or `failed`. */
export class RequestLife implements FlowListener, LineWriter, BodyReceiver {
  readonly log: RequestLog
  readonly running: RunningRequest
  readonly parts: EdgeParts
  /** Its body has arrived. */
  isReceived = false
  /** Its answer or its error was sent. */
  private isAnswered = false
  private key: Key | undefined
  private run: Run | undefined

  constructor(
    private readonly state: EdgeState,
    private readonly responder: Responder,
    /** What it came with; for a turn on a socket, what the socket was opened with. */
    readonly head: RequestHead,
    /** The caller's address. */
    remote: string,
    readonly endpoint: ApiPath,
  ) {
    this.parts = state.current
    this.log = new RequestLog(newRequestId(), this)
    this.log.remote = remote
    this.log.node = this.parts.gateway.node
    this.log.dialect = endpoint.dialect
    this.running = state.inFlight.add()
    this.log.trace = this.parts.tracer?.begin(head)
  }

  /** Throws `CallerError` while no new request is served: `shutting_down` or `overloaded`. */
  admit(): void {
    const { draining, crowded } = this.state
    if (draining) throw new CallerError('shutting_down', 'The gateway is shutting down; try again.', CLOSING)
    if (crowded) throw new CallerError('overloaded', 'The gateway has too many connections; try again.', CLOSING)
  }

  /**
   * Finds the caller's key, after which the tags are read; from here on the log line names it. `run` is called once the
   * body has arrived. Throws `CallerError` `unauthenticated`, `multiple_credentials`, `invalid_tags`, or `overloaded`
   * for a request of the lower class while the worker is short of CPU time.
   */
  begin(run: Run): void {
    const { log, parts, head, state } = this
    const key = authenticate(head.headers, parts.keys, Date.now())
    const { id } = key.organization
    log.organization = id
    log.key = key.id
    // Nothing waits without limits of a provider, so the header means nothing.
    const { capacity } = parts.gateway
    if (capacity !== undefined)
      this.running.isLowered = head.headers.get(PRIORITY_HEADER)?.trim().toLowerCase() === 'batch'
    const isLow = this.running.isLowered || key.priority === 'batch'
    if (isLow && capacity?.queue.refuses('batch')) {
      const message = 'The gateway is short of CPU time and serves interactive requests first; try again.'
      throw new CallerError('overloaded', message, { retryAfterSeconds: STRAINED_SECONDS })
    }
    this.key = key
    if (parts.tags !== undefined) this.readTags(parts.tags, key, undefined)
    this.run = run
    this.running.body = state.bodies.share(id, isLow)
  }

  /**
   * Reads the tags again for a request that a model is to answer. `named`: what names its user, and `userOf` finds it.
   * Throws `CallerError` `missing_tag`.
   */
  identify<Named>(named: Named, userOf: (named: Named) => string | undefined): void {
    const { key } = this
    const { tags: reader } = this.parts
    if (reader === undefined || key === undefined) return
    if (reader.readsUser) this.readTags(reader, key, userOf(named))
    reader.requireAll(this.log.tags?.all ?? '')
  }

  private readTags(reader: TagsReader, key: Key, user: string | undefined): void {
    const { all, counted } = reader.read(this.head.headers, key, user)
    const { tagCounts } = this.state
    this.log.tags = all === '' ? undefined : new RequestTags(all, counted, key.organization.id, tagCounts)
  }

  /** Before so many bytes of the body are read. Throws `CallerError` if there is no memory for them. */
  take(bytes: number): void {
    this.running.body?.take(bytes)
  }

  /** The whole body: from here on a caller that leaves interrupts the request. Without effect if it came too late. */
  body(bytes: Uint8Array): void {
    const { key, run } = this
    if (this.isAnswered || key === undefined || run === undefined) return
    this.isReceived = true
    this.log.markReceived()
    this.running.caller = this.responder
    try {
      const running = run(this, key, bytes)
      if (running instanceof Promise) this.follow(running)
    } catch (error) {
      this.failed(error)
    }
  }

  private follow(running: Promise<void>): void {
    running.catch((error: unknown) => this.failed(error))
  }

  /** That of its key, once it has begun. */
  get compatibility(): Compatibility | undefined {
    return this.key?.compatibility
  }

  /** Answers with JSON of weir's own, with which the request ends. */
  complete(json: string): void {
    this.log.status = 200
    this.answered(json)
    this.ended(COMPLETED)
  }

  /** Its connection became a socket, each turn of which is a request: this one leaves no line. */
  upgraded(): void {
    this.running.end()
  }

  /** The caller is gone. */
  left(): void {
    this.running.interrupt('caller_left')
  }

  answered(answer: Answer | string): void {
    try {
      this.responder.answered(answer)
      this.isAnswered = true
    } catch (error) {
      this.failed(error)
    }
  }

  /** Answers with an error, with which the request ends. */
  failed(thrown: unknown): void {
    // The rest of a body that came too late.
    if (this.isAnswered) return
    this.isAnswered = true
    const { log, running, responder } = this
    const error = thrown instanceof CallerError ? thrown : this.internalError(thrown)
    log.reject(error, this.head)
    responder.failed(error)
    const left = responder.hasLeft ? 'caller_left' : undefined
    this.ended({ outcome: running.interrupted ?? left ?? (error.status === 504 ? 'timed_out' : 'refused') })
  }

  /** Writes the log line and removes the request from those in flight: the only place that does either. */
  ended(end: RequestEnd): void {
    this.log.end(end)
    this.running.end()
    this.responder.ended()
  }

  write(line: RequestLine): void {
    const { state, log, parts } = this
    writeLine(state, line)
    state.figures.record(line, log, parts.gateway.catalog)
  }

  /** An error of our own is logged for the operator; the caller sees nothing of it. */
  private internalError(cause: unknown): CallerError {
    this.parts.gateway.report(cause, this.log.requestId)
    const message = 'An internal error occurred; its details are in the log of the gateway.'
    return new CallerError('internal_error', message, { cause })
  }
}

/** Until the caller has a valid key, the line goes to the log of anonymous requests, which limits its lines. */
export function writeLine(state: EdgeState, line: RequestLine): void {
  if (line.organization === undefined) state.anonymous.write(line.remote, line)
  else state.log(line)
}

/** After which a request of the lower class may come again, if the worker was short of CPU time. */
const STRAINED_SECONDS = 5
/** A caller lets others go first where requests wait. */
const PRIORITY_HEADER = 'X-Gateway-Priority'

const CLOSING = { retryAfterSeconds: 1, headers: { connection: 'close' } } as const

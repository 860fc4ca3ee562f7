/**
 * What all requests of the public port have in common: the request id, the log line, the list of requests in flight,
 * and the shape of an error. Every request ends here, whichever way it ends.
 */

import type { Catalog, Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import type { JsonObject } from '../core/json.ts'
import { newRequestId } from '../core/request-id.ts'
import type { Dialect, DialectName } from '../dialects/dialect.ts'
import { type ErrorFamily, errorBody } from '../dialects/error-body.ts'
import type { ImageUrls } from '../dialects/image-url.ts'
import type { ResponsesDialect } from '../dialects/responses/responses.ts'
import { COMPLETED, COMPLETED_AT_ONCE, type RequestEnd, type RequestLine, RequestLog } from '../gateway/access-log.ts'
import type { BodyMemory } from '../gateway/body-memory.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { InFlight, RunningRequest } from '../gateway/in-flight.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import type { AnonymousLog } from './anonymous-log.ts'
import { authenticate } from './credentials.ts'
import { errorHeaders, idHeaders } from './headers.ts'

/**
 * What one configuration makes of the edge. A reload replaces all of it; running requests keep what they started with.
 */
export interface EdgeParts {
  readonly gateway: Gateway
  readonly catalog: Catalog
  readonly keys: Pick<KeyRing, 'find'>
  readonly dialects: Readonly<Record<DialectName, Dialect>> & { readonly responses: ResponsesDialect }
  /** Which image URLs are passed on to providers. */
  readonly imageUrls: ImageUrls
  /** Converts a request whose tokens are only counted. */
  readonly acceptCount: (body: JsonObject) => ChatRequest
}

export interface EdgeState {
  current: EdgeParts
  readonly inFlight: InFlight
  readonly bodies: BodyMemory
  readonly log: (line: RequestLine) => void
  readonly anonymous: AnonymousLog
  /** The address of the peer; set once there is a server. */
  remoteOf: (request: Request) => string
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

/** A response, and the end of its request: a stream goes on after its handler has returned. `end` never rejects. */
export interface Handled {
  readonly response: Response
  readonly end: Promise<RequestEnd>
}

/** One request at the edge. */
export class RequestContext {
  readonly log: RequestLog
  readonly running: RunningRequest
  readonly parts: EdgeParts
  readonly bodies: BodyMemory
  readonly family: ErrorFamily
  /**
   * Restores a limit on the silence of the connection, if it was lifted. To be called before the answer ends: Bun
   * accepts no timeout afterwards.
   */
  limitSilence: () => void = nothing

  constructor(
    state: EdgeState,
    readonly request: Request,
    { family, dialect }: Endpoint,
  ) {
    this.log = logOf(state, request)
    this.log.dialect = dialect
    this.running = state.inFlight.add()
    this.parts = state.current
    this.bodies = state.bodies
    this.family = family
  }

  /**
   * The caller's key. From here on the log line names it. Throws `CallerError` `unauthenticated` or
   * `multiple_credentials`.
   */
  authenticate(): Key {
    const key = authenticate(this.request.headers, this.parts.keys, Date.now())
    this.log.organization = key.organization.id
    this.log.key = key.id
    return key
  }

  /** A response that is complete, so that its request ends with it. */
  complete(response: Response): Handled {
    this.limitSilence()
    return { response, end: COMPLETED_AT_ONCE }
  }

  /** Writes the log line and removes the request from those in flight: the only place that does either. */
  end(end: RequestEnd): void {
    this.log.end(end)
    this.running.end()
  }

  /** The answer to an error, with which the request ends. */
  reject(thrown: unknown): Response {
    const { log, running, request } = this
    this.limitSilence()
    const error = thrown instanceof CallerError ? thrown : this.internalError(thrown)
    const { status } = error.row
    log.reject(error)
    this.end({
      outcome:
        running.interrupted ?? (request.signal.aborted ? 'caller_left' : status === 504 ? 'timed_out' : 'refused'),
    })
    const body = JSON.stringify(errorBody(error, this.family, log.requestId))
    return new Response(body, { status, headers: errorHeaders(error, log.requestId, running.limitHeaders) })
  }

  /** An error of our own is logged for the operator; the caller sees nothing of it. */
  private internalError(cause: unknown): CallerError {
    this.parts.gateway.report(cause, this.log.requestId)
    const message = 'An internal error occurred; its details are in the log of the gateway.'
    return new CallerError('internal_error', message, { cause })
  }
}

function nothing(): void {}

/**
 * Runs the handler of an endpoint. Whatever it throws becomes an error in the shape of the path: nothing that a caller
 * sends ends in anything else.
 */
export async function answer(
  state: EdgeState,
  request: Request,
  endpoint: Endpoint,
  handle: (context: RequestContext) => Promise<Handled>,
): Promise<Response> {
  const context = new RequestContext(state, request, endpoint)
  try {
    rejectUnlessServing(state)
    const { response, end } = await handle(context)
    void end.then((ended) => context.end(ended))
    return response
  } catch (error) {
    return context.reject(error)
  }
}

/** `HEAD` succeeds at once, without authentication and even while the process drains: agents probe with it. */
export function answerProbe(state: EdgeState, request: Request, dialect: string | undefined): Response {
  const log = logOf(state, request)
  log.dialect = dialect
  log.status = 200
  log.end(COMPLETED)
  return new Response(null, { headers: idHeaders(log.requestId) })
}

/** Until the caller has a valid key, the line goes to the log of anonymous requests, which limits its lines. */
function logOf(state: EdgeState, request: Request): RequestLog {
  return new RequestLog(newRequestId(), (line) => {
    if (line.organization === undefined) state.anonymous.write(state.remoteOf(request), line)
    else state.log(line)
  })
}

const CLOSE = { connection: 'close' } as const

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

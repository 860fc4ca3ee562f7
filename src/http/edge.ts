/** What every request of the public port shares: its id, its log line, its place among those in flight, and how a failure is told. */

import type { Catalog, Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import type { JsonObject } from '../core/json.ts'
import { newRequestId } from '../core/request-id.ts'
import type { Dialect, DialectName } from '../dialects/dialect.ts'
import { type ErrorFamily, errorBody } from '../dialects/error-body.ts'
import type { ImageUrls } from '../dialects/image-url.ts'
import type { ResponsesDialect } from '../dialects/responses/responses.ts'
import { type RequestLine, RequestLog } from '../gateway/access-log.ts'
import type { BodyMemory } from '../gateway/body-memory.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Flight, InFlight } from '../gateway/in-flight.ts'
import type { KeyRing } from '../keys/key-ring.ts'
import type { AnonymousLog } from './anonymous-log.ts'
import { authenticate } from './credentials.ts'
import { errorHeaders } from './headers.ts'

/** What one configuration makes of the edge; replaced as a whole by a reload. Running requests keep what they took. */
export interface EdgeParts {
  readonly gateway: Gateway
  readonly catalog: Catalog
  readonly keys: Pick<KeyRing, 'find'>
  readonly dialects: Readonly<Record<DialectName, Dialect>> & { readonly responses: ResponsesDialect }
  /** Which addresses of pictures are passed on to providers. */
  readonly imageUrls: ImageUrls
  /** Converts a request of which only the tokens are to be counted. */
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
  /** New requests are refused: the process ends. */
  draining: boolean
  /** New requests are refused: nearly out of file descriptors. */
  crowded: boolean
}

/** One request at the edge. */
export interface Visit {
  readonly request: Request
  readonly parts: EdgeParts
  readonly trace: RequestLog
  readonly flight: Flight
  readonly bodies: BodyMemory
  readonly family: ErrorFamily
  /** Puts a limit on silence in the place of the one that was lifted; set where it was. Bun takes none once the answer has ended. */
  limitSilence?: () => void
}

/** What a handler gives back: its response, and whether something else (a stream) ends the visit later. */
export interface Handled {
  readonly response: Response
  readonly ends: 'now' | 'later'
}

/**
 * Runs a handler as a visit. Whatever it throws becomes an answer in the shape of the path; nothing that a caller sends ends in
 * anything else. The log line is written and the flight landed once, here or by the stream that the handler started.
 */
export async function visit(
  state: EdgeState,
  request: Request,
  about: { readonly family: ErrorFamily; readonly dialect?: string },
  handle: (visit: Visit) => Promise<Handled> | Handled,
): Promise<Response> {
  const trace = traceOf(state, request)
  trace.dialect = about.dialect
  const flight = state.inFlight.take()
  const { current: parts, bodies } = state
  const it: Visit = { request, parts, trace, flight, bodies, family: about.family }
  try {
    refuseUnlessServing(state)
    const { response, ends } = await handle(it)
    if (ends === 'now') finish(it)
    return response
  } catch (error) {
    return refuse(it, error)
  }
}

/** A request's line for the log, which goes the way of anonymous ones unless the caller has a valid key. */
export function traceOf(state: EdgeState, request: Request): RequestLog {
  return new RequestLog(newRequestId(), (line) => {
    if (line.organization === undefined) state.anonymous.write(state.remoteOf(request), line)
    else state.log(line)
  })
}

/** The key of the caller; the log line knows whose request it is from then on. */
export function admit({ request, parts, trace }: Visit): Key {
  const key = authenticate(request.headers, parts.keys, Date.now())
  trace.organization = key.organization.id
  trace.key = key.id
  return key
}

function refuseUnlessServing(state: EdgeState): void {
  const headers = { connection: 'close' }
  if (state.draining) {
    throw new CallerError('shutting_down', 'The gateway is shutting down; try again.', {
      retryAfterSeconds: 1,
      headers,
    })
  }
  if (state.crowded) {
    throw new CallerError('overloaded', 'The gateway has too many connections; try again.', {
      retryAfterSeconds: 1,
      headers,
    })
  }
}

function finish({ trace, flight, limitSilence }: Visit): void {
  limitSilence?.()
  trace.end('completed')
  flight.land()
}

function refuse({ request, parts, trace, flight, family, limitSilence }: Visit, error: unknown): Response {
  limitSilence?.()
  const failure = error instanceof CallerError ? error : bug(error, parts, trace.requestId)
  trace.refuse(failure)
  trace.end(
    flight.interrupted ??
      (request.signal.aborted ? 'caller_left' : failure.row.status === 504 ? 'timed_out' : 'refused'),
  )
  flight.land()
  const body = JSON.stringify(errorBody(failure, family, trace.requestId))
  return new Response(body, { status: failure.row.status, headers: errorHeaders(failure, trace) })
}

/** An error of our own: reported to the operator; of it nothing is shown. */
function bug(error: unknown, parts: EdgeParts, requestId: string): CallerError {
  parts.gateway.report(error, requestId)
  return new CallerError('internal_error', 'An internal error occurred; its details are in the log of the gateway.', {
    cause: error,
  })
}

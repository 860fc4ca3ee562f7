/** Frames of the Responses API over WebSocket: what a caller's frame asks for, and the frames that weir sends. */

import { CallerError } from '../core/caller-error.ts'
import { errorBody } from '../dialects/error-body.ts'
import { INPUT, UNPARSED } from '../dialects/responses/request.ts'
import { type JsonDocument, NONE } from '../wire/json-document.ts'
import { type RequestBody, readRequestBody } from '../wire/request-body.ts'
import type { TurnBody } from './continued-body.ts'
import { errorHeaders } from './headers.ts'

const LANE = /^[A-Za-z0-9_.-]{1,256}$/

/** A `response.create`. */
export interface TurnFrame extends TurnBody {
  /** As a `POST` reads it, as long as no other body was read since. */
  readonly read: RequestBody
  /** Absent: the default lane, whose frames do not name it. */
  readonly lane: string | undefined
  readonly previousResponseId: string | undefined
  readonly isWarmUp: boolean
  /** What is wrong with a frame whose lane is known. */
  readonly error: CallerError | undefined
}

/** A frame that asks for something that weir does not have, and what it gets. */
interface Answered {
  readonly reply: string | undefined
}

/** Throws `CallerError`. */
export function readFrame(message: string | Uint8Array): TurnFrame | Answered {
  if (typeof message !== 'string') throw notJson('The frame is binary.')
  const bytes = Buffer.from(message)
  const body = read(bytes)
  const { settings, document, values } = body
  const { type } = settings
  if (type === 'response.processed') return { reply: undefined }
  if (type === 'response.steer' || type === 'response.inject') return { reply: unsupported(type, message) }
  const { stream_id: lane, previous_response_id: previous, generate } = settings
  const isLane = lane === undefined || lane === null || (typeof lane === 'string' && LANE.test(lane))
  const isTurn = type === 'response.create'
  if (!isLane) throw isTurn ? invalidLane() : otherType()
  return {
    bytes,
    read: body,
    lane: lane ?? undefined,
    // One that is no turn continues nothing.
    previousResponseId: isTurn && typeof previous === 'string' ? previous : undefined,
    isWarmUp: generate === false,
    input: inputIn(document, values[INPUT] ?? NONE),
    error: isTurn
      ? (mistyped('previous_response_id', previous, 'string') ?? mistyped('generate', generate, 'boolean'))
      : otherType(),
  }
}

function otherType(): CallerError {
  const message = "'type' must be 'response.create': weir takes no other event over a WebSocket."
  return new CallerError('invalid_field', message, { code: 'unsupported_event_type', param: 'type' })
}

function read(bytes: Buffer): RequestBody {
  try {
    return readRequestBody(bytes, UNPARSED)
  } catch (error) {
    if (!(error instanceof CallerError) || error.status !== 400) throw error
    throw notJson(error.message)
  }
}

function mistyped(param: string, value: unknown, type: 'string' | 'boolean'): CallerError | undefined {
  if (value === undefined || value === null || typeof value === type) return undefined
  return new CallerError('invalid_field', `'${param}' must be a ${type} or null.`, { param })
}

function inputIn(document: JsonDocument, value: number): TurnFrame['input'] {
  if (value === NONE) return undefined
  const [from, to] = [document.fromOf(value), document.toOf(value)]
  if (document.isString(value)) return { from: from - 1, to: to + 1, isText: true }
  return document.isList(value) ? { from: from + 1, to: to - 1, isText: false } : undefined
}

function notJson(why: string): CallerError {
  const message = `Each frame must be text with one JSON object. ${why}`
  return new CallerError('malformed_body', message, { code: 'invalid_json' })
}

function invalidLane(): CallerError {
  const message =
    "The 'stream_id' field must be a non-empty string with at most 256 characters and may only contain letters, " +
    'numbers, underscores, hyphens, and periods.'
  return new CallerError('invalid_field', message, { code: 'invalid_stream_id', param: 'stream_id' })
}

/** What running responses can be given elsewhere. */
function unsupported(type: 'response.steer' | 'response.inject', frame: string): string {
  // With its input, which `readFrame` has not parsed.
  const { previous_response_id, response_id, input } = JSON.parse(frame)
  const [code, message] = ['steering_not_supported', 'A response that runs takes no further input here.']
  if (type === 'response.inject') {
    return JSON.stringify({ type: 'response.inject.failed', response_id, input, error: { code, message } })
  }
  const error = { type: 'invalid_request_error', code, message }
  return JSON.stringify({ type: 'response.steer.failed', steer: { previous_response_id, input }, error })
}

/** The frame of an error: the status, body and headers that the answer to a `POST` would have. */
export function errorFrame(
  error: CallerError,
  requestId: string,
  limitHeaders: Readonly<Record<string, string>>,
  lane: string | undefined,
): string {
  const all = Object.entries(errorHeaders(error, requestId, limitHeaders))
  const headers = Object.fromEntries(all.filter(([name]) => !OF_HTTP.has(name)))
  const { error: body } = errorBody(error, 'chat', requestId)
  const frame = { type: 'error', status: error.status, error: { ...Object(body), headers }, headers }
  return JSON.stringify(lane === undefined ? frame : { ...frame, stream_id: lane })
}

const OF_HTTP: ReadonlySet<string> = new Set(['content-type', 'cache-control', 'connection', 'www-authenticate'])

const EVENT = 'event: '.length
const DATA = 'data: '.length
/** The first event of a turn, and those that end it. */
const EDGES: ReadonlySet<string> = new Set([
  'response.created',
  'response.completed',
  'response.incomplete',
  'response.failed',
])
/** A longer name is not looked up: that of nearly all events, and a part of a text takes 0.1 µs to compare. */
const EDGE_CHARS_MAX = 'response.incomplete'.length

/**
 * Calls `send` with the JSON of each event of a text of server-sent events, which is not parsed. `isEdge`: it is the
 * first of its turn, or the last. Comments are left out. A single character is found 64 bytes at a time, two are not.
 */
export function eachEvent(text: string, send: (json: string, isEdge: boolean) => void): void {
  for (let from = 0, end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
    const to = text.indexOf('\n', end + 1)
    // The blank line after a comment.
    if (to > end + 1) {
      const isShort = end - from - EVENT <= EDGE_CHARS_MAX
      send(text.slice(end + 1 + DATA, to), isShort && EDGES.has(text.slice(from + EVENT, end)))
      from = to + 2
    } else from = end + 2
  }
}

/** The headers of answers: request ids on each, rate limits, who answered, and what a stream needs. */

import type { CallerError } from '../core/caller-error.ts'
import type { Answer } from '../gateway/answer.ts'

type HeaderRecord = Record<string, string>

/** Two names of one id: OpenAI's SDKs read the first, Anthropic's the second. */
export function idHeaders(requestId: string): HeaderRecord {
  return { 'x-request-id': requestId, 'request-id': requestId }
}

export function jsonHeaders(requestId: string, limitHeaders: Readonly<HeaderRecord> = {}): HeaderRecord {
  return { 'content-type': 'application/json', ...limitHeaders, ...idHeaders(requestId) }
}

/**
 * Header sets of answers, each with the fields that are the same for all its answers. An answer sets the others anew,
 * and its response copies all: a copy of our own before that took 2 µs a request.
 */
interface AnswerSet extends AnswerFields {
  readonly headers: Headers
  /** The headers of limits, and the values that `headers` has now: setting one takes 0.1 µs, and most stay the same. */
  readonly names: readonly string[]
  readonly values: string[]
  /** The length of all fields as an answer writes them, without the ids and the route. */
  bytes: number
}

interface AnswerHead {
  readonly headers: Headers
  /** The length of the whole head, or a few more. */
  readonly bytes: number
}

/** What Bun adds: the status line, the date, the length of the body and the empty line. */
const LINES_OF_BUN_BYTES = 128

const answerSets = new Map<string, AnswerSet>()
/** The set of the last answer: the next one is most often of the same, and its key takes 0.3 µs. */
let lastSet: AnswerSet | undefined
/** Combinations of models and limits; a caller writes names of models in any of their spellings. */
const SETS_MAX = 1024

type AnswerFields = Omit<Answer, 'content'>

/**
 * The set for an answer, with values of an earlier one in the fields that answers set: so the names of these fields are
 * part of the key. The models' names are those of the configuration, or matched one of them: they are fit for a header.
 */
function setOf(answer: AnswerFields, limitHeaders: Readonly<HeaderRecord>): AnswerSet {
  if (lastSet !== undefined && isOf(lastSet, answer, limitHeaders)) return lastSet
  const { isStream, requestedModel, servedModel, fallbacks, route } = answer
  const names = Object.keys(limitHeaders)
  const fields = `${isStream} ${fallbacks} ${route !== undefined} ${names.join(' ')}`
  const key = `${fields}\n${servedModel}\n${requestedModel}`
  const known = answerSets.get(key)
  if (known !== undefined) return known
  const headers = new Headers(isStream ? STREAM_HEADERS : { 'content-type': 'application/json' })
  headers.set('X-Gateway-Requested-Model', requestedModel)
  headers.set('X-Gateway-Served-Model', servedModel)
  headers.set('X-Gateway-Fallback-Count', String(fallbacks))
  if (answerSets.size >= SETS_MAX) answerSets.clear()
  let bytes = LINES_OF_BUN_BYTES
  for (const [name, value] of headers) bytes += fieldBytes(name, value)
  for (const name of names) bytes += fieldBytes(name, '')
  const set = { requestedModel, servedModel, fallbacks, route, isStream, headers, names, values: [], bytes }
  answerSets.set(key, set)
  return set
}

function isOf(
  set: AnswerSet,
  { isStream, requestedModel, servedModel, fallbacks, route }: AnswerFields,
  limitHeaders: Readonly<HeaderRecord>,
): boolean {
  if (set.isStream !== isStream || set.fallbacks !== fallbacks || (set.route === undefined) !== (route === undefined))
    return false
  if (set.requestedModel !== requestedModel || set.servedModel !== servedModel) return false
  let count = 0
  for (const name in limitHeaders) if (name !== set.names[count++]) return false
  return count === set.names.length
}

/** A field with its colon, space and line end. Headers are Latin-1: a byte for each character. */
function fieldBytes(name: string, value: string): number {
  return name.length + value.length + 4
}

/** The next answer changes the headers: a response is to be made of them at once. */
export function answerHead(requestId: string, limitHeaders: Readonly<HeaderRecord>, answer: AnswerFields): AnswerHead {
  const set = setOf(answer, limitHeaders)
  const { headers, names, values } = set
  lastSet = set
  for (let i = 0; i < names.length; i++) {
    const name = names[i] ?? ''
    const value = limitHeaders[name] ?? ''
    if (value === values[i]) continue
    set.bytes += value.length - (values[i] ?? '').length
    values[i] = value
    headers.set(name, value)
  }
  headers.set('x-request-id', requestId)
  headers.set('request-id', requestId)
  const bytes = set.bytes + fieldBytes('x-request-id', requestId) + fieldBytes('request-id', requestId)
  if (answer.route === undefined) return { headers, bytes }
  headers.set('X-Gateway-Route', answer.route)
  return { headers, bytes: bytes + fieldBytes('X-Gateway-Route', answer.route) }
}

/** `x-accel-buffering` asks proxies in between to pass each event on at once. */
const STREAM_HEADERS: Readonly<HeaderRecord> = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache',
  Connection: 'keep-alive',
  'x-accel-buffering': 'no',
}

/** No SDK waits longer than a minute: several do not retry at all if they are asked to wait longer. */
const RETRY_SECONDS_MAX = 60

export function errorHeaders(
  { detail, row }: CallerError,
  requestId: string,
  limitHeaders: Readonly<HeaderRecord>,
): HeaderRecord {
  const headers: HeaderRecord = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    ...limitHeaders,
    ...idHeaders(requestId),
    ...row.headers,
    ...detail.headers,
  }
  if (detail.retryAfterSeconds !== undefined) {
    headers['retry-after'] = String(Math.min(RETRY_SECONDS_MAX, Math.max(1, Math.ceil(detail.retryAfterSeconds))))
  }
  return headers
}

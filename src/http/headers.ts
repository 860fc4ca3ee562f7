/** The headers of answers: request ids on each, rate limits, who answered, and what a stream needs. */

import type { CallerError } from '../core/caller-error.ts'
import type { Answer } from '../gateway/flow.ts'

type HeaderRecord = Record<string, string>

/** Two names of one id: OpenAI's SDKs read the first, Anthropic's the second. */
export function idHeaders(requestId: string): HeaderRecord {
  return { 'x-request-id': requestId, 'request-id': requestId }
}

export function jsonHeaders(requestId: string, limitHeaders: Readonly<HeaderRecord> = {}): HeaderRecord {
  return { 'content-type': 'application/json', ...limitHeaders, ...idHeaders(requestId) }
}

/** What stays the same from answer to answer, by what differs. Copying costs half of making them anew. */
const answerParts = new Map<string, Headers>()
/** Combinations of models; a caller writes names of models in any of their spellings. */
const PARTS_MAX = 1024

/** The names are those of the configuration, or matched one of them, so they are fit for a header. */
function partsOf({ requestedModel, servedModel, fallbacks }: Omit<Answer, 'content'>, isStream: boolean): Headers {
  const key = `${isStream} ${fallbacks} ${servedModel} ${requestedModel}`
  const known = answerParts.get(key)
  if (known !== undefined) return known
  const parts = new Headers(isStream ? STREAM_HEADERS : { 'content-type': 'application/json' })
  parts.set('X-Gateway-Requested-Model', requestedModel)
  parts.set('X-Gateway-Served-Model', servedModel)
  parts.set('X-Gateway-Fallback-Count', String(fallbacks))
  if (answerParts.size >= PARTS_MAX) answerParts.clear()
  answerParts.set(key, parts)
  return parts
}

export function answerHeaders(
  requestId: string,
  limitHeaders: Readonly<HeaderRecord>,
  answer: Omit<Answer, 'content'>,
  isStream: boolean,
): Headers {
  const headers = new Headers(partsOf(answer, isStream))
  for (const name in limitHeaders) headers.set(name, limitHeaders[name] ?? '')
  headers.set('x-request-id', requestId)
  headers.set('request-id', requestId)
  if (answer.route !== undefined) headers.set('X-Gateway-Route', answer.route)
  return headers
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

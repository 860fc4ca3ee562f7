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

/** The names are those of the configuration, or matched one of them, so they are fit for a header. */
export function answerHeaders(
  requestId: string,
  limitHeaders: Readonly<HeaderRecord>,
  answer: Omit<Answer, 'content' | 'end'>,
): HeaderRecord {
  const headers: HeaderRecord = {
    ...limitHeaders,
    'x-request-id': requestId,
    'request-id': requestId,
    'X-Gateway-Requested-Model': answer.requestedModel,
    'X-Gateway-Served-Model': answer.servedModel,
    'X-Gateway-Fallback-Count': String(answer.fallbacks),
  }
  if (answer.route !== undefined) headers['X-Gateway-Route'] = answer.route
  return headers
}

/** `x-accel-buffering` asks proxies in between to pass each event on at once. */
export const STREAM_HEADERS: Readonly<HeaderRecord> = {
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

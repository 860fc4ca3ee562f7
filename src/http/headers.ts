/** The headers of answers: request ids on every one, what a stream needs, who was asked and who answered. */

import type { CallerError } from '../core/caller-error.ts'
import type { RequestLog } from '../gateway/access-log.ts'
import type { Answer } from '../gateway/infer.ts'

type HeaderRecord = Record<string, string>

/** Both names of one id: each family of SDKs looks for its own. */
export function idHeaders(requestId: string): HeaderRecord {
  return { 'x-request-id': requestId, 'request-id': requestId }
}

/** inference-api.md 4.1 rule 9. Names come from the configuration or matched one of it, so they are fit for a header. */
export function answerHeaders(
  { requestId, limitHeaders }: Pick<RequestLog, 'requestId' | 'limitHeaders'>,
  answer: Pick<Answer, 'requestedModel' | 'servedModel' | 'fallbacks' | 'route'>,
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

/** inference-api.md 6.1; proxies in between are told not to gather the events. */
export const STREAM_HEADERS: Readonly<HeaderRecord> = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache',
  Connection: 'keep-alive',
  'x-accel-buffering': 'no',
}

/** No SDK waits longer than a minute, and several do not repeat at all where they are asked to (wire.md C3). */
const RETRY_SECONDS_MAX = 60

export function errorHeaders(
  failure: CallerError,
  { requestId, limitHeaders }: Pick<RequestLog, 'requestId' | 'limitHeaders'>,
): HeaderRecord {
  const { detail, row } = failure
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

/** The bodies of errors: both shapes, and which one applies (decisions.md, Errors). */

import type { CallerError } from '../core/caller-error.ts'
import type { JsonObject } from '../core/json.ts'

/** Which family of paths an error answers on. */
export type ErrorFamily = 'chat' | 'messages'

/**
 * The body of an error. Chat and Responses paths: the Chat shape with all its four keys. Messages paths: the Messages shape; for what
 * body validation found the Chat shape, with `type` and `request_id` on top, without which one common SDK shows an empty message.
 */
export function errorBody(failure: CallerError, family: ErrorFamily, requestId: string): JsonObject {
  if (family === 'chat') return { error: chatError(failure) }
  if (failure.row.stage === 'body') return { type: 'error', error: chatError(failure), request_id: requestId }
  const error: JsonObject = { type: failure.row.messagesType, message: failure.message }
  const { details } = failure.detail
  return {
    type: 'error',
    error: details === undefined ? error : { ...error, details: { ...details } },
    request_id: requestId,
  }
}

function chatError(failure: CallerError): JsonObject {
  return { message: failure.message, type: failure.type, param: failure.detail.param ?? null, code: failure.code }
}

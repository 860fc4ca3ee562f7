/** The bodies of errors in their two shapes. */

import type { CallerError } from '../core/caller-error.ts'
import type { JsonObject } from '../core/json.ts'

/** The paths that an error belongs to: Chat Completions, Responses, images and models, or Messages. */
export type ErrorFamily = 'chat' | 'messages'

/**
 * The body of an error. On Messages paths it has the Messages shape, except for errors of the body, which have the Chat
 * shape with `type` and `request_id` at the top: without these the Anthropic SDK shows an empty message. On all other
 * paths it has the Chat shape.
 */
export function errorBody(error: CallerError, family: ErrorFamily, requestId: string): JsonObject {
  if (family === 'chat') return { error: chatError(error) }
  if (error.row.stage === 'body') return { type: 'error', error: chatError(error), request_id: requestId }
  const body: JsonObject = { type: error.messagesType, message: messagesText(error) }
  const { details, quota } = error.detail
  return {
    type: 'error',
    error: { ...body, ...passedWords(error), ...(details === undefined ? {} : { details: { ...details } }), ...quota },
    request_id: requestId,
  }
}

/** Of a provider's error that is passed on as it is: what the Messages shape has no member for. */
function passedWords(error: CallerError): JsonObject {
  const { param, passed } = error.detail
  if (passed === undefined) return {}
  const code = codeOf(error)
  return { ...(code !== null && { code }), ...(param !== undefined && { param }) }
}

function codeOf({ code, detail }: CallerError): string | number | null {
  const number = detail.passed?.hasNumericCode === true ? Number(code) : Number.NaN
  return Number.isNaN(number) ? code : number
}

/**
 * The Messages shape has no code. Claude Code knows a conversation that is too long by the first of these words, and
 * offers to compact it; by the second it asks for less output.
 */
const TOO_LONG = /prompt is too long|exceed context limit/i

function messagesText({ code, message, detail }: CallerError): string {
  if (detail.passed !== undefined) return message
  return code === 'context_length_exceeded' && !TOO_LONG.test(message) ? `prompt is too long: ${message}` : message
}

function chatError(error: CallerError): JsonObject {
  const { param = null, quota } = error.detail
  return { message: error.message, type: error.type, param, code: codeOf(error), ...quota }
}

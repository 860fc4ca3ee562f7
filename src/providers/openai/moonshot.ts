/**
 * A difference of Moonshot's own API from OpenAI's. Kimi thinks by default, and then a message with tool calls must
 * have the thoughts that led to them, or the API answers 400 ("reasoning_content is missing in assistant tool call
 * message"). Callers have no thoughts to send back, because no dialect shows them any; a blank one is accepted. Kimi on
 * other servers does not need this.
 */

import { isArray, isObject, type JsonObject } from '../../core/json.ts'
import { NO_THOUGHTS } from './thoughts.ts'

export function isMoonshot(baseUrl: string): boolean {
  return /^https?:\/\/(?:[^/]+\.)?(?:moonshot\.(?:ai|cn)|kimi\.com)(?:[:/]|$)/.test(baseUrl)
}

/** A Chat Completions body as Moonshot accepts it. */
export function moonshotBody(body: JsonObject): JsonObject {
  const messages = isArray(body['messages']) ? body['messages'] : []
  return {
    ...body,
    messages: messages.map((message) =>
      isObject(message) && isArray(message['tool_calls']) ? { ...message, reasoning_content: NO_THOUGHTS } : message,
    ),
  }
}

/**
 * Thoughts for servers that want back those of each earlier answer. Callers have none to send, because no dialect shows
 * them any; blank ones are accepted. Other models reject them, so only a server that has missed them gets them.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import { NO_SIGNATURE } from '../thought-signature.ts'

export const NO_THOUGHTS = ' '

/** A Chat Completions body with thoughts in every message of the assistant: for models of DeepSeek and Xiaomi. */
export function withThoughts(body: JsonObject): JsonObject {
  return withAnswers(body, (answer) => ({ ...answer, reasoning_content: NO_THOUGHTS }))
}

/** The same with a signature for the first of parallel calls: for Gemini's Chat Completions endpoint. */
export function withSignatures(body: JsonObject): JsonObject {
  return withAnswers(body, (answer) => {
    const calls = answer['tool_calls']
    if (!isArray(calls)) return answer
    return { ...answer, tool_calls: calls.map((call, index) => (index === 0 ? signed(call) : call)) }
  })
}

function signed(call: JsonValue): JsonValue {
  return isObject(call) ? { ...call, extra_content: { google: { thought_signature: NO_SIGNATURE } } } : call
}

function withAnswers(body: JsonObject, change: (answer: JsonObject) => JsonObject): JsonObject {
  const messages = isArray(body['messages']) ? body['messages'] : []
  return {
    ...body,
    messages: messages.map((message) =>
      isObject(message) && message['role'] === 'assistant' ? change(message) : message,
    ),
  }
}

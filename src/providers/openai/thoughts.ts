/**
 * Thoughts for servers that want back those of each earlier answer. Callers have none to send, because no dialect shows
 * them any; blank ones are accepted. DeepSeek and Xiaomi want them while a model thinks, on every message of the
 * assistant, and reject them for other models; so only a server that has missed them gets them.
 */

import { isArray, isObject, type JsonObject } from '../../core/json.ts'

export const NO_THOUGHTS = ' '

/** A Chat Completions body with thoughts in every message of the assistant. */
export function withThoughts(body: JsonObject): JsonObject {
  const messages = isArray(body['messages']) ? body['messages'] : []
  return {
    ...body,
    messages: messages.map((message) =>
      isObject(message) && message['role'] === 'assistant' ? { ...message, reasoning_content: NO_THOUGHTS } : message,
    ),
  }
}

/**
 * Thinking for servers of the Messages API that want back that of each earlier turn with calls, as DeepSeek's does.
 * Callers have none to send, because no dialect shows them any; an empty block is accepted. Anthropic itself rejects
 * it, so only a server that has missed it gets it.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import { type Lesson, rejecting, TargetForms } from '../learned-form.ts'

export interface ThinkingForm {
  readonly wantsThinking: boolean
}

export const thinkingForms = new TargetForms((): ThinkingForm => ({ wantsThinking: false }))

/** "The `content[].thinking` in the thinking mode must be passed back to the API." */
export const missesThinking = rejecting('thinking\\b[^]*\\bmust be passed back')

export const THINKING: Lesson<ThinkingForm> = {
  field: 'thinking',
  change: { wantsThinking: true },
  words: /be passed back/gi,
  own: 0,
}

/** A body with thinking at the start of each turn with calls. */
export function withThinking(body: JsonObject): JsonObject {
  const messages = isArray(body['messages']) ? body['messages'] : []
  return { ...body, messages: messages.map(thoughtful) }
}

const NO_THINKING: JsonObject = { type: 'thinking', thinking: '', signature: '' }

function thoughtful(message: JsonValue): JsonValue {
  const content = isObject(message) ? message['content'] : undefined
  if (!isObject(message) || !isArray(content) || !content.some(isCall)) return message
  return { ...message, content: [NO_THINKING, ...content] }
}

function isCall(block: JsonValue): boolean {
  return isObject(block) && block['type'] === 'tool_use'
}

/**
 * A difference of Moonshot's own API from OpenAI's. Kimi thinks by default, and then a message with tool calls must
 * have the thoughts that led to them, or the API answers 400 ("reasoning_content is missing in assistant tool call
 * message"). Callers have no thoughts to send back, because no dialect shows them any; a blank one is accepted. Kimi on
 * other servers does not need this.
 */

import type { MessageVariant } from './chat-body.ts'

export const MOONSHOT: MessageVariant = { thoughts: 'with calls' }

export function isMoonshot(baseUrl: string): boolean {
  return /^https?:\/\/(?:[^/]+\.)?(?:moonshot\.(?:ai|cn)|kimi\.com)(?:[:/]|$)/.test(baseUrl)
}

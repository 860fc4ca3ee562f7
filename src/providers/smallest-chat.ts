/** The smallest chat request: to find out whether a target answers. */

import type { ChatRequest } from '../core/chat-request.ts'

/** The least that all providers accept. */
const OUTPUT_TOKENS = 16

export function smallestChat(model: string): ChatRequest {
  return {
    model,
    stream: false,
    messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hi' }] }],
    tools: [],
    maxOutputTokens: OUTPUT_TOKENS,
    limitsOutput: false,
    stop: [],
    sampling: {},
    hints: {},
    cacheStrict: false,
  }
}

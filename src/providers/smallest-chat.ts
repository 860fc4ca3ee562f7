/** The smallest chat request: to find out whether a target answers. */

import { Arena } from '../core/arena.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import { Conversation } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import { ToolList } from '../core/tool-list.ts'

const GREETING = new Arena(Buffer.from('Hi'))

/** The least that all providers accept. */
const OUTPUT_TOKENS = 16

export function smallestChat(model: string): ChatRequest {
  return {
    model,
    stream: false,
    conversation: new Conversation(GREETING, Int32Array.of(Kind.USER, 0, 0, Kind.TEXT, 0, GREETING.end), 'chat'),
    tools: new ToolList(GREETING, new Int32Array(0), 'chat'),
    maxOutputTokens: OUTPUT_TOKENS,
    limitsOutput: false,
    stop: [],
    sampling: {},
    hints: {},
    cacheStrict: false,
  }
}

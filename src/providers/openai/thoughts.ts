/**
 * Thoughts for servers that want back those of each earlier answer. Callers have none to send, because no dialect shows
 * them any; blank ones are accepted. Other models reject them, so only a server that has missed them gets them.
 */

import type { MessageVariant } from './chat-body.ts'

/** In every message of the assistant: for models of DeepSeek and Xiaomi. */
export const WITH_THOUGHTS: MessageVariant = { thoughts: 'always' }

/** A signature for the first of parallel calls: for Gemini's Chat Completions endpoint. */
export const WITH_SIGNATURES: MessageVariant = { signatures: true }

/**
 * Thinking for servers of the Messages API that want back that of each earlier turn with calls, as DeepSeek's does.
 * Outside native mode callers have none to send, because they are shown none; an empty block is accepted. Anthropic
 * itself rejects it, so only a server that has missed it gets it.
 */

import { makeLesson, rejecting } from '../learned-form.ts'
import type { MessageVariant } from './message-body.ts'

/** "The `content[].thinking` in the thinking mode must be passed back to the API." */
export const missesThinking = rejecting('thinking\\b[^]*\\bmust be passed back')

export const THINKING = makeLesson<Pick<MessageVariant, 'wantsThinking'>>(
  'thinking',
  { wantsThinking: true },
  /be passed back/gi,
  0,
)

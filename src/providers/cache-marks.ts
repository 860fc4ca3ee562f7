/** Which cache marks of a request are sent to Anthropic and Bedrock, which accept four. */

import type { CacheMark, Tool } from '../core/chat-request.ts'
import { MarkOrder } from './mark-order.ts'
import { type Conversation, solid } from './turns.ts'

/** "A maximum of 4 blocks with cache_control may be provided." */
export const MARKS_MAX = 4

/**
 * Returns the marks of one request in the order in which the provider reads them: tools, system, messages. Of more than
 * four the last four are kept: the last covers the whole prefix, and those before it are what the previous turn wrote.
 */
export class CacheMarks {
  private surplus: number
  private readonly order = new MarkOrder()

  constructor(tools: readonly Tool[], conversation: Conversation) {
    this.surplus = count(tools, conversation) - MARKS_MAX
  }

  /** The mark to send. Call it once, in order, for every block that can carry one. */
  next(mark: CacheMark | undefined): CacheMark | undefined {
    if (mark === undefined || this.surplus-- > 0) return undefined
    return this.order.next(mark)
  }
}

function count(tools: readonly Tool[], { system, turns }: Conversation): number {
  let marks = marked(tools) + marked(system)
  for (const turn of turns) {
    marks += marked(turn.parts)
    if (turn.role === 'assistant') marks += marked(turn.calls)
    else for (const result of turn.results) marks += marked([result]) + marked(solid(result.parts))
  }
  return marks
}

function marked(blocks: readonly { readonly cache?: CacheMark | undefined }[]): number {
  return blocks.filter((block) => block.cache !== undefined).length
}

/** How cache marks are written, and which of a request are sent to Anthropic and Bedrock, which accept four. */

import type { Conversation } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import { type CacheMark, indexOfMark, markOf } from '../core/entry-marks.ts'
import { type Part, part } from '../core/json-builder.ts'
import type { ToolList } from '../core/tool-list.ts'
import { MarkOrder } from './mark-order.ts'
import { NO_ENTRY, PLACEHOLDER, type Turns } from './turns.ts'

/** "A maximum of 4 blocks with cache_control may be provided." */
const MARKS_MAX = 4

/** The ends of what carries a cache mark, for each mark, in the order of `MARKS`. */
export function markedEnds(before: string, after: string): readonly Part[] {
  return ['', ',"ttl":"5m"', ',"ttl":"1h"'].map((ttl) =>
    part(`${before},"cache_control":{"type":"ephemeral"${ttl}}${after}`),
  )
}

/**
 * The marks in the order in which the provider reads them: tools, system, messages. Of more than four the last four are
 * kept: the last covers the whole prefix, and those before it are what the previous turn wrote. The request's own mark
 * goes to the last block, unless that has one.
 */
export class SentMarks {
  /** The messages of the turns, with the marks to send. Entries have the same places. */
  readonly conversation: Conversation
  readonly tools: ToolList
  private readonly onPlaceholder: number

  /** `tools`: those that are offered. `hasInner`: whether the parts of a result have marks of their own. */
  constructor(
    private readonly turns: Turns,
    tools: ToolList,
    cache: CacheMark | undefined,
    hasInner = true,
  ) {
    const { conversation } = turns
    this.conversation = conversation
    this.tools = tools
    this.onPlaceholder = 0
    if (cache === undefined && !tools.isMarked && !conversation.isMarked) return
    const toolEntries = markedTools(tools)
    const entries = markedEntries(turns, hasInner)
    const last = turns.lastBlock
    const own = last === PLACEHOLDER || conversation.markIndexAt(last) === 0 ? cache : undefined
    const count = toolEntries.length + entries.length + (own === undefined ? 0 : 1)
    const sent = new KeptMarks(count - MARKS_MAX)
    const ofTools = new Map(toolEntries.map((entry) => [entry, sent.next(markOf(tools.bitsAt(entry)))]))
    const ofEntries = new Map(entries.map((entry) => [entry, sent.next(markOf(conversation.bitsAt(entry)))]))
    this.tools = tools.remarked((mark, entry) => (ofTools.has(entry) ? ofTools.get(entry) : mark))
    const kept = conversation.remarked((mark, entry) => (ofEntries.has(entry) ? ofEntries.get(entry) : mark))
    const ownIndex = indexOfMark(sent.next(own))
    this.conversation = ownIndex > 0 && last !== PLACEHOLDER ? kept.withMark(last, ownIndex) : kept
    this.onPlaceholder = last === PLACEHOLDER ? ownIndex : 0
  }

  /** The mark to send on the block at this place of the turns, by its index in `MARKS`. */
  indexAt(place: number): number {
    const block = this.turns.blockAt(place)
    if (block !== PLACEHOLDER) return this.conversation.markIndexAt(block)
    return place === this.turns.lastPlace ? this.onPlaceholder : 0
  }
}

class KeptMarks {
  private readonly order = new MarkOrder()

  constructor(private surplus: number) {}

  next(mark: CacheMark | undefined): CacheMark | undefined {
    if (mark === undefined || this.surplus-- > 0) return undefined
    return this.order.next(mark)
  }
}

function markedTools(tools: ToolList): readonly number[] {
  const marked: number[] = []
  if (tools.isMarked)
    for (let tool = 0; tool < tools.end; tool = tools.endOfTool(tool))
      if (tools.markIndexAt(tool) > 0) marked.push(tool)
  return marked
}

/** Entries with a mark that are written, in the order in which they are. A result's own mark is after those inside. */
function markedEntries(turns: Turns, hasInner: boolean): readonly number[] {
  const { conversation } = turns
  const marked: number[] = []
  if (!conversation.isMarked) return marked
  const add = (entry: number) => {
    if (conversation.markIndexAt(entry) > 0) marked.push(entry)
  }
  turns.system.forEach(add)
  for (let at = 0; at <= turns.lastPlace; at++) {
    const block = turns.blockAt(at)
    if (block === PLACEHOLDER) continue
    if (hasInner && turns.kindOf(block) === Kind.RESULT_ID) {
      const first = turns.partOfResult(conversation.next(block))
      for (let part = first; part !== NO_ENTRY; part = turns.partAfter(part)) add(part)
    }
    add(block)
  }
  return marked
}

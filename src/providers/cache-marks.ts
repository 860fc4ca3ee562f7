/**
 * How cache marks are written, which of a request are sent to Anthropic and Bedrock, which accept four, and in which
 * order: providers reject a mark of 1h after one of 5m, as they read a request.
 */

import type { Conversation } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import { type CacheMark, indexOfMark, markOf } from '../core/entry-marks.ts'
import { type Part, part } from '../core/json-builder.ts'
import type { ToolList } from '../core/tool-list.ts'
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

/** Lowers a mark of 1h after one of 5m to 5m, which costs the caller less. Takes every mark of a request, in order. */
class MarkOrder {
  private afterShort = false

  next(mark: CacheMark): CacheMark {
    if (this.afterShort && mark.ttl === '1h') return { ...mark, ttl: '5m' }
    this.afterShort ||= mark.ttl !== '1h'
    return mark
  }
}

/** What of a request carries cache marks. */
interface Marked {
  readonly conversation: Conversation
  readonly tools: ToolList
  /** On the whole request. */
  readonly cache?: CacheMark | undefined
}

/**
 * The same with the marks in a valid order: tools, all system messages, the other messages, the request's own. For Chat
 * Completions servers that forward marks to such a provider, and have none on calls. Returns the same object unless it
 * carries a mark of 1h.
 */
export function marksInOrder(marked: Marked): Marked {
  const isMarked = marked.cache !== undefined || marked.tools.isMarked || marked.conversation.isMarked
  return isMarked && hasLongMark(marked) ? reordered(marked) : marked
}

function reordered({ conversation, tools, cache }: Marked): Marked {
  const order = new MarkOrder()
  const ordered = tools.remarked((mark) => order.next(mark))
  const changes = new Map<number, CacheMark>()
  for (const isSystem of [true, false]) {
    for (let message = 0; message < conversation.end; message = conversation.endOfMessage(message))
      if ((conversation.kindAt(message) === Kind.SYSTEM) === isSystem)
        orderMessage(conversation, message, order, changes)
  }
  return {
    tools: ordered,
    conversation: conversation.remarked((mark, entry) => changes.get(entry) ?? mark),
    cache: cache && order.next(cache),
  }
}

/** A result's own mark comes after those of its texts. */
function orderMessage(
  conversation: Conversation,
  message: number,
  order: MarkOrder,
  changes: Map<number, CacheMark>,
): void {
  const end = conversation.endOfMessage(message)
  const visit = (entry: number) => {
    const mark = conversation.markAt(entry)
    if (mark !== undefined && conversation.kindAt(entry) !== Kind.CALL_ID) changes.set(entry, order.next(mark))
  }
  const first = conversation.next(message)
  const isResult = first < end && conversation.kindAt(first) === Kind.RESULT_ID
  for (let entry = isResult ? conversation.next(first) : first; entry < end; entry = conversation.next(entry))
    visit(entry)
  if (isResult) visit(first)
}

function hasLongMark({ conversation, tools, cache }: Marked): boolean {
  if (cache?.ttl === '1h') return true
  let isLong = false
  const visit = ({ ttl }: CacheMark) => {
    isLong ||= ttl === '1h'
  }
  tools.forEachMark(visit)
  conversation.forEachMark(visit)
  return isLong
}

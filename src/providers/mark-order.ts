/**
 * The order of cache marks: providers reject a mark of 1h after one of 5m, in the order in which they read a request.
 */

import type { Conversation } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { CacheMark } from '../core/entry-marks.ts'
import type { ToolList } from '../core/tool-list.ts'

/** Lowers a mark of 1h after one of 5m to 5m, which costs the caller less. Takes every mark of a request, in order. */
export class MarkOrder {
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

/** The cache marks of a request, wherever it carries one: on itself, a tool, a message or a part of one. */

import type { ChatRequest } from '../core/chat-request.ts'
import type { CacheMark } from '../core/entry-marks.ts'
import type { Ttl } from '../core/model-config.ts'

/** What the marks of a request ask for. */
export interface Marks {
  /** The TTLs that cache marks request. */
  readonly ttls: readonly Ttl[]
  /** Whether the request carries any cache mark, so that its input may be written to the provider's cache. */
  readonly isMarked: boolean
}

const UNMARKED: Marks = { isMarked: false, ttls: [] }

/** Reads the whole request. */
export function marksOf(request: ChatRequest): Marks {
  return hasMark(request) ? foundMarks(request) : UNMARKED
}

function foundMarks(request: ChatRequest): Marks {
  let [is5m, is1h] = [false, false]
  forEachMark(request, ({ ttl }) => {
    is5m ||= ttl === '5m'
    is1h ||= ttl === '1h'
  })
  const ttls: Ttl[] = []
  if (is5m) ttls.push('5m')
  if (is1h) ttls.push('1h')
  return { isMarked: true, ttls }
}

function hasMark(request: ChatRequest): boolean {
  return request.cache !== undefined || request.tools.isMarked || request.conversation.isMarked
}

/** Calls `visit` for each cache mark of the request: its own, those of its tools, those of its messages. */
export function forEachMark(request: ChatRequest, visit: (mark: CacheMark) => void): void {
  if (request.cache !== undefined) visit(request.cache)
  request.tools.forEachMark(visit)
  request.conversation.forEachMark(visit)
}

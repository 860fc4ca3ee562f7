/** The cache marks of a request, wherever it carries one: on itself, a tool, a message or a part of one. */

import type { CacheMark, ChatRequest } from '../core/chat-request.ts'
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
  if (!hasMark(request)) return UNMARKED
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

/** Whether any mark would be visited. A loop without a visitor: nearly all requests have none. */
function hasMark(request: ChatRequest): boolean {
  const { cache, unparsed } = request
  if (cache !== undefined || hasMarkedTool(request)) return true
  if (unparsed?.messages !== undefined) return unparsed.messages.marks.length > 0
  for (const message of request.messages) {
    if (message.role === 'tool' && message.cache !== undefined) return true
    if (message.role === 'assistant') for (const call of message.toolCalls) if (call.cache !== undefined) return true
    for (const part of message.parts) if (part.type !== 'native' && part.cache !== undefined) return true
  }
  return false
}

export function hasMarkedTool(request: ChatRequest): boolean {
  const unparsed = request.unparsed?.tools
  if (unparsed !== undefined) return unparsed.marks.length > 0
  for (const tool of request.tools) if (tool.cache !== undefined) return true
  return false
}

/** Calls `visit` for each cache mark of the request. */
export function forEachMark(request: ChatRequest, visit: (mark: CacheMark) => void): void {
  const { unparsed } = request
  visitOwn(request, visit)
  if (unparsed?.tools !== undefined) unparsed.tools.marks.forEach(visit)
  else for (const tool of request.tools) visitOwn(tool, visit)
  if (unparsed?.messages !== undefined) return unparsed.messages.marks.forEach(visit)
  for (const message of request.messages) {
    if (message.role === 'tool') visitOwn(message, visit)
    if (message.role === 'assistant') for (const call of message.toolCalls) visitOwn(call, visit)
    for (const part of message.parts) if (part.type !== 'native') visitOwn(part, visit)
  }
}

function visitOwn({ cache }: { readonly cache?: CacheMark | undefined }, visit: (mark: CacheMark) => void): void {
  if (cache !== undefined) visit(cache)
}

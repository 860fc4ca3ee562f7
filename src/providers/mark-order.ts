/**
 * The order of cache marks: providers reject a mark of 1h after one of 5m, in the order in which they read a request.
 */

import type { CacheMark, ChatRequest, Message } from '../core/chat-request.ts'

/** Lowers a mark of 1h after one of 5m to 5m, which costs the caller less. Takes every mark of a request, in order. */
export class MarkOrder {
  private afterShort = false

  next(mark: CacheMark): CacheMark {
    if (this.afterShort && mark.ttl === '1h') return { ...mark, ttl: '5m' }
    this.afterShort ||= mark.ttl !== '1h'
    return mark
  }
}

/**
 * The request with its marks in a valid order: tools, all system messages, the other messages, the request's own. For
 * Chat Completions servers that forward marks to such a provider. Returns the same object unless it carries a mark of
 * 1h.
 */
export function withMarksInOrder(request: ChatRequest): ChatRequest {
  if (!hasLongMark(request)) return request
  const order = new MarkOrder()
  const ordered = <T extends Marked>(item: T): T =>
    item.cache === undefined ? item : { ...item, cache: order.next(item.cache) }
  const tools = request.tools.map(ordered)
  const isSystem = ({ role }: Message) => role === 'system'
  const system = new Map(request.messages.filter(isSystem).map((message) => [message, remarked(message, ordered)]))
  const messages = request.messages.map((message) => system.get(message) ?? remarked(message, ordered))
  return ordered({ ...request, tools, messages, unparsed: undefined })
}

interface Marked {
  readonly cache?: CacheMark | undefined
}

/** Chat Completions has no marks on calls. */
function remarked(message: Message, ordered: <T extends Marked>(item: T) => T): Message {
  switch (message.role) {
    case 'system':
    case 'assistant':
      return { ...message, parts: message.parts.map(ordered) }
    case 'user':
      return { ...message, parts: message.parts.map((part) => (part.type === 'native' ? part : ordered(part))) }
    case 'tool': {
      const parts = message.parts.map(ordered)
      return ordered({ ...message, parts })
    }
  }
}

function hasLongMark(request: ChatRequest): boolean {
  const { unparsed } = request
  if (isLong(request)) return true
  if (unparsed?.tools === undefined ? request.tools.some(isLong) : unparsed.tools.marks.some(isLongTtl)) return true
  return unparsed?.messages === undefined
    ? request.messages.some(messageHasLongMark)
    : unparsed.messages.marks.some(isLongTtl)
}

function messageHasLongMark(message: Message): boolean {
  if (message.role === 'tool' && isLong(message)) return true
  for (const part of message.parts) if (part.type !== 'native' && isLong(part)) return true
  return false
}

function isLong({ cache }: Marked): boolean {
  return cache !== undefined && isLongTtl(cache)
}

function isLongTtl({ ttl }: CacheMark): boolean {
  return ttl === '1h'
}

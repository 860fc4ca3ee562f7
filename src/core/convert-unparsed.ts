/** Unparsed messages and tools → canonical ones, when they are first read. */

import { type CacheMark, type ChatRequest, changed, type Message, type TextPart, type Tool } from './chat-request.ts'
import type { ToolCall } from './completion.ts'
import type { JsonValue } from './json.ts'
import type { LongTexts } from './long-texts.ts'
import {
  ASSISTANT,
  CALL_ID,
  ENTRY_INTS,
  endOfMessage,
  FAILED,
  INPUT,
  KINDS,
  markOf,
  RESULT_ID,
  SYSTEM,
  TEXT,
  TOOL,
  type Unparsed,
  type UnparsedMessages,
  USER,
} from './unparsed.ts'

/** Converts the JSON of tools. */
type ConvertTools = (list: JsonValue) => readonly Tool[]

/** The request, whose messages and tools are converted when they are first read. */
export function parsedWhenRead(
  request: ChatRequest,
  longTexts: LongTexts,
  { messages, tools }: Unparsed,
  convert: ConvertTools,
): ChatRequest {
  if (messages !== undefined) define(request, 'messages', () => messagesOf(messages.entries, longTexts))
  if (tools !== undefined) define(request, 'tools', () => convert(longTexts.valueAt(tools.from, tools.to)))
  return request
}

/** A copy with another mark on the whole request, and other unparsed messages. */
export function withMessages(
  request: ChatRequest,
  cache: CacheMark | undefined,
  messages: UnparsedMessages,
): ChatRequest {
  const { longTexts, unparsed } = request
  const copy = Object.assign(changed(request, { cache }), { unparsed: { ...unparsed, messages } })
  if (longTexts !== undefined) define(copy, 'messages', () => messagesOf(messages.entries, longTexts))
  return copy
}

function define<T>(request: ChatRequest, name: 'messages' | 'tools', make: () => T): void {
  let made: T | undefined
  const get = () => {
    made ??= make()
    return made
  }
  Object.defineProperty(request, name, { get, enumerable: true, configurable: true })
}

/** The messages of these entries. */
export function messagesOf(entries: Int32Array, longTexts: LongTexts): readonly Message[] {
  const messages: Message[] = []
  for (let at = 0; at < entries.length; ) {
    const end = endOfMessage(entries, at)
    messages.push(messageOf(entries, at, end, longTexts))
    at = end
  }
  return messages
}

/** The messages one by one, for a reader that needs only the first of them: the others are not converted. */
export function* firstMessages(request: Pick<ChatRequest, 'messages' | 'unparsed' | 'longTexts'>): Iterable<Message> {
  const { unparsed, longTexts } = request
  if (unparsed?.messages === undefined || longTexts === undefined) return yield* request.messages
  const { entries } = unparsed.messages
  for (let at = 0; at < entries.length; ) {
    const end = endOfMessage(entries, at)
    yield messageOf(entries, at, end, longTexts)
    at = end
  }
}

/** The message whose entries are those from `at` to `end`. */
function messageOf(entries: Int32Array, at: number, end: number, longTexts: LongTexts): Message {
  const kind = (entries[at] ?? SYSTEM) & KINDS
  const parts: TextPart[] = []
  const toolCalls: (ToolCall & Marked)[] = []
  let [callId, result] = ['', 0]
  const textAt = (entry: number) => longTexts.textAt(entries[entry + 1] ?? 0, entries[entry + 2] ?? 0)
  // Ids and names are read, so that no mark may stand for them.
  const idAt = (entry: number) => longTexts.stringAt(entries[entry + 1] ?? 0, entries[entry + 2] ?? 0)
  for (let entry = at + ENTRY_INTS; entry < end; entry += ENTRY_INTS) {
    const bits = entries[entry] ?? 0
    switch (bits & KINDS) {
      case TEXT:
        parts.push({ type: 'text', text: textAt(entry), cache: markOf(bits) })
        break
      case RESULT_ID:
        callId = idAt(entry)
        result = bits
        break
      case CALL_ID: {
        const [name, json] = [entry + ENTRY_INTS, entry + 2 * ENTRY_INTS]
        toolCalls.push({
          callId: idAt(entry),
          name: idAt(name),
          json:
            entries[json] === INPUT ? longTexts.jsonAt(entries[json + 1] ?? 0, entries[json + 2] ?? 0) : textAt(json),
          cache: markOf(bits),
        })
        break
      }
    }
  }
  if (kind === ASSISTANT) return { role: 'assistant', parts, toolCalls }
  if (kind === TOOL)
    return { role: 'tool', callId, parts, isError: (result & FAILED) !== 0 ? true : undefined, cache: markOf(result) }
  return { role: kind === USER ? 'user' : 'system', parts }
}

interface Marked {
  readonly cache?: CacheMark | undefined
}

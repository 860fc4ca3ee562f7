/** Unparsed messages and tools → canonical ones, when they are first read. */

import type { ChatRequest, Message, TextPart, Tool } from './chat-request.ts'
import type { ToolCall } from './completion.ts'
import type { JsonValue } from './json.ts'
import type { LongTexts } from './long-texts.ts'
import {
  ASSISTANT,
  CALL_ID,
  ENTRY_INTS,
  KINDS,
  RESULT_ID,
  SYSTEM,
  TEXT,
  TOOL,
  type Unparsed,
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

function define<T>(request: ChatRequest, name: 'messages' | 'tools', make: () => T): void {
  let made: T | undefined
  const get = () => {
    made ??= make()
    return made
  }
  Object.defineProperty(request, name, { get, enumerable: true, configurable: true })
}

function messagesOf(entries: Int32Array, longTexts: LongTexts): readonly Message[] {
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

/** The entries of the message that begins at `at` end before this one. */
function endOfMessage(entries: Int32Array, at: number): number {
  let end = at + ENTRY_INTS
  while (end < entries.length && ((entries[end] ?? 0) & KINDS) > TOOL) end += ENTRY_INTS
  return end
}

/** The message whose entries are those from `at` to `end`. */
function messageOf(entries: Int32Array, at: number, end: number, longTexts: LongTexts): Message {
  const kind = (entries[at] ?? SYSTEM) & KINDS
  const parts: TextPart[] = []
  const toolCalls: ToolCall[] = []
  let callId = ''
  const textAt = (entry: number) => longTexts.textAt(entries[entry + 1] ?? 0, entries[entry + 2] ?? 0)
  // Ids and names are read, so that no mark may stand for them.
  const idAt = (entry: number) => longTexts.stringAt(entries[entry + 1] ?? 0, entries[entry + 2] ?? 0)
  for (let entry = at + ENTRY_INTS; entry < end; entry += ENTRY_INTS) {
    switch (entries[entry]) {
      case TEXT:
        parts.push({ type: 'text', text: textAt(entry) })
        break
      case RESULT_ID:
        callId = idAt(entry)
        break
      case CALL_ID:
        toolCalls.push({
          callId: idAt(entry),
          name: idAt(entry + ENTRY_INTS),
          json: textAt(entry + 2 * ENTRY_INTS),
        })
        break
    }
  }
  if (kind === ASSISTANT) return { role: 'assistant', parts, toolCalls }
  if (kind === TOOL) return { role: 'tool', callId, parts }
  return { role: kind === USER ? 'user' : 'system', parts }
}

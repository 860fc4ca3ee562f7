/**
 * A conversation that came as a Messages body and was not parsed → the members of the provider's body. Turns that the
 * usual way would write with the same value are the bytes that came; only the others are converted.
 */

import { BytePieces } from '../../core/byte-pieces.ts'
import { type ChatRequest, offersTools, type Tool } from '../../core/chat-request.ts'
import { messagesOf } from '../../core/convert-unparsed.ts'
import type { JsonObject, JsonValue } from '../../core/json.ts'
import { part } from '../../core/json-builder.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import {
  ASSISTANT,
  CALL_ID,
  CONTINUED,
  ENTRY_INTS,
  EXACT,
  KINDS,
  SYSTEM,
  TOOL,
  type UnparsedMark,
  type UnparsedMessages,
  USER,
} from '../../core/unparsed.ts'
import { CacheMarks, MARKS_MAX } from '../cache-marks.ts'
import { MarkOrder } from '../mark-order.ts'
import type { ToolNames } from '../tool-names.ts'
import { contentOf } from '../turn-writer.ts'
import { type Conversation, conversationOf, withoutTrailingSpace } from '../turns.ts'
import { Blocks, textBlock, toolBlock } from './message-blocks.ts'

interface UnparsedTurns {
  readonly tools: JsonValue | undefined
  readonly system: JsonValue | undefined
  readonly messages: JsonValue
}

/** Undefined if the messages were parsed, or must be converted together. */
export function unparsedTurns(request: ChatRequest, structured: boolean, names: ToolNames): UnparsedTurns | undefined {
  const { longTexts, unparsed } = request
  const messages = unparsed?.messages
  if (longTexts === undefined || messages?.form !== 'messages' || !messages.hasOwnTurns) return undefined
  if (request.toolChoice?.mode === 'allowed' || !areKept(marksOf(request, messages))) return undefined
  if (!offersTools(request) && hasCalls(messages.entries)) return undefined
  const writer = new TurnsWriter(request, messages.entries, longTexts, names)
  const turns = writer.turns()
  return turns && { tools: toolsOf(request, longTexts, structured, names), system: writer.system(), messages: turns }
}

/** All cache marks of a request, in the order in which the provider reads them. */
function marksOf(request: ChatRequest, messages: UnparsedMessages): readonly UnparsedMark[] {
  const { unparsed, cache } = request
  // Reading unparsed tools would convert them.
  const ofTools =
    unparsed?.tools === undefined ? request.tools.flatMap((tool) => tool.cache ?? []) : unparsed.tools.marks
  return cache === undefined ? [...ofTools, ...messages.marks] : [...ofTools, ...messages.marks, cache]
}

/** Whether every mark is sent as it is. */
function areKept(marks: readonly UnparsedMark[]): boolean {
  const order = new MarkOrder()
  return marks.length <= MARKS_MAX && marks.every((mark) => order.next(mark) === mark)
}

function hasCalls(entries: Int32Array): boolean {
  for (let at = 0; at < entries.length; at += ENTRY_INTS) if (((entries[at] ?? 0) & KINDS) === CALL_ID) return true
  return false
}

/** Their names are legal, because the messages and tools are unparsed or `names` has looked at them. */
function toolsOf(
  request: ChatRequest,
  longTexts: LongTexts,
  structured: boolean,
  names: ToolNames,
): JsonValue | undefined {
  const tools = request.unparsed?.tools
  if (tools?.form === 'messages' && (structured || !tools.hasStrict)) return longTexts.markOfValue(tools.from, tools.to)
  if (request.tools.length === 0) return undefined
  const marks = keptMarks(request.tools)
  return request.tools.map((tool) => toolBlock(tool, structured, names, marks))
}

/** Marks that are known to be kept. */
function keptMarks(tools: readonly Tool[], conversation: Conversation = { system: [], turns: [] }): CacheMarks {
  return new CacheMarks(tools, conversation)
}

const OPEN_TURN = part('{"role":"user","content":[')
const COMMA = part(',')
const CLOSE_TURN = part(']}')

/**
 * Whether a message, which has nothing but a role and a list of content, is written as this turn is. If its members are
 * in another order, or blanks are between them, its content is elsewhere.
 */
function isUsersMessage(bytes: Uint8Array, from: number, to: number): boolean {
  return areAt(OPEN_TURN, bytes, from) && areAt(CLOSE_TURN, bytes, to - CLOSE_TURN.length)
}

function areAt(expected: Uint8Array, bytes: Uint8Array, from: number): boolean {
  for (let at = 0; at < expected.length; at++) if (bytes[from + at] !== expected[at]) return false
  return true
}

class TurnsWriter {
  /** The first entry of the first message. */
  private readonly start: number

  constructor(
    private readonly request: ChatRequest,
    private readonly entries: Int32Array,
    private readonly longTexts: LongTexts,
    private readonly names: ToolNames,
  ) {
    this.start = this.kindAt(0) === SYSTEM ? this.endOf(0) : 0
  }

  system(): JsonValue | undefined {
    const { start, entries, longTexts } = this
    if (start === 0) return undefined
    if (this.isExact(0)) return longTexts.markOfValue(entries[1] ?? 0, entries[2] ?? 0)
    const { system } = conversationOf({ messages: messagesOf(entries.subarray(0, start), longTexts) })
    const marks = keptMarks([], { system, turns: [] })
    return system.length > 0 ? system.map((part) => textBlock(part, marks)) : undefined
  }

  /** Undefined if they do not begin with the user's. */
  turns(): JsonValue[] | undefined {
    const { entries, longTexts } = this
    const written: JsonValue[] = []
    // Turns that follow each other as they came are one value.
    let [copied, copiedTo] = [-1, -1]
    const flush = () => {
      if (copied !== -1) written.push(longTexts.markOfValue(copied, copiedTo))
      copied = -1
    }
    if (this.kindAt(this.start) === ASSISTANT) return undefined
    for (let at = this.start; at < entries.length; ) {
      const end = this.endOfTurn(at)
      if (this.isOwn(at, end)) {
        if (copied === -1) copied = entries[at + 1] ?? 0
        copiedTo = entries[at + 2] ?? 0
      } else {
        flush()
        written.push(this.joined(at, end) ?? this.turn(at, end))
      }
      at = end
    }
    flush()
    return written
  }

  /** Whether the turn is one message, as it came. The last one may be changed as such. */
  private isOwn(at: number, end: number): boolean {
    if (!this.isExact(at)) return false
    if (end === this.entries.length && (this.kindAt(at) === ASSISTANT || this.request.cache !== undefined)) return false
    for (let next = this.endOf(at); next < end; next = this.endOf(next))
      if (((this.entries[next] ?? 0) & CONTINUED) === 0) return false
    return true
  }

  /**
   * A turn of several messages of the user, such as results and then a question: the blocks of all of them, as they
   * came. Undefined if some of it may have to be changed, or a message is not in the form that clients write.
   */
  private joined(at: number, end: number): JsonValue | undefined {
    const { entries, longTexts, request } = this
    if (end === entries.length && request.cache !== undefined) return undefined
    const pieces = new BytePieces()
    let hasText = false
    for (let next = at; next < end; next = this.endOf(next)) {
      const bits = entries[next] ?? 0
      // Results come before texts.
      if (hasText && this.kindAt(next) === TOOL) return undefined
      hasText ||= this.kindAt(next) === USER
      if ((bits & CONTINUED) !== 0) continue
      const from = entries[next + 1] ?? 0
      const to = entries[next + 2] ?? 0
      if (!this.isExact(next) || !isUsersMessage(longTexts.bytes, from, to)) return undefined
      const before = next === at ? OPEN_TURN : COMMA
      pieces.add(before, 0, before.length)
      pieces.add(longTexts.buffer, from + OPEN_TURN.length, to - CLOSE_TURN.length)
    }
    pieces.add(CLOSE_TURN, 0, CLOSE_TURN.length)
    return longTexts.markOfWritten(pieces)
  }

  private turn(at: number, end: number): JsonObject {
    const { entries, request, longTexts, names } = this
    const isLast = end === entries.length
    const messages = messagesOf(entries.subarray(at, end), longTexts)
    // Without a turn of the user before an assistant's, one is added.
    const { turns } = conversationOf({ messages, cache: isLast ? request.cache : undefined })
    const own = (isLast ? withoutTrailingSpace(turns) : turns).slice(-1)
    const marks = keptMarks([], { system: [], turns: own })
    const [turn] = own
    const [content] = contentOf(own, new Blocks(names, marks, longTexts))
    return { role: turn?.role, content }
  }

  private kindAt(entry: number): number {
    return (this.entries[entry] ?? 0) & KINDS
  }

  private isExact(entry: number): boolean {
    return ((this.entries[entry] ?? 0) & EXACT) !== 0
  }

  /** Where the message that begins at this entry ends. */
  private endOf(entry: number): number {
    let end = entry + ENTRY_INTS
    while (end < this.entries.length && this.kindAt(end) > TOOL) end += ENTRY_INTS
    return end
  }

  /** Where the last of the messages of one side, the first of which begins at this entry, ends. */
  private endOfTurn(entry: number): number {
    const isAnswer = this.kindAt(entry) === ASSISTANT
    let end = this.endOf(entry)
    while (end < this.entries.length && (this.kindAt(end) === ASSISTANT) === isAnswer) end = this.endOf(end)
    return end
  }
}

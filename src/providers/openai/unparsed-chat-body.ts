/**
 * Messages and tools that came in another form than Chat Completions and were not parsed → those of a Chat Completions
 * body, from the bytes of their texts: what `openaiMessage` and `openaiTool` make of them.
 */

import type { BytePieces } from '../../core/byte-pieces.ts'
import { JsonBuilder, part } from '../../core/json-builder.ts'
import type { LongTexts } from '../../core/long-texts.ts'
import {
  ENTRY_INTS,
  endOfMessage,
  INPUT,
  KINDS,
  MARKED,
  markIndexOf,
  NAME,
  STRICT,
  SYSTEM,
  TEXT,
  TOOL,
  type UnparsedMessages,
  type UnparsedTools,
  USER,
} from '../../core/unparsed.ts'

const OPEN_LIST = part('[')
const CLOSE_LIST = part(']')
const COMMA = part(',')
const CLOSE = part('}')
const QUOTE = part('"')
const NULL = part('null')
const NOTHING = part('')
const LINE_END = part('\\n')
const SYSTEM_MESSAGE = part('{"role":"system","content":')
const USER_MESSAGE = part('{"role":"user","content":')
const ASSISTANT_MESSAGE = part('{"role":"assistant","content":')
const TOOL_MESSAGE = part('{"role":"tool","tool_call_id":"')
const RESULT = part('","content":')
const FIRST_PART = part('[{"type":"text","text":"')
const NEXT_PART = part(',{"type":"text","text":"')
/** The end of a text part, by the index of its cache mark. */
const TEXT_ENDS = [part('"}'), ...marked('"', '}')]
const CALLS = part(',"tool_calls":[')
const CALL = part('{"id":"')
const CALL_NAME = part('","type":"function","function":{"name":"')
const ARGUMENTS = part('","arguments":"')
const CALL_END = part('"}}')
const FIRST_TOOL = part('{"type":"function","function":{"name":"')
const NEXT_TOOL = part(',{"type":"function","function":{"name":"')
/** What precedes a member of a tool, by the kind of its entry. */
const TOOL_MEMBERS: Readonly<Record<number, Uint8Array>> = {
  [TEXT]: part('","description":"'),
  [INPUT]: part('","parameters":'),
  [STRICT]: part(',"strict":'),
}
/** The end of a tool, by the index of its cache mark. */
const TOOL_ENDS = [part('}}'), ...marked('}', '}')]

/** For each cache mark, in the order of `MARKS`. */
function marked(before: string, after: string): readonly Uint8Array[] {
  return ['', ',"ttl":"5m"', ',"ttl":"1h"'].map((ttl) =>
    part(`${before},"cache_control":{"type":"ephemeral"${ttl}}${after}`),
  )
}

/** Bytes around an entry, and around all of them. */
const AROUND_ENTRY = 24
const AROUND_ALL = 4096

/** The list of messages, as a mark. In the entries of an assistant's message, texts precede calls. */
export function unparsedMessages({ entries }: UnparsedMessages, longTexts: LongTexts): string {
  const writer = new ChatBodyWriter(entries, longTexts, longTexts.bytes.length)
  return longTexts.markOfWritten(writer.messages())
}

/** The list of tools, as a mark. */
export function unparsedTools({ from, to, entries }: UnparsedTools, longTexts: LongTexts): string {
  return longTexts.markOfWritten(new ChatBodyWriter(entries, longTexts, to - from).tools())
}

class ChatBodyWriter {
  private readonly json: JsonBuilder

  constructor(
    private readonly entries: Int32Array,
    longTexts: LongTexts,
    bytes: number,
  ) {
    this.json = new JsonBuilder(longTexts, bytes + AROUND_ENTRY * entries.length + AROUND_ALL)
  }

  messages(): BytePieces {
    const { entries, json } = this
    json.part(OPEN_LIST)
    for (let at = 0; at < entries.length; ) {
      const end = endOfMessage(entries, at)
      if (at > 0) json.part(COMMA)
      this.message(at, end)
      at = end
    }
    json.part(CLOSE_LIST)
    return json.take()
  }

  private message(at: number, end: number): void {
    const { json } = this
    const first = at + ENTRY_INTS
    switch (this.kindAt(at) & KINDS) {
      case SYSTEM:
        json.part(SYSTEM_MESSAGE)
        this.text(first, end, LINE_END)
        break
      case USER:
        json.part(USER_MESSAGE)
        this.parts(first, end)
        break
      case TOOL:
        json.part(TOOL_MESSAGE)
        this.span(first)
        json.part(RESULT)
        this.text(first + ENTRY_INTS, end, LINE_END, markIndexOf(this.kindAt(first)))
        break
      default:
        this.answer(first, end)
    }
    json.part(CLOSE)
  }

  private answer(first: number, end: number): void {
    const { json } = this
    let calls = first
    while (calls < end && (this.kindAt(calls) & KINDS) === TEXT) calls += ENTRY_INTS
    json.part(ASSISTANT_MESSAGE)
    if (calls > first || calls === end) this.text(first, calls, NOTHING)
    else json.part(NULL)
    if (calls === end) return
    json.part(CALLS)
    for (let call = calls; call < end; call += 3 * ENTRY_INTS) {
      if (call > calls) json.part(COMMA)
      this.call(call)
    }
    json.part(CLOSE_LIST)
  }

  private call(at: number): void {
    const { json, entries } = this
    const name = at + ENTRY_INTS
    const input = at + 2 * ENTRY_INTS
    const from = entries[input + 1] ?? 0
    const to = entries[input + 2] ?? 0
    json.part(CALL)
    this.span(at)
    json.part(CALL_NAME)
    this.span(name)
    json.part(ARGUMENTS)
    if ((this.kindAt(input) & KINDS) === INPUT) json.json(from, to)
    else json.span(from, to)
    json.part(CALL_END)
  }

  /** As `openaiText`. `mark`: the index of a mark on the whole text. */
  private text(first: number, end: number, separator: Uint8Array, mark = 0): void {
    const { json } = this
    const last = end - ENTRY_INTS
    let isMarked = mark > 0 && first < end
    for (let at = first; at < end; at += ENTRY_INTS) isMarked ||= this.kindAt(at) >= MARKED
    json.part(isMarked ? FIRST_PART : QUOTE)
    for (let at = first; at < end; at += ENTRY_INTS) {
      if (at > first) json.part(separator)
      this.span(at)
      const own = at === last && mark > 0 ? mark : markIndexOf(this.kindAt(at))
      // Only a part with a mark ends before the whole text does.
      if (own > 0 || (isMarked && at === last)) json.part(this.textEnd(own))
      if (own > 0 && at < last) json.part(NEXT_PART)
    }
    json.part(isMarked ? CLOSE_LIST : QUOTE)
  }

  /** As `openaiParts`. */
  private parts(first: number, end: number): void {
    const { json } = this
    const parts = (end - first) / ENTRY_INTS
    if (parts === 0 || (parts === 1 && this.kindAt(first) < MARKED)) return this.text(first, end, NOTHING)
    for (let at = first; at < end; at += ENTRY_INTS) {
      json.part(at === first ? FIRST_PART : NEXT_PART)
      this.span(at)
      json.part(this.textEnd(markIndexOf(this.kindAt(at))))
    }
    json.part(CLOSE_LIST)
  }

  tools(): BytePieces {
    const { entries, json } = this
    json.part(OPEN_LIST)
    let end: Uint8Array = NOTHING
    for (let at = 0; at < entries.length; at += ENTRY_INTS) {
      const kind = this.kindAt(at)
      if ((kind & KINDS) === NAME) {
        json.part(end)
        json.part(at === 0 ? FIRST_TOOL : NEXT_TOOL)
        end = TOOL_ENDS[markIndexOf(kind)] ?? NOTHING
      } else json.part(TOOL_MEMBERS[kind & KINDS] ?? NOTHING)
      this.span(at)
    }
    json.part(end)
    json.part(CLOSE_LIST)
    return json.take()
  }

  private span(at: number): void {
    this.json.span(this.entries[at + 1] ?? 0, this.entries[at + 2] ?? 0)
  }

  private kindAt(at: number): number {
    return this.entries[at] ?? 0
  }

  /** The end of a text part with this mark. */
  private textEnd(mark: number): Uint8Array {
    return TEXT_ENDS[mark] ?? NOTHING
  }
}

/** Messages and tools as entries → those of a Messages body, from the bytes of their texts. */

import type { BlockSpan, Conversation, Entries } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { MARKED, markOf } from '../../core/entry-marks.ts'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf } from '../../core/json.ts'
import { CLOSE_LIST, COMMA, type JsonBuilder, NOTHING, OPEN_LIST, part, QUOTE } from '../../core/json-builder.ts'
import type { OwnFields } from '../../core/own-fields.ts'
import { type EntryThoughts, writeThoughtsBefore } from '../../core/thoughts.ts'
import type { ToolList } from '../../core/tool-list.ts'
import { markedEnds, type SentMarks } from '../cache-marks.ts'
import { CallInputWriter, writeObjectSchema } from '../call-arguments.ts'
import type { SentCallIds } from '../sent-call-ids.ts'
import type { ToolNames } from '../tool-names.ts'
import { NO_ENTRY, PLACEHOLDER, type Turns } from '../turns.ts'
import { MediaBlockWriter } from './media-blocks.ts'

/** What models and servers differ in. */
export interface MessageVariant {
  /** Whether the model gets `strict` tools. */
  readonly takesStrict: boolean
  /** Whether each turn with calls begins with thinking, an empty one. */
  readonly wantsThinking: boolean
}

const SYSTEM_LIST = part(',"system":')
const MESSAGES = part(',"messages":[')
const USER_TURN = part('{"role":"user","content":[')
const ASSISTANT_TURN = part('{"role":"assistant","content":[')
const CLOSE_TURN = part(']}')
const THINKING = part('{"type":"thinking","thinking":"","signature":""},')
const TEXT_BLOCK = part('{"type":"text","text":"')
const CALL_BLOCK = part('{"type":"tool_use","id":"')
const CALL_NAME = part('","name":"')
const CALL_INPUT = part('","input":')
const RESULT_BLOCK = part('{"type":"tool_result","tool_use_id":"')
const RESULT_TEXT = part('","content":"')
const RESULT_TEXTS = part('","content":[')
const FAILED = part(',"is_error":true')
const TOOL_NAME = part('{"name":"')
const DESCRIPTION = part('","description":"')
const SCHEMA = part('","input_schema":')
const STRICTNESS = part(',"strict":')
/** The ends of blocks, after the inside of a string and after a value, by the index of the cache mark. */
const TEXT_ENDS = [part('"}'), ...markedEnds('"', '}')]
const ENDS = [part('}'), ...markedEnds('', '}')]

/** A block, and those within it, without cache marks. */
function withoutMarks(block: JsonValue): JsonObject {
  const { cache_control: _, content, ...others } = objectOf(block) ?? {}
  if (!isArray(content)) return content === undefined ? others : { ...others, content }
  return { ...others, content: content.map((inner) => (isObject(inner) ? withoutMarks(inner) : inner)) }
}

export class MessageBodyWriter {
  /** With the marks to send. */
  private readonly conversation: Conversation
  private readonly inputs = new CallInputWriter()
  /** Made when first needed: few requests have images or documents. */
  private madeMedia: MediaBlockWriter | undefined
  /** Whether messages may be sent as they came. */
  private readonly isOwnForm: boolean

  constructor(
    private readonly json: JsonBuilder,
    private readonly names: ToolNames,
    private readonly turns: Turns,
    private readonly marks: SentMarks,
    private readonly ids: SentCallIds,
    private readonly variant: MessageVariant,
    private readonly thoughts: EntryThoughts | undefined,
    /** What the caller has sent for this API. */
    private readonly own: OwnFields | undefined,
  ) {
    const { conversation } = marks
    this.conversation = conversation
    this.isOwnForm = conversation.form === 'messages' && !names.areChanged && !ids.areChanged
  }

  private get media(): MediaBlockWriter {
    this.madeMedia ??= new MediaBlockWriter(this.json, this.conversation, (block, mark) => this.block(block, mark))
    return this.madeMedia
  }

  /** The list of tools. */
  tools(): void {
    const { json, names, variant } = this
    const { tools } = this.marks
    const isAsItCame = tools.isExact && tools.form === 'messages' && !names.areChanged
    if (isAsItCame && (variant.takesStrict || !tools.has(Kind.STRICT)))
      return json.span(tools.exactFrom, tools.exactTo, tools.arena)
    json.part(OPEN_LIST)
    for (let tool = 0; tool < tools.end; tool = tools.endOfTool(tool)) {
      if (tool > 0) json.part(COMMA)
      this.tool(tools, tool)
    }
    for (const [index, tool] of (this.own?.tools ?? []).entries()) {
      if (index > 0 || !tools.isEmpty) json.part(COMMA)
      json.text(tool.json)
    }
    json.part(CLOSE_LIST)
  }

  private tool(tools: ToolList, tool: number): void {
    const { json } = this
    const end = tools.endOfTool(tool)
    const whole = tools.blockAt(tool)
    if (whole !== undefined && this.isToolKnown(tools, tool, end))
      return this.whole(whole, tools.markIndexAt(tool), tools)
    json.part(TOOL_NAME)
    this.names.write(json, tools, tool)
    for (let entry = tools.next(tool); entry < end; entry = tools.next(entry)) {
      switch (tools.kindAt(entry)) {
        case Kind.TEXT:
          json.part(DESCRIPTION)
          json.entry(tools, entry)
          break
        case Kind.INPUT:
          json.part(SCHEMA)
          writeObjectSchema(json, tools, entry)
          break
        case Kind.STRICT:
          if (!this.variant.takesStrict) break
          json.part(STRICTNESS)
          json.entry(tools, entry)
      }
    }
    json.part(ENDS[tools.markIndexAt(tool)] ?? NOTHING)
  }

  /** Whether a tool with members of its own may be sent with them. */
  private isToolKnown(tools: ToolList, tool: number, end: number): boolean {
    if (this.names.areChanged) return false
    for (let entry = tool; entry < end; entry = tools.next(entry))
      if (tools.kindAt(entry) === Kind.STRICT && !this.variant.takesStrict) return false
    return true
  }

  /** A block with members of its own; `marks`: those that are to be sent. */
  private whole({ from, to, marks: came }: BlockSpan, marks: number, { arena }: Entries, mark = marks): void {
    if (marks === came) return this.json.span(from, to, arena)
    const value = withoutMarks(arena.valueAt(from, to))
    const sent = markOf(mark * MARKED)
    this.json.text(
      JSON.stringify(sent === undefined ? value : { ...value, cache_control: { type: 'ephemeral', ...sent } }),
    )
  }

  /** The members of the system and the messages. */
  messages(): void {
    this.system()
    const { json, turns } = this
    json.part(MESSAGES)
    for (let turn = 0; turn < turns.count; turn++) {
      if (turn > 0) json.part(COMMA)
      if (this.isAsItCame(turn)) turn = this.asTheyCame(turn)
      else this.turn(turn)
    }
    json.part(CLOSE_LIST)
  }

  private system(): void {
    const { json, turns, conversation } = this
    const { system, systemMessages } = turns
    if (system.length === 0) return
    json.part(SYSTEM_LIST)
    const isFirst = conversation.kindAt(0) === Kind.SYSTEM && systemMessages === 1
    if (conversation.form === 'messages' && isFirst && conversation.isExact(0))
      return json.span(conversation.fromAt(0), conversation.toAt(0), conversation.arena)
    json.part(OPEN_LIST)
    for (let index = 0; index < system.length; index++) {
      const text = system[index] ?? 0
      if (index > 0) json.part(COMMA)
      this.block(text, conversation.markIndexAt(text))
    }
    json.part(CLOSE_LIST)
  }

  /** Whether a turn is one message that may be sent as it came. A last one of the assistant may have to be trimmed. */
  private isAsItCame(turn: number): boolean {
    const { turns, conversation } = this
    if (!this.isOwnForm || turns.blockAt(turns.firstBlock(turn)) === PLACEHOLDER) return false
    if (turns.isAnswer(turn) && (turn === turns.count - 1 || this.variant.wantsThinking || this.hasThoughts(turn)))
      return false
    const first = turns.firstMessage(turn)
    if (!conversation.isExact(first)) return false
    const end = turns.endOfMessages(turn)
    for (let next = conversation.endOfMessage(first); next < end; next = conversation.endOfMessage(next))
      if (!conversation.isContinued(next) && !(this.own !== undefined && conversation.isExact(next))) return false
    return true
  }

  /** Such turns that follow each other, with what is between them. Returns the last of them. */
  private asTheyCame(first: number): number {
    const { turns, conversation } = this
    let last = first
    while (
      last + 1 < turns.count &&
      turns.firstMessage(last + 1) === turns.endOfMessages(last) &&
      this.isAsItCame(last + 1)
    )
      last++
    const from = conversation.fromAt(turns.firstMessage(first))
    this.json.span(from, conversation.toAt(this.lastMessage(last)), conversation.arena)
    return last
  }

  /** The last message of a turn, or the first of those that came within it. */
  private lastMessage(turn: number): number {
    const { turns, conversation } = this
    let last = turns.firstMessage(turn)
    for (let next = last; next < turns.endOfMessages(turn); next = conversation.endOfMessage(next))
      if (!conversation.isContinued(next)) last = next
    return last
  }

  private turn(turn: number): void {
    const { json, turns } = this
    const first = turns.firstBlock(turn)
    const end = turns.firstBlock(turn + 1)
    json.part(turns.isAnswer(turn) ? ASSISTANT_TURN : USER_TURN)
    const isBlank = this.variant.wantsThinking && turns.kindOf(turns.blockAt(end - 1)) === Kind.CALL_ID
    if (isBlank && !this.hasThoughts(turn)) json.part(THINKING)
    for (let place = first; place < end; place++) {
      if (place > first) json.part(COMMA)
      const block = turns.blockAt(place)
      writeThoughtsBefore(block, this.thoughts, json)
      this.block(block, this.marks.indexAt(place))
    }
    json.part(CLOSE_TURN)
  }

  private hasThoughts(turn: number): boolean {
    const { thoughts, turns } = this
    if (thoughts === undefined) return false
    for (let place = turns.firstBlock(turn); place < turns.firstBlock(turn + 1); place++)
      if (thoughts.before(turns.blockAt(place)).length > 0) return true
    return false
  }

  /** `mark`: the index of its cache mark. */
  private block(block: number, mark: number): void {
    const whole = block === PLACEHOLDER ? undefined : this.conversation.blockAt(block)
    if (whole !== undefined && this.isWhole(block))
      return this.whole(whole, this.marksIn(block, mark), this.conversation, mark)
    switch (this.turns.kindOf(block)) {
      case Kind.TEXT:
        return this.text(block, mark)
      case Kind.CALL_ID:
        return this.call(block, mark)
      case Kind.RESULT_ID:
        return this.result(block, mark)
      case Kind.IMAGE:
      case Kind.IMAGE_URL:
        return this.media.image(block, mark)
      case Kind.DOCUMENT:
      case Kind.DOCUMENT_TEXT:
      case Kind.DOCUMENT_URL:
      case Kind.DOCUMENT_PARTS:
        return this.media.document(block, mark)
    }
  }

  /** Whether a block with members of its own may be sent with them. */
  private isWhole(block: number): boolean {
    const { turns } = this
    switch (turns.kindOf(block)) {
      case Kind.TEXT:
        return block !== turns.lastBlock || !turns.isAnswer(turns.count - 1)
      case Kind.OWN_BLOCK:
        return true
      default:
        return this.isOwnForm
    }
  }

  /** The indexes of the marks that are sent with a block, added up. */
  private marksIn(block: number, mark: number): number {
    const { conversation } = this
    let marks = mark
    if (conversation.kindAt(block) !== Kind.RESULT_ID) return marks
    const end = conversation.endOfMessage(block)
    for (let text = conversation.next(block); text < end; text = conversation.next(text))
      marks += conversation.markIndexAt(text)
    return marks
  }

  private text(block: number, mark: number): void {
    const { json } = this
    json.part(TEXT_BLOCK)
    this.turns.trimmedText(json, block)
    json.part(TEXT_ENDS[mark] ?? NOTHING)
  }

  private call(block: number, mark: number): void {
    const { json, conversation } = this
    const name = conversation.next(block)
    json.part(CALL_BLOCK)
    this.ids.write(json, block)
    json.part(CALL_NAME)
    this.names.write(json, conversation, name)
    json.part(CALL_INPUT)
    this.inputs.write(json, conversation, conversation.next(name))
    json.part(ENDS[mark] ?? NOTHING)
  }

  /**
   * One text without a mark is sent as a string, which every compatible server accepts; an empty result has no content.
   */
  private result(block: number, mark: number): void {
    const { json, turns, conversation } = this
    const first = turns.partOfResult(conversation.next(block))
    json.part(RESULT_BLOCK)
    this.ids.write(json, block)
    if (first === NO_ENTRY) json.part(QUOTE)
    else this.resultParts(first, turns.partAfter(first))
    if (conversation.isFailed(block)) json.part(FAILED)
    json.part(ENDS[mark] ?? NOTHING)
  }

  private resultParts(first: number, second: number): void {
    const { json, turns, conversation } = this
    const isText = conversation.kindAt(first) === Kind.TEXT
    // Also if its mark is one too many.
    if (isText && second === NO_ENTRY && turns.conversation.markIndexAt(first) === 0) {
      return json.entryBetween(RESULT_TEXT, conversation, first, QUOTE)
    }
    json.part(RESULT_TEXTS)
    for (let at = first; at !== NO_ENTRY; at = turns.partAfter(at)) {
      if (at !== first) json.part(COMMA)
      this.block(at, conversation.markIndexAt(at))
    }
    json.part(CLOSE_LIST)
  }
}

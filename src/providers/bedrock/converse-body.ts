/** Messages and tools as entries → the members of Converse's body, from the bytes of their texts. */

import type { Conversation } from '../../core/conversation.ts'
import { isTextType } from '../../core/document-types.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { CLOSE_LIST, COMMA, type JsonBuilder, NOTHING, part, QUOTE } from '../../core/json-builder.ts'
import { type EntryThoughts, writeThoughtsBefore } from '../../core/thoughts.ts'
import type { ToolList } from '../../core/tool-list.ts'
import type { SentMarks } from '../cache-marks.ts'
import { CallInputWriter, writeObjectSchema } from '../call-arguments.ts'
import { cannotTake, NO_ADDRESSES, SentDocument } from '../documents.ts'
import { mediaType } from '../media-type.ts'
import { SentCallIds } from '../sent-call-ids.ts'
import type { ToolNames } from '../tool-names.ts'
import { NO_ENTRY, type Turns } from '../turns.ts'
import { DocumentNames, FORMATS } from './document-names.ts'

const CLOSE_TURN = part(']}')
const TOOLS = part('"tools":[')
const TOOL_NAME = part('{"toolSpec":{"name":"')
const DESCRIPTION = part('","description":"')
const SCHEMA = part('","inputSchema":{"json":')
const CLOSE_TOOL = part('}}}')
const SYSTEM = part('"system":[')
const CLOSE_SYSTEM = part('],')
const MESSAGES = part('"messages":[')
const USER_TURN = part('{"role":"user","content":[')
const ASSISTANT_TURN = part('{"role":"assistant","content":[')
const TEXT_BLOCK = part('{"text":"')
const CLOSE_TEXT = part('"}')
const IMAGE_BLOCK = part('{"image":{"format":"')
const IMAGE_DATA = part('","source":{"bytes":"')
const CLOSE_IMAGE = part('"}}}')
const DOCUMENT_BLOCK = part('{"document":{"format":"')
const DOCUMENT_NAME = part('","name":"')
const CLOSE_SOURCE = part('"}')
const CONTEXT_MEMBER = part(',"context":"')
const CITATIONS = part(',"citations":{"enabled":true}')
const CLOSE_DOCUMENT = part('}}')
/** Converse rejects a turn with a document and without a text. */
const SOME_TEXT = part(',{"text":"."}')
const CALL = part('{"toolUse":{"toolUseId":"')
const CALL_NAME = part('","name":"')
const CALL_INPUT = part('","input":')
const CLOSE_CALL = part('}}')
const RESULT = part('{"toolResult":{"toolUseId":"')
const RESULT_CONTENT = part('","content":[')
/** Converse requires content that is not blank. */
const NO_OUTPUT = part('{"text":"(no output)"}')
const CLOSE_RESULT = part(']}}')
const CLOSE_FAILED = part('],"status":"error"}}')
const CALLED = part('{"text":"[called ')
const CALLED_WITH = part(' with ')
const IN_RESULT = part('{"text":"[result: ')
const IN_ERROR = part('{"text":"[error: ')
const CLOSE_WORDS = part(']"}')
/** A cache mark is a block of its own after the content that it ends: for each, in the order of `MARKS`. */
const CACHE_POINTS = ['', '{"type":"default"}', '{"type":"default","ttl":"5m"}', '{"type":"default","ttl":"1h"}'].map(
  (point) => part(point && `,{"cachePoint":${point}}`),
)

/** One per request. */
export class ConverseBodyWriter {
  /** With the marks to send. */
  private readonly conversation: Conversation
  private readonly inputs = new CallInputWriter()
  private readonly ids: SentCallIds
  private readonly documentNames = new DocumentNames()

  /** `inWords`: calls and results are written as texts. */
  constructor(
    private readonly json: JsonBuilder,
    private readonly names: ToolNames,
    private readonly turns: Turns,
    private readonly marks: SentMarks,
    private readonly inWords: boolean,
    private readonly thoughts: EntryThoughts | undefined,
  ) {
    this.conversation = marks.conversation
    this.ids = new SentCallIds(turns)
  }

  /** The member of the tools. */
  tools(): void {
    const { json } = this
    const { tools } = this.marks
    json.part(TOOLS)
    for (let tool = 0; tool < tools.end; tool = tools.endOfTool(tool)) {
      if (tool > 0) json.part(COMMA)
      this.tool(tools, tool)
      this.cachePoint(tools.markIndexAt(tool))
    }
    json.part(CLOSE_LIST)
  }

  private tool(tools: ToolList, tool: number): void {
    const { json } = this
    const description = tools.memberOf(tool, Kind.TEXT)
    json.part(TOOL_NAME)
    this.names.write(json, tools, tool)
    // Converse rejects an empty description.
    if (description !== NO_ENTRY && tools.toAt(description) > tools.fromAt(description)) {
      json.part(DESCRIPTION)
      json.entry(tools, description)
    }
    json.part(SCHEMA)
    writeObjectSchema(json, tools, tools.memberOf(tool, Kind.INPUT))
    json.part(CLOSE_TOOL)
  }

  private cachePoint(mark: number): void {
    if (mark > 0) this.json.part(CACHE_POINTS[mark] ?? NOTHING)
  }

  /** The member of the system's texts, and a comma. */
  system(): void {
    const { json, conversation } = this
    const { system } = this.turns
    if (system.length === 0) return
    json.part(SYSTEM)
    for (let index = 0; index < system.length; index++) {
      const text = system[index] ?? 0
      if (index > 0) json.part(COMMA)
      this.text(text)
      this.cachePoint(conversation.markIndexAt(text))
    }
    json.part(CLOSE_SYSTEM)
  }

  /** The member of the turns. */
  messages(): void {
    const { json, turns } = this
    json.part(MESSAGES)
    for (let turn = 0; turn < turns.count; turn++) {
      if (turn > 0) json.part(COMMA)
      this.turn(turn)
    }
    json.part(CLOSE_LIST)
  }

  private turn(turn: number): void {
    const { json, turns } = this
    const first = turns.firstBlock(turn)
    const end = turns.firstBlock(turn + 1)
    json.part(turns.isAnswer(turn) ? ASSISTANT_TURN : USER_TURN)
    for (let place = first; place < end; place++) {
      if (place > first) json.part(COMMA)
      const block = turns.blockAt(place)
      writeThoughtsBefore(block, this.thoughts, json)
      this.block(block)
      const own = this.marks.indexAt(place)
      this.cachePoint(own > 0 ? own : this.markWithin(block))
    }
    if (this.lacksText(first, end)) json.part(SOME_TEXT)
    json.part(CLOSE_TURN)
  }

  private lacksText(first: number, end: number): boolean {
    const { turns } = this
    let hasDocument = false
    for (let place = first; place < end; place++) {
      const kind = turns.kindOf(turns.blockAt(place))
      if (kind === Kind.TEXT) return false
      hasDocument ||= kind === Kind.DOCUMENT || kind === Kind.DOCUMENT_TEXT
    }
    return hasDocument
  }

  private block(block: number): void {
    switch (this.turns.kindOf(block)) {
      case Kind.TEXT:
        return this.text(block)
      case Kind.CALL_ID:
        return this.inWords ? this.callInWords(block) : this.call(block)
      case Kind.RESULT_ID:
        return this.inWords ? this.resultInWords(block) : this.result(block)
      case Kind.IMAGE:
        return this.image(block)
      case Kind.IMAGE_URL:
        throw cannotTake('This model takes images as base64 data only, not by address.')
      case Kind.DOCUMENT_URL:
        throw cannotTake(NO_ADDRESSES)
      case Kind.DOCUMENT:
      case Kind.DOCUMENT_TEXT:
        return this.document(new SentDocument(this.conversation, block))
      case Kind.DOCUMENT_PARTS:
        // Documents of Converse are files.
        return new SentDocument(this.conversation, block).writeParts(this.json, (entry) => this.block(entry), {
          open: TEXT_BLOCK,
          close: CLOSE_TEXT,
        })
    }
  }

  private text(block: number): void {
    const { json } = this
    json.part(TEXT_BLOCK)
    this.turns.trimmedText(json, block)
    json.part(CLOSE_TEXT)
  }

  private call(block: number): void {
    const { json, conversation } = this
    const name = conversation.next(block)
    json.part(CALL)
    this.ids.write(json, block)
    json.part(CALL_NAME)
    this.names.write(json, conversation, name)
    json.part(CALL_INPUT)
    this.inputs.write(json, conversation, conversation.next(name))
    json.part(CLOSE_CALL)
  }

  private result(block: number): void {
    const { json, turns, conversation } = this
    const first = turns.partOfResult(conversation.next(block))
    json.part(RESULT)
    this.ids.write(json, block)
    json.part(RESULT_CONTENT)
    if (first === NO_ENTRY) json.part(NO_OUTPUT)
    for (let at = first; at !== NO_ENTRY; at = turns.partAfter(at)) {
      if (at !== first) json.part(COMMA)
      if (conversation.kindAt(at) !== Kind.TEXT) {
        this.block(at)
        continue
      }
      json.entryBetween(TEXT_BLOCK, conversation, at, CLOSE_TEXT)
    }
    json.part(conversation.isFailed(block) ? CLOSE_FAILED : CLOSE_RESULT)
  }

  /** Cache points are not allowed inside a result: a mark on its text becomes a cache point after it. */
  private markWithin(block: number): number {
    const { turns, conversation, inWords } = this
    let mark = 0
    if (inWords || !conversation.isMarked || turns.kindOf(block) !== Kind.RESULT_ID) return mark
    for (let at = turns.partOfResult(conversation.next(block)); at !== NO_ENTRY; at = turns.partAfter(at))
      mark = conversation.markIndexAt(at) || mark
    return mark
  }

  private callInWords(block: number): void {
    const { json, conversation } = this
    const name = conversation.next(block)
    const written = conversation.next(name)
    json.entryBetween(CALLED, conversation, name, CALLED_WITH)
    const isObject = conversation.kindAt(written) === Kind.INPUT
    if (isObject) json.json(conversation.fromAt(written), conversation.toAt(written), conversation.arena)
    else json.entry(conversation, written)
    json.part(CLOSE_WORDS)
  }

  private resultInWords(block: number): void {
    const { json, conversation } = this
    json.part(conversation.isFailed(block) ? IN_ERROR : IN_RESULT)
    this.turns.wholeResult(json, block)
    json.part(CLOSE_WORDS)
    const { turns } = this
    let media = turns.mediaOfResult(conversation.next(block))
    for (; media !== NO_ENTRY; media = turns.mediaOfResult(conversation.endOfPart(media))) {
      json.part(COMMA)
      this.block(media)
    }
  }

  /** Throws `ProviderError` `rejected` with `unsent` for a type that Converse does not have. */
  private document(sent: SentDocument): void {
    const { json, conversation } = this
    const format = FORMATS.get(sent.mediaType) ?? (isTextType(sent.mediaType) ? 'txt' : undefined)
    if (format === undefined) throw cannotTake(`This model takes no documents of type '${sent.mediaType}'.`)
    json.part(DOCUMENT_BLOCK)
    json.text(format)
    json.part(DOCUMENT_NAME)
    json.text(this.documentNames.next(sent.title))
    json.part(IMAGE_DATA)
    if (sent.kind === Kind.DOCUMENT) json.entry(conversation, sent.entry)
    else json.text(Buffer.from(conversation.textAt(sent.entry)).toString('base64'))
    json.part(CLOSE_SOURCE)
    if (sent.contextEntry !== NO_ENTRY) {
      json.entryBetween(CONTEXT_MEMBER, conversation, sent.contextEntry, QUOTE)
    }
    if (conversation.isCited(sent.entry)) json.part(CITATIONS)
    json.part(CLOSE_DOCUMENT)
  }

  private image(block: number): void {
    const { json, conversation } = this
    json.part(IMAGE_BLOCK)
    json.inside(mediaType(conversation.textAt(conversation.next(block))).replace(/^image\//, ''))
    json.entryBetween(IMAGE_DATA, conversation, block, CLOSE_IMAGE)
  }
}

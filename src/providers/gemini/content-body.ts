/** Messages and tools as entries → the contents and declarations of Gemini's body, from the bytes of their texts. */

import type { Conversation } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { objectOf } from '../../core/json.ts'
import { CLOSE, CLOSE_LIST, COMMA, type JsonBuilder, NOTHING, type Part, part } from '../../core/json-builder.ts'
import type { EntryThoughts } from '../../core/thoughts.ts'
import type { ToolList } from '../../core/tool-list.ts'
import { CallInputWriter } from '../call-arguments.ts'
import { SentDocument } from '../documents.ts'
import { mediaType } from '../media-type.ts'
import { SentCallIds } from '../sent-call-ids.ts'
import { NO_SIGNATURE } from '../thought-signature.ts'
import type { ToolNames } from '../tool-names.ts'
import { NO_ENTRY, type Turns } from '../turns.ts'

/** What models and servers differ in. */
export interface ContentVariant {
  /** Whether calls and their results carry ids. If not, results are in the order of their calls. */
  readonly callIds: boolean
  readonly wantsSignatures: boolean
}

const CLOSE_TURN = part(']}')
const SYSTEM = part('"systemInstruction":{"parts":[')
const CLOSE_SYSTEM = part(']},')
const TOOLS = part('"tools":[{"functionDeclarations":[')
const CLOSE_TOOLS = part(']}],')
const TOOL_NAME = part('{"name":"')
const DESCRIPTION = part('","description":"')
const SCHEMA = part('","parametersJsonSchema":')
const CONTENTS = part('"contents":[')
const USER_TURN = part('{"role":"user","parts":[')
const MODEL_TURN = part('{"role":"model","parts":[')
const TEXT_PART = part('{"text":"')
const CLOSE_TEXT = part('"}')
const CALL = part('{"functionCall":{')
const RESULT = part('{"functionResponse":{')
const ID = part('"id":"')
const AFTER_ID = part('",')
const NAME = part('"name":"')
const CALL_ARGUMENTS = part('","args":')
const RESULT_TEXT = part('","response":{"result":"')
const RESULT_ERROR = part('","response":{"error":"')
const CLOSE_RESULT = part('"}}}')
const INLINE_DATA = part('{"inlineData":{"mimeType":"')
const DATA = part('","data":"')
const FILE_DATA = part('{"fileData":{"mimeType":"')
const FILE_URI = part('","fileUri":"')
const CLOSE_DATA = part('"}}')

const REPLACEMENT = JSON.stringify(NO_SIGNATURE)

/** The name of the member that is not sent, and the beginning of an escape in which a name may be hidden. */
const DIALECT = Buffer.from('$schema')
const ESCAPE = Buffer.from('\\u')

/** One per request. */
export class ContentBodyWriter {
  private readonly conversation: Conversation
  private readonly inputs = new CallInputWriter()
  private readonly ids: SentCallIds

  constructor(
    private readonly json: JsonBuilder,
    private readonly names: ToolNames,
    private readonly turns: Turns,
    private readonly variant: ContentVariant,
    private readonly thoughts: EntryThoughts | undefined,
  ) {
    this.conversation = turns.conversation
    this.ids = new SentCallIds(turns)
  }

  /** The member of the system's texts, and a comma. */
  system(): void {
    const { json } = this
    const { system } = this.turns
    if (system.length === 0) return
    json.part(SYSTEM)
    for (let index = 0; index < system.length; index++) {
      if (index > 0) json.part(COMMA)
      this.text(system[index] ?? 0)
    }
    json.part(CLOSE_SYSTEM)
  }

  /** The member of the declarations, and a comma. */
  tools(tools: ToolList): void {
    const { json } = this
    if (tools.isEmpty) return
    json.part(TOOLS)
    for (let tool = 0; tool < tools.end; tool = tools.endOfTool(tool)) {
      if (tool > 0) json.part(COMMA)
      this.tool(tools, tool)
    }
    json.part(CLOSE_TOOLS)
  }

  /** `parametersJsonSchema` takes any JSON Schema; `parameters` would require Gemini's subset of OpenAPI. */
  private tool(tools: ToolList, tool: number): void {
    const { json } = this
    const description = tools.memberOf(tool, Kind.TEXT)
    json.part(TOOL_NAME)
    this.names.write(json, tools, tool)
    if (description !== NO_ENTRY) {
      json.part(DESCRIPTION)
      json.entry(tools, description)
    }
    json.part(SCHEMA)
    this.schema(tools, tools.memberOf(tool, Kind.INPUT))
    json.part(CLOSE)
  }

  /** Without `$schema`, which the API rejects. */
  private schema(tools: ToolList, entry: number): void {
    const { arena } = tools
    const from = tools.fromAt(entry)
    const to = tools.toAt(entry)
    const { buffer, byteOffset } = arena.bufferAt(from)
    const bytes = Buffer.from(buffer, byteOffset + arena.indexAt(from), to - from)
    if (!bytes.includes(DIALECT) && !bytes.includes(ESCAPE)) return this.json.span(from, to, arena)
    const { $schema: _, ...schema } = objectOf(arena.valueAt(from, to)) ?? {}
    this.json.text(JSON.stringify(schema))
  }

  /** The member of the turns. */
  contents(): void {
    const { json, turns } = this
    json.part(CONTENTS)
    for (let turn = 0; turn < turns.count; turn++) {
      if (turn > 0) json.part(COMMA)
      if (turns.isAnswer(turn)) this.answer(turn)
      else this.question(turn)
    }
    json.part(CLOSE_LIST)
  }

  private answer(turn: number): void {
    const { json, turns } = this
    const first = turns.firstBlock(turn)
    let isFirstCall = true
    json.part(MODEL_TURN)
    for (let place = first; place < turns.firstBlock(turn + 1); place++) {
      const block = turns.blockAt(place)
      if (place > first) json.part(COMMA)
      if (turns.kindOf(block) === Kind.CALL_ID) {
        this.call(block, isFirstCall)
        isFirstCall = false
      } else this.text(block)
    }
    json.part(CLOSE_TURN)
  }

  private question(turn: number): void {
    const { json, turns } = this
    const first = turns.firstBlock(turn)
    const results = this.variant.callIds ? undefined : this.resultsInOrder(turn)
    json.part(USER_TURN)
    const end = turns.firstBlock(turn + 1)
    let isMediaWritten = false
    for (let place = first; place < end; place++) {
      const block = results?.[place - first] ?? turns.blockAt(place)
      if (place > first) json.part(COMMA)
      if (!isMediaWritten && turns.kindOf(block) !== Kind.RESULT_ID) {
        isMediaWritten = true
        this.mediaOfResults(first, place, NOTHING, COMMA)
      }
      this.block(block)
    }
    if (!isMediaWritten) this.mediaOfResults(first, end, COMMA, NOTHING)
    json.part(CLOSE_TURN)
  }

  /** Images and documents of results follow all of them as parts of the turn: older models take none within. */
  private mediaOfResults(first: number, end: number, before: Part, after: Part): void {
    const { json, turns, conversation } = this
    for (let place = first; place < end; place++) {
      let media = turns.mediaOfResult(conversation.next(turns.blockAt(place)))
      for (; media !== NO_ENTRY; media = turns.mediaOfResult(conversation.endOfPart(media))) {
        json.part(before)
        this.block(media)
        json.part(after)
      }
    }
  }

  private block(block: number): void {
    switch (this.turns.kindOf(block)) {
      case Kind.TEXT:
        return this.text(block)
      case Kind.RESULT_ID:
        return this.result(block)
      case Kind.IMAGE:
        return this.inlineData(block)
      case Kind.IMAGE_URL:
        return this.fileAt(block, typeByName(this.conversation.textAt(block)))
      case Kind.DOCUMENT:
      case Kind.DOCUMENT_TEXT:
      case Kind.DOCUMENT_URL:
      case Kind.DOCUMENT_PARTS:
        return this.document(new SentDocument(this.conversation, block))
    }
  }

  /**
   * The results at the start of a turn in the order of the calls before them, for servers that match them by name and
   * order. Callers may send the results of parallel calls in any order, and two calls of one function would get each
   * other's.
   */
  private resultsInOrder(turn: number): readonly number[] {
    const { turns, ids } = this
    const firstCall = turn === 0 ? this.conversation.end : turns.firstMessage(turn - 1)
    const results: { readonly block: number; readonly call: number }[] = []
    for (let place = turns.firstBlock(turn); place < turns.firstBlock(turn + 1); place++) {
      const block = turns.blockAt(place)
      if (turns.kindOf(block) !== Kind.RESULT_ID) break
      const call = ids.callOf(block)
      results.push({ block, call: call < firstCall ? Number.MAX_SAFE_INTEGER : call })
    }
    return results.sort((one, other) => one.call - other.call).map(({ block }) => block)
  }

  private text(block: number): void {
    const { json } = this
    json.part(TEXT_PART)
    this.turns.text(json, block)
    const signature = this.thoughts?.with(block)
    if (signature === undefined) return json.part(CLOSE_TEXT)
    json.text(`","thoughtSignature":${signature}}`)
  }

  /** Only the first of parallel calls carries a signature. */
  private call(block: number, isFirst: boolean): void {
    const { json, conversation } = this
    const name = conversation.next(block)
    json.part(CALL)
    this.id(block)
    json.part(NAME)
    this.names.write(json, conversation, name)
    json.part(CALL_ARGUMENTS)
    this.inputs.write(json, conversation, conversation.next(name))
    json.part(CLOSE)
    const known = this.thoughts?.with(block)
    const signature = known ?? (this.variant.wantsSignatures && isFirst ? REPLACEMENT : undefined)
    if (signature !== undefined) json.text(`,"thoughtSignature":${signature}`)
    json.part(CLOSE)
  }

  private id(block: number): void {
    const { json } = this
    if (!this.variant.callIds) return
    json.part(ID)
    this.ids.write(json, block)
    json.part(AFTER_ID)
  }

  /** Results name the function that was called. One without a call is rejected by Gemini under any name. */
  private result(block: number): void {
    const { json, names, conversation } = this
    const call = this.ids.callOf(block)
    json.part(RESULT)
    this.id(block)
    json.part(NAME)
    if (call === NO_ENTRY) json.inside(names.sent(conversation.textAt(block)))
    else names.write(json, conversation, conversation.next(call))
    json.part(conversation.isFailed(block) ? RESULT_ERROR : RESULT_TEXT)
    this.turns.wholeResult(json, block)
    json.part(CLOSE_RESULT)
  }

  private inlineData(block: number): void {
    const { json, conversation } = this
    json.part(INLINE_DATA)
    json.inside(mediaType(conversation.textAt(conversation.next(block))))
    json.entryBetween(DATA, conversation, block, CLOSE_DATA)
  }

  /** Name and context are a text before it. */
  private document(sent: SentDocument): void {
    const { json } = this
    const text = { open: TEXT_PART, close: CLOSE_TEXT }
    if (sent.kind === Kind.DOCUMENT_PARTS) return sent.writeParts(json, (entry) => this.block(entry), text)
    const isText = sent.kind === Kind.DOCUMENT_TEXT
    if (isText || sent.hasHeading) {
      json.part(TEXT_PART)
      if (isText) sent.asText(json)
      else sent.heading(json)
      json.part(CLOSE_TEXT)
      if (isText) return
      json.part(COMMA)
    }
    if (sent.kind === Kind.DOCUMENT_URL) this.fileAt(sent.entry, sent.mediaType)
    else this.inlineData(sent.entry)
  }

  private fileAt(block: number, type: string): void {
    const { json, conversation } = this
    json.part(FILE_DATA)
    json.inside(type)
    json.entryBetween(FILE_URI, conversation, block, CLOSE_DATA)
  }
}

/** The API requires a media type, which a URL does not contain. */
function typeByName(url: string): string {
  const name = /\.(png|webp|gif|heic|heif)(?:[?#]|$)/i.exec(url)?.[1]
  return `image/${name?.toLowerCase() ?? 'jpeg'}`
}

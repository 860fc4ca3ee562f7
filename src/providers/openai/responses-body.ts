/** Messages and tools as entries → the items and tools of a Responses body, from the bytes of their texts. */

import {
  AUDIO,
  type Conversation,
  FILE,
  FILE_NAME,
  IMAGE,
  IMAGE_URL,
  INPUT,
  MARKED,
  REFUSAL,
  SYSTEM,
  TEXT,
  TOOL,
  type ToolList,
  USER,
} from '../../core/conversation.ts'
import { type JsonBuilder, part } from '../../core/json-builder.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { CallPlaces } from '../call-places.ts'
import { SentCallIds } from '../sent-call-ids.ts'
import type { ToolNames } from '../tool-names.ts'
import { after, LINE_END, marked, NOTHING, PART_ENDS, writeText } from './body-texts.ts'

const OPEN_LIST = part('[')
const CLOSE_LIST = part(']')
const COMMA = part(',')
const QUOTE = part('"')
const CLOSE = part('}')
const SYSTEM_ITEM = part('{"role":"system","content":')
const DEVELOPER_ITEM = part('{"role":"developer","content":')
const USER_ITEM = part('{"role":"user","content":')
const ASSISTANT_ITEM = part('{"role":"assistant","content":')
const CALL_ITEM = part('{"type":"function_call","call_id":"')
const CALL_NAME = part('","name":"')
const CALL_ARGUMENTS = part('","arguments":"')
const RESULT_ITEM = part('{"type":"function_call_output","call_id":"')
const OUTPUT = part('","output":')
const END = part('"}')
const INPUT_TEXT = part('{"type":"input_text","text":"')
const OUTPUT_TEXT = part('{"type":"output_text","text":"')
const REFUSAL_PART = part('{"type":"refusal","refusal":"')
const IMAGE_PART = part('{"type":"input_image","image_url":"')
const DATA = part('data:')
const BASE64 = part(';base64,')
/** After the address of an image, by the index of its detail, which the API requires. */
const IMAGE_DETAILS = ['auto', 'auto', 'low', 'high'].map((detail) => part(`","detail":"${detail}"`))
const IMAGE_ENDS = [CLOSE, ...marked('', '}')]
const FILE_PART = part('{"type":"input_file"')
const FILENAME = part(',"filename":"')
const FILE_DATA = part(',"file_data":"')
const TOOL_OPENING = part('{"type":"function","name":"')
const DESCRIPTION = part('","description":"')
const PARAMETERS = part('","parameters":')
const STRICTNESS = part(',"strict":')
/** The API's own default is strict. */
const NOT_STRICT = part(',"strict":false')
/** The end of a tool, by the index of its cache mark. */
const TOOL_ENDS = [CLOSE, ...marked('', '}')]

export class ResponsesBodyWriter {
  constructor(
    private readonly json: JsonBuilder,
    private readonly names: ToolNames,
    /** Models that think take the system's texts as those of the developer. */
    private readonly hasDeveloper: boolean,
  ) {}

  /**
   * The list of items, without ids. Throws `ProviderError` `rejected` with `unsent` for sound: a request must not be
   * answered without a part of it.
   */
  input(conversation: Conversation): void {
    const { json } = this
    const ids = new SentCallIds(new CallPlaces(conversation))
    json.part(OPEN_LIST)
    for (let message = 0; message < conversation.end; ) {
      const end = conversation.endOfMessage(message)
      if (message > 0) json.part(COMMA)
      this.message(conversation, message, end, ids)
      message = end
    }
    json.part(CLOSE_LIST)
  }

  private message(conversation: Conversation, message: number, end: number, ids: SentCallIds): void {
    const { json } = this
    const first = conversation.next(message)
    switch (conversation.kindAt(message)) {
      case SYSTEM:
        json.part(this.hasDeveloper ? DEVELOPER_ITEM : SYSTEM_ITEM)
        this.text(conversation, first, end, LINE_END)
        json.part(CLOSE)
        return
      case USER:
        json.part(USER_ITEM)
        this.parts(conversation, first, end)
        json.part(CLOSE)
        return
      case TOOL:
        json.part(RESULT_ITEM)
        ids.write(json, first)
        json.part(OUTPUT)
        this.text(conversation, conversation.next(first), end, LINE_END, conversation.markIndexAt(first))
        json.part(CLOSE)
        return
      default:
        this.answer(conversation, first, end, ids)
    }
  }

  /** In the entries of an assistant's message, texts precede refusals, and these calls. */
  private answer(conversation: Conversation, first: number, end: number, ids: SentCallIds): void {
    const { json } = this
    const refusals = after(conversation, first, end, TEXT)
    const calls = after(conversation, refusals, end, REFUSAL)
    // A message without anything stays one, so that those around it do not follow each other.
    const isSpoken = first < calls || calls === end
    if (isSpoken) {
      json.part(ASSISTANT_ITEM)
      this.spoken(conversation, first, refusals, calls)
      json.part(CLOSE)
    }
    for (let call = calls; call < end; ) {
      const name = conversation.next(call)
      const written = conversation.next(name)
      if (isSpoken || call > calls) json.part(COMMA)
      json.part(CALL_ITEM)
      ids.write(json, call)
      json.part(CALL_NAME)
      this.names.write(json, conversation, name)
      json.part(CALL_ARGUMENTS)
      const [from, to] = [conversation.fromAt(written), conversation.toAt(written)]
      if (conversation.kindAt(written) === INPUT) json.json(from, to, conversation.arena)
      else json.span(from, to, conversation.arena)
      json.part(END)
      call = conversation.next(written)
    }
  }

  private spoken(conversation: Conversation, first: number, refusals: number, calls: number): void {
    const { json } = this
    let isMarked = false
    for (let at = first; at < calls; at = conversation.next(at)) isMarked ||= conversation.bitsAt(at) >= MARKED
    if (refusals === calls && !isMarked) return this.text(conversation, first, refusals, NOTHING)
    json.part(OPEN_LIST)
    for (let at = first; at < calls; at = conversation.next(at)) {
      if (at > first) json.part(COMMA)
      json.part(at < refusals ? OUTPUT_TEXT : REFUSAL_PART)
      json.entry(conversation, at)
      json.part(PART_ENDS[conversation.markIndexAt(at)] ?? NOTHING)
    }
    json.part(CLOSE_LIST)
  }

  private text(conversation: Conversation, first: number, end: number, separator: Uint8Array, mark = 0): void {
    writeText(this.json, INPUT_TEXT, conversation, first, end, separator, mark)
  }

  /** No parts are sent as an empty text, because an empty list is rejected. */
  private parts(conversation: Conversation, first: number, end: number): void {
    const { json } = this
    const isOne = first < end && conversation.next(first) === end && conversation.bitsAt(first) === TEXT
    if (first === end || isOne) return this.text(conversation, first, end, NOTHING)
    json.part(OPEN_LIST)
    for (let at = first; at < end; ) {
      if (at > first) json.part(COMMA)
      at = this.part(conversation, at, end)
    }
    json.part(CLOSE_LIST)
  }

  /** Returns the entry after the part. */
  private part(conversation: Conversation, at: number, end: number): number {
    const { json } = this
    const next = conversation.next(at)
    switch (conversation.kindAt(at)) {
      case TEXT:
        json.part(INPUT_TEXT)
        json.entry(conversation, at)
        json.part(PART_ENDS[conversation.markIndexAt(at)] ?? NOTHING)
        return next
      case IMAGE:
      case IMAGE_URL:
        return this.image(conversation, at)
      case FILE: {
        const hasName = next < end && conversation.kindAt(next) === FILE_NAME
        json.part(FILE_PART)
        if (hasName) {
          json.part(FILENAME)
          json.entry(conversation, next)
          json.part(QUOTE)
        }
        json.part(FILE_DATA)
        json.entry(conversation, at)
        json.part(END)
        return hasName ? conversation.next(next) : next
      }
      case AUDIO:
        throw new ProviderError('rejected', 'The Responses API takes no parts of type "input_audio".', { unsent: true })
      default:
        throw new Error(`a user's message has an entry of kind ${conversation.kindAt(at)}`)
    }
  }

  private image(conversation: Conversation, at: number): number {
    const { json } = this
    const type = conversation.next(at)
    const isInline = conversation.kindAt(at) === IMAGE
    json.part(IMAGE_PART)
    if (isInline) {
      json.part(DATA)
      json.entry(conversation, type)
      json.part(BASE64)
    }
    json.entry(conversation, at)
    json.part(IMAGE_DETAILS[conversation.detailIndexAt(at)] ?? NOTHING)
    json.part(IMAGE_ENDS[conversation.markIndexAt(at)] ?? NOTHING)
    return isInline ? conversation.next(type) : type
  }

  tools(tools: ToolList): void {
    const { json } = this
    json.part(OPEN_LIST)
    for (let tool = 0; tool < tools.end; tool = tools.endOfTool(tool)) {
      if (tool > 0) json.part(COMMA)
      this.tool(tools, tool)
    }
    json.part(CLOSE_LIST)
  }

  private tool(tools: ToolList, tool: number): void {
    const { json } = this
    const end = tools.endOfTool(tool)
    let isStrictnessGiven = false
    json.part(TOOL_OPENING)
    this.names.write(json, tools, tool)
    for (let entry = tools.next(tool); entry < end; entry = tools.next(entry)) {
      const kind = tools.kindAt(entry)
      isStrictnessGiven ||= kind !== TEXT && kind !== INPUT
      json.part(kind === TEXT ? DESCRIPTION : kind === INPUT ? PARAMETERS : STRICTNESS)
      json.entry(tools, entry)
    }
    if (!isStrictnessGiven) json.part(NOT_STRICT)
    json.part(TOOL_ENDS[tools.markIndexAt(tool)] ?? NOTHING)
  }
}

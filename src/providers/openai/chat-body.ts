/** Messages and tools as entries → those of a Chat Completions body, from the bytes of their texts. */

import { createHash } from 'node:crypto'
import {
  AUDIO,
  type Conversation,
  FILE,
  FILE_NAME,
  FORMAT,
  IMAGE,
  IMAGE_URL,
  INPUT,
  REFUSAL,
  SYSTEM,
  TEXT,
  TOOL,
  type ToolList,
  USER,
} from '../../core/conversation.ts'
import { type JsonBuilder, part } from '../../core/json-builder.ts'
import { NO_SIGNATURE } from '../thought-signature.ts'
import type { ToolNames } from '../tool-names.ts'
import { after, LINE_END, marked, NOTHING, PART_ENDS, writeText } from './body-texts.ts'

/** How the messages of a server differ from OpenAI's. */
export interface MessageVariant {
  /** Which messages of the assistant have thoughts, blank ones: those with calls, or all. */
  readonly thoughts?: 'with calls' | 'always'
  /** Whether the first call of each message has a signature of thoughts. */
  readonly signatures?: true
  /** Mistral's ids of calls, contents and prefixes. */
  readonly isMistral?: true
}

/** OpenAI's own. */
export const USUAL: MessageVariant = {}

const OPEN_LIST = part('[')
const CLOSE_LIST = part(']')
const COMMA = part(',')
const CLOSE = part('}')
const QUOTE = part('"')
const NULL = part('null')
const SYSTEM_MESSAGE = part('{"role":"system","content":')
const USER_MESSAGE = part('{"role":"user","content":')
const ASSISTANT_MESSAGE = part('{"role":"assistant","content":')
const REFUSED = part(',"refusal":"')
const THOUGHTS = part(',"reasoning_content":" "')
const PREFIX = part(',"prefix":true')
const TOOL_MESSAGE = part('{"role":"tool","tool_call_id":"')
const RESULT = part('","content":')
const TEXT_PART = part('{"type":"text","text":"')
const IMAGE_PART = part('{"type":"image_url","image_url":{"url":"')
const DATA = part('data:')
const BASE64 = part(';base64,')
/** After the address of an image, by the index of its detail. */
const IMAGE_DETAILS = ['"}', '","detail":"auto"}', '","detail":"low"}', '","detail":"high"}'].map(part)
const IMAGE_ENDS = [CLOSE, ...marked('', '}')]
const AUDIO_PART = part('{"type":"input_audio","input_audio":{"data":"')
const AUDIO_FORMAT = part('","format":"')
const FILE_PART = part('{"type":"file","file":{')
const FILENAME = part('"filename":"')
const FILE_DATA = part('"file_data":"')
const AFTER_NAME = part('",')
const CALLS = part(',"tool_calls":[')
const CALL = part('{"id":"')
const CALL_NAME = part('","type":"function","function":{"name":"')
const CALL_ARGUMENTS = part('","arguments":"')
const END_OF_BOTH = part('"}}')
const SIGNATURE = part(`"},"extra_content":{"google":{"thought_signature":"${NO_SIGNATURE}"}}}`)
const TOOL_OPENING = part('{"type":"function","function":{"name":"')
const DESCRIPTION = part('","description":"')
const PARAMETERS = part('","parameters":')
const STRICTNESS = part(',"strict":')
/** The end of a tool, by the index of its cache mark. */
const TOOL_ENDS = [part('}}'), ...marked('}', '}')]

export class ChatBodyWriter {
  constructor(
    private readonly json: JsonBuilder,
    private readonly names: ToolNames,
    private readonly variant: MessageVariant,
  ) {}

  /** The list of messages. In the entries of an assistant's message, texts precede refusals, and these calls. */
  messages(conversation: Conversation): void {
    const { json } = this
    const isOwnForm = conversation.form === 'chat' && this.variant === USUAL && !this.names.areChanged
    json.part(OPEN_LIST)
    for (let message = 0; message < conversation.end; ) {
      if (message > 0) json.part(COMMA)
      if (isOwnForm && conversation.isExact(message)) message = this.asTheyCame(conversation, message)
      else {
        const end = conversation.endOfMessage(message)
        this.message(conversation, message, end)
        message = end
      }
    }
    json.part(CLOSE_LIST)
  }

  /** Exact messages that follow each other, with what is between them. Returns the next message. */
  private asTheyCame(conversation: Conversation, first: number): number {
    let last = first
    let next = conversation.endOfMessage(first)
    while (next < conversation.end && conversation.isExact(next)) {
      last = next
      next = conversation.endOfMessage(next)
    }
    this.json.span(conversation.fromAt(first), conversation.toAt(last), conversation.arena)
    return next
  }

  private message(conversation: Conversation, message: number, end: number): void {
    const { json } = this
    const first = conversation.next(message)
    switch (conversation.kindAt(message)) {
      case SYSTEM:
        json.part(SYSTEM_MESSAGE)
        this.text(conversation, first, end, LINE_END)
        break
      case USER:
        json.part(USER_MESSAGE)
        this.parts(conversation, first, end)
        break
      case TOOL:
        json.part(TOOL_MESSAGE)
        this.id(conversation, first)
        json.part(RESULT)
        this.text(conversation, conversation.next(first), end, LINE_END, conversation.markIndexAt(first))
        break
      default:
        this.answer(conversation, first, end)
    }
    json.part(CLOSE)
  }

  private answer(conversation: Conversation, first: number, end: number): void {
    const { json, variant } = this
    const refusals = after(conversation, first, end, TEXT)
    const calls = after(conversation, refusals, end, REFUSAL)
    json.part(ASSISTANT_MESSAGE)
    this.answerText(conversation, first, refusals, calls, end)
    if (calls > refusals && variant.isMistral === undefined) {
      json.part(REFUSED)
      for (let entry = refusals; entry < calls; entry = conversation.next(entry)) json.entry(conversation, entry)
      json.part(QUOTE)
    }
    const hasCalls = calls < end
    if (hasCalls) this.calls(conversation, calls, end)
    if (variant.thoughts === 'always' || (hasCalls && variant.thoughts !== undefined)) json.part(THOUGHTS)
    if (variant.isMistral === true && !hasCalls && end === conversation.end) json.part(PREFIX)
  }

  private answerText(conversation: Conversation, first: number, refusals: number, calls: number, end: number): void {
    if (refusals > first) return this.text(conversation, first, refusals, NOTHING)
    // Mistral has no refusals, and takes no null.
    if (this.variant.isMistral === true) return this.text(conversation, refusals, calls, NOTHING)
    if (refusals === end) return this.text(conversation, first, first, NOTHING)
    this.json.part(NULL)
  }

  private calls(conversation: Conversation, calls: number, end: number): void {
    const { json } = this
    json.part(CALLS)
    for (let call = calls; call < end; ) {
      const name = conversation.next(call)
      const written = conversation.next(name)
      if (call > calls) json.part(COMMA)
      json.part(CALL)
      this.id(conversation, call)
      json.part(CALL_NAME)
      this.names.write(json, conversation, name)
      json.part(CALL_ARGUMENTS)
      const [from, to] = [conversation.fromAt(written), conversation.toAt(written)]
      if (conversation.kindAt(written) === INPUT) json.json(from, to, conversation.arena)
      else json.span(from, to, conversation.arena)
      json.part(this.variant.signatures === true && call === calls ? SIGNATURE : END_OF_BOTH)
      call = conversation.next(written)
    }
    json.part(CLOSE_LIST)
  }

  private id(conversation: Conversation, entry: number): void {
    if (this.variant.isMistral === true) this.json.inside(mistralId(conversation.textAt(entry)))
    else this.json.entry(conversation, entry)
  }

  private text(conversation: Conversation, first: number, end: number, separator: Uint8Array, mark = 0): void {
    writeText(this.json, TEXT_PART, conversation, first, end, separator, mark)
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
        json.part(TEXT_PART)
        json.entry(conversation, at)
        json.part(PART_ENDS[conversation.markIndexAt(at)] ?? NOTHING)
        return next
      case IMAGE:
      case IMAGE_URL:
        return this.image(conversation, at)
      case AUDIO: {
        const hasFormat = next < end && conversation.kindAt(next) === FORMAT
        json.part(AUDIO_PART)
        json.entry(conversation, at)
        if (hasFormat) json.part(AUDIO_FORMAT)
        if (hasFormat) json.entry(conversation, next)
        json.part(END_OF_BOTH)
        return hasFormat ? conversation.next(next) : next
      }
      case FILE: {
        const hasName = next < end && conversation.kindAt(next) === FILE_NAME
        json.part(FILE_PART)
        if (hasName) json.part(FILENAME)
        if (hasName) json.entry(conversation, next)
        if (hasName) json.part(AFTER_NAME)
        json.part(FILE_DATA)
        json.entry(conversation, at)
        json.part(END_OF_BOTH)
        return hasName ? conversation.next(next) : next
      }
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

  /** A list of tools, of which those with a name in `offered` are written if it is given. */
  tools(tools: ToolList, offered?: ReadonlySet<string>): void {
    const { json } = this
    if (tools.isExact && tools.form === 'chat' && !this.names.areChanged && offered === undefined)
      return json.span(tools.exactFrom, tools.exactTo, tools.arena)
    json.part(OPEN_LIST)
    let written = 0
    for (let tool = 0; tool < tools.end; tool = tools.endOfTool(tool)) {
      if (offered?.has(this.names.sent(tools.textAt(tool))) === false) continue
      if (written++ > 0) json.part(COMMA)
      this.tool(tools, tool)
    }
    json.part(CLOSE_LIST)
  }

  private tool(tools: ToolList, tool: number): void {
    const { json } = this
    const end = tools.endOfTool(tool)
    json.part(TOOL_OPENING)
    this.names.write(json, tools, tool)
    for (let entry = tools.next(tool); entry < end; entry = tools.next(entry)) {
      const kind = tools.kindAt(entry)
      json.part(kind === TEXT ? DESCRIPTION : kind === INPUT ? PARAMETERS : STRICTNESS)
      json.entry(tools, entry)
    }
    json.part(TOOL_ENDS[tools.markIndexAt(tool)] ?? NOTHING)
  }
}

const OWN_ID = /^[A-Za-z0-9]{9}$/

/** Mistral accepts nine letters and digits alone. An id is mapped to the same id in every turn. */
function mistralId(id: string): string {
  return OWN_ID.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, 9)
}

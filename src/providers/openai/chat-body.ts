/** Messages and tools as entries → those of a Chat Completions body, from the bytes of their texts. */

import { createHash } from 'node:crypto'
import type { Conversation } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import {
  CLOSE,
  CLOSE_LIST,
  COMMA,
  type JsonBuilder,
  LINE_END,
  NOTHING,
  OPEN_LIST,
  part,
  QUOTE,
} from '../../core/json-builder.ts'
import type { EntryThoughts } from '../../core/thoughts.ts'
import type { ToolList } from '../../core/tool-list.ts'
import { markedEnds } from '../cache-marks.ts'
import { cannotTake, type SentDocument } from '../documents.ts'
import { NO_SIGNATURE } from '../thought-signature.ts'
import type { ToolNames } from '../tool-names.ts'
import { NO_ENTRY } from '../turns.ts'
import { after, OpenaiBodyWriter, PART_ENDS } from './body-writer.ts'

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

const NULL = part('null')
const SYSTEM_MESSAGE = part('{"role":"system","content":')
const USER_MESSAGE = part('{"role":"user","content":')
const ASSISTANT_MESSAGE = part('{"role":"assistant","content":')
const REFUSED = part(',"refusal":"')
const THOUGHTS = part(',"reasoning_content":" "')
const PREFIX = part(',"prefix":true')
const TOOL_MESSAGE = part('{"role":"tool","tool_call_id":"')
const RESULT = part('","content":')
const FORMS = {
  text: part('{"type":"text","text":"'),
  image: part('{"type":"image_url","image_url":{"url":"'),
  // Of `original`, which only Responses has, the nearest.
  imageDetails: ['', 'auto', 'low', 'high', 'high'].map((detail) =>
    part(detail === '' ? '"}' : `","detail":"${detail}"}`),
  ),
  file: part('{"type":"file","file":{'),
  fileEnds: [part('"}}'), ...markedEnds('"}', '}')],
  form: 'chat' as const,
  tool: part('{"type":"function","function":{"name":"'),
  unknownStrictness: NOTHING,
  toolEnds: [part('}}'), ...markedEnds('}', '}')],
}
const MISTRAL_DOCUMENT = part('{"type":"document_url","document_url":"')
const MISTRAL_NAME = part('","document_name":"')
const AUDIO_PART = part('{"type":"input_audio","input_audio":{"data":"')
const AUDIO_FORMAT = part('","format":"')
const CALLS = part(',"tool_calls":[')
const CALL = part('{"id":"')
const CALL_NAME = part('","type":"function","function":{"name":"')
const FREE_CALL_NAME = part('","type":"custom","custom":{"name":"')
const FREE_CALL_INPUT = part('","input":"')
const CALL_ARGUMENTS = part('","arguments":"')
const END_OF_BOTH = part('"}}')
const SIGNATURE = part(`"},"extra_content":{"google":{"thought_signature":"${NO_SIGNATURE}"}}}`)

export class ChatBodyWriter extends OpenaiBodyWriter {
  /** Images and documents of results, for the next message of the user: a tool's message has only text. */
  private media: number[] | undefined

  constructor(
    json: JsonBuilder,
    names: ToolNames,
    private readonly variant: MessageVariant,
    private readonly thoughts: EntryThoughts | undefined,
    /** Tools that take a text, if the server has such. */
    free?: ReadonlySet<string>,
  ) {
    super(json, names, FORMS, free)
  }

  private freeCalls: ReadonlySet<string> | undefined

  /** The list of messages. In the entries of an assistant's message, texts precede refusals, and these calls. */
  messages(conversation: Conversation): void {
    const { json } = this
    this.freeCalls = this.callsOf(conversation)
    const isOwnForm =
      conversation.form === 'chat' && this.variant === USUAL && !this.names.areChanged && this.thoughts === undefined
    json.part(OPEN_LIST)
    const form = this.hasOneForm(conversation) ? 'chat' : undefined
    if (form !== undefined && conversation.sent !== undefined) {
      this.allContinued(conversation, form)
      json.part(CLOSE_LIST)
      return
    }
    for (let message = 0; message < conversation.end; ) {
      if (message > 0) json.part(COMMA)
      if (this.media !== undefined && conversation.kindAt(message) !== Kind.TOOL) {
        const isMerged = conversation.kindAt(message) === Kind.USER
        const end = conversation.endOfMessage(message)
        this.mediaOfResults(conversation, isMerged ? conversation.next(message) : end, end)
        if (isMerged) message = end
        continue
      }
      if (isOwnForm && conversation.isExact(message)) message = this.asTheyCame(conversation, message)
      else {
        const end = conversation.endOfMessage(message)
        this.message(conversation, message, end)
        message = end
      }
    }
    if (this.media !== undefined) {
      json.part(COMMA)
      this.mediaOfResults(conversation, conversation.end, conversation.end)
    }
    json.part(CLOSE_LIST)
  }

  private allContinued(conversation: Conversation, form: 'chat'): void {
    this.continued(conversation, form, (message) => {
      const end = conversation.endOfMessage(message)
      this.message(conversation, message, end)
      return end
    })
  }

  /** Whether the same entries are always written in the same way: no images of results go to a later message. */
  private hasOneForm(conversation: Conversation): boolean {
    const isUsual = this.variant === USUAL && !this.names.areChanged && this.thoughts === undefined
    return isUsual && this.freeCalls === undefined && !conversation.hasMedia && !conversation.has(Kind.OWN_BLOCK)
  }

  /** A message of the user with the images and documents of the results before it, and then these parts. */
  private mediaOfResults(conversation: Conversation, first: number, end: number): void {
    const { json, media = [] } = this
    json.part(USER_MESSAGE)
    json.part(OPEN_LIST)
    for (const [index, entry] of media.entries()) {
      if (index > 0) json.part(COMMA)
      this.part(conversation, entry, conversation.endOfPart(entry))
    }
    this.media = undefined
    for (let at = first; at < end; ) {
      json.part(COMMA)
      at = this.part(conversation, at, end)
    }
    json.part(CLOSE_LIST)
    json.part(CLOSE)
  }

  /** The texts of a result; its images and documents are put aside. */
  private result(conversation: Conversation, first: number, end: number, mark: number): void {
    let last = first
    while (last < end && conversation.kindAt(last) === Kind.TEXT) last = conversation.next(last)
    if (last === end) return this.text(conversation, first, end, LINE_END, mark)
    const { json } = this
    const texts: string[] = []
    let sent = mark
    for (let at = first; at < end; at = conversation.endOfPart(at)) {
      if (conversation.kindAt(at) !== Kind.TEXT) {
        this.media ??= []
        this.media.push(at)
      } else {
        texts.push(conversation.textAt(at))
        sent = mark > 0 ? mark : conversation.markIndexAt(at) || sent
      }
    }
    const text = JSON.stringify(texts.join('\n'))
    if (sent === 0 || texts.length === 0) return json.text(text)
    json.part(OPEN_LIST)
    json.part(FORMS.text)
    json.text(text.slice(1, -1))
    json.part(PART_ENDS[sent] ?? NOTHING)
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
      case Kind.SYSTEM:
        json.part(SYSTEM_MESSAGE)
        this.text(conversation, first, end, LINE_END)
        break
      case Kind.USER:
        json.part(USER_MESSAGE)
        this.parts(conversation, first, end)
        break
      case Kind.TOOL:
        json.part(TOOL_MESSAGE)
        this.id(conversation, first)
        json.part(RESULT)
        this.result(conversation, conversation.next(first), end, conversation.markIndexAt(first))
        break
      default:
        this.answer(conversation, message, first, end)
    }
    json.part(CLOSE)
  }

  private answer(conversation: Conversation, message: number, first: number, end: number): void {
    const { json, variant } = this
    const refusals = after(conversation, first, end, Kind.TEXT)
    const calls = after(conversation, refusals, end, Kind.REFUSAL)
    json.part(ASSISTANT_MESSAGE)
    this.answerText(conversation, first, refusals, calls, end)
    if (calls > refusals && variant.isMistral === undefined) {
      json.part(REFUSED)
      for (let entry = refusals; entry < calls; entry = conversation.next(entry)) json.entry(conversation, entry)
      json.part(QUOTE)
    }
    const hasCalls = calls < end
    if (hasCalls) this.calls(conversation, calls, end)
    const thoughts = this.thoughts?.with(message)
    // As members of the message: an object without its braces.
    if (thoughts !== undefined && (hasCalls || variant.thoughts === 'always')) json.text(`,${thoughts.slice(1, -1)}`)
    else if (variant.thoughts === 'always' || (hasCalls && variant.thoughts !== undefined)) json.part(THOUGHTS)
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
      const isFree = this.freeCalls?.has(conversation.textAt(call)) === true
      json.part(isFree ? FREE_CALL_NAME : CALL_NAME)
      this.names.write(json, conversation, name)
      json.part(isFree ? FREE_CALL_INPUT : CALL_ARGUMENTS)
      if (isFree) this.freeText(conversation, written)
      else this.argumentsOf(conversation, written)
      json.part(this.variant.signatures === true && call === calls ? SIGNATURE : END_OF_BOTH)
      call = conversation.next(written)
    }
    json.part(CLOSE_LIST)
  }

  private id(conversation: Conversation, entry: number): void {
    if (this.variant.isMistral === true) this.json.inside(mistralId(conversation.textAt(entry)))
    else this.json.entry(conversation, entry)
  }

  /** Throws `ProviderError` `rejected` with `unsent` for an address: only Mistral takes those here. */
  protected override documentFile(sent: SentDocument, conversation: Conversation, mark: number): void {
    const { json } = this
    if (this.variant.isMistral !== true) {
      if (sent.kind === Kind.DOCUMENT_URL)
        throw cannotTake('This model takes documents as base64 data only, not by address.')
      return super.documentFile(sent, conversation, mark)
    }
    json.part(MISTRAL_DOCUMENT)
    if (sent.kind !== Kind.DOCUMENT_URL) this.dataHead(sent)
    json.entry(conversation, sent.entry)
    if (sent.nameEntry !== NO_ENTRY) {
      json.part(MISTRAL_NAME)
      json.entry(conversation, sent.nameEntry)
    }
    json.part(PART_ENDS[0] ?? NOTHING)
  }

  protected audio(conversation: Conversation, at: number, end: number): number {
    const { json } = this
    const next = conversation.next(at)
    const hasFormat = next < end && conversation.kindAt(next) === Kind.FORMAT
    json.part(AUDIO_PART)
    json.entry(conversation, at)
    if (hasFormat) json.part(AUDIO_FORMAT)
    if (hasFormat) json.entry(conversation, next)
    json.part(END_OF_BOTH)
    return hasFormat ? conversation.next(next) : next
  }

  override tools(tools: ToolList, offered?: ReadonlySet<string>): void {
    if (tools.isExact && tools.form === 'chat' && !this.names.areChanged && offered === undefined)
      return this.json.span(tools.exactFrom, tools.exactTo, tools.arena)
    super.tools(tools, offered)
  }
}

const OWN_ID = /^[A-Za-z0-9]{9}$/

/** Mistral accepts nine letters and digits alone. An id is mapped to the same id in every turn. */
function mistralId(id: string): string {
  return OWN_ID.test(id) ? id : createHash('sha256').update(id).digest('hex').slice(0, 9)
}

/** What the bodies of Chat Completions and Responses have in common: texts, parts of a user's message, and tools. */

import type { Conversation, WireForm } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { MARKED, markOf } from '../../core/entry-marks.ts'
import { isObject, type JsonObject, type JsonValue, objectOf, parseObject, stringOf } from '../../core/json.ts'
import {
  CLOSE,
  CLOSE_LIST,
  COMMA,
  type JsonBuilder,
  NOTHING,
  OPEN_LIST,
  type Part,
  part,
  QUOTE,
} from '../../core/json-builder.ts'
import type { SentItems, SharedIds } from '../../core/sent-items.ts'
import { NO_SHARED_BYTES } from '../../core/shared-bytes.ts'
import type { ToolList } from '../../core/tool-list.ts'
import { markedEnds } from '../cache-marks.ts'
import { SentDocument } from '../documents.ts'
import type { ToolNames } from '../tool-names.ts'
import { NO_ENTRY } from '../turns.ts'

/** The end of a part, by the index of its cache mark. */
export const PART_ENDS: readonly Part[] = [part('"}'), ...markedEnds('"', '}')]
const DATA = part('data:')
const BASE64 = part(';base64,')
const IMAGE_ENDS = [CLOSE, ...markedEnds('', '}')]
const FILE_URL = part('"file_url":"')
const FILE_NAME_MEMBER = part('"filename":"')
const AFTER_NAME = part('",')
const FILE_DATA = part('"file_data":"')
const DESCRIPTION = part('","description":"')
const PARAMETERS = part('","parameters":')
const STRICTNESS = part(',"strict":')

/** What differs between the two APIs: how parts and tools begin and end. */
interface PartForms {
  readonly text: Part
  readonly image: Part
  /** After the address of an image, by the index of its detail. */
  readonly imageDetails: readonly Part[]
  readonly file: Part
  /** By the index of the cache mark. */
  readonly fileEnds: readonly Part[]
  /** The form of the conversations whose files are sent as they came. */
  readonly form: Conversation['form']
  readonly tool: Part
  /** For a tool that does not say whether it is strict. */
  readonly unknownStrictness: Part
  /** By the index of the cache mark. */
  readonly toolEnds: readonly Part[]
}

/** Whether a message begins, or the conversation ends, so many entries after the first that turns share. */
function isPlace(conversation: Conversation, end: number): boolean {
  const entry = (conversation.sent?.first ?? 0) + end
  return end > 0 && (entry === conversation.end || conversation.kindAt(entry) <= Kind.TOOL)
}

/** What an earlier turn has sent of the conversation in this form. */
export function writtenBefore(conversation: Conversation, form: string): ReturnType<SentItems['written']> {
  const written = conversation.sent?.written(form)
  return written !== undefined && isPlace(conversation, written.end) ? written : undefined
}

function callsIn(conversation: Conversation, end: number): number {
  let calls = 0
  for (let entry = 0; entry < end; entry = conversation.next(entry))
    if (conversation.kindAt(entry) === Kind.CALL_ID) calls++
  return calls
}

export abstract class OpenaiBodyWriter {
  constructor(
    protected readonly json: JsonBuilder,
    protected readonly names: ToolNames,
    private readonly forms: PartForms,
    /** The names of tools that are written as the caller has defined them. Absent: none. */
    protected readonly freeTools?: ReadonlySet<string>,
  ) {}

  /**
   * Writes all messages, `write` one of them at a time. Those of an earlier turn that a provider got in the same form
   * are sent as they were written then. `form`: undefined if the same entries may be written in another way. `ids`:
   * those of all calls, if the form depends on them.
   */
  protected continued(
    conversation: Conversation,
    form: string | undefined,
    write: (message: number) => number,
    ids?: SharedIds,
  ): void {
    const { json } = this
    const { sent } = conversation
    const first = sent?.first ?? 0
    let message = 0
    const writeTo = (end: number) => {
      while (message < end) {
        if (message > 0) json.part(COMMA)
        message = write(message)
      }
    }
    writeTo(first)
    if (first === conversation.end) return
    if (first > 0) json.part(COMMA)
    const begin = form === undefined || sent === undefined || conversation.isMarked ? undefined : json.nextPiece()
    if (form === undefined || sent === undefined || begin === undefined) {
      message = write(message)
      return writeTo(conversation.end)
    }
    let before = writtenBefore(conversation, form)
    if (before !== undefined) for (const piece of before.bytes.pieces()) json.unchanged(piece)
    else {
      const end = isPlace(conversation, sent.sharedEnd) ? sent.sharedEnd : conversation.end - first
      message = write(message)
      writeTo(first + end)
      const shared = ids?.first(callsIn(conversation, first + end))
      before = { form, end, bytes: NO_SHARED_BYTES.with(json.since(begin)), ids: shared }
      if (end === sent.sharedEnd) sent.share(before)
    }
    message = first + before.end
    const added = json.nextPiece() ?? begin
    writeTo(conversation.end)
    sent.keep({ form, end: conversation.end - first, bytes: before.bytes.with(json.since(added)), ids })
  }

  /** Writes a part with sound, and returns the entry after it. */
  protected abstract audio(conversation: Conversation, at: number, end: number): number

  /** No parts are sent as an empty text, because an empty list is rejected. */
  protected parts(conversation: Conversation, first: number, end: number): void {
    const { json } = this
    const isOne = first < end && conversation.next(first) === end && conversation.bitsAt(first) === Kind.TEXT
    if (first === end || isOne) return this.text(conversation, first, end, NOTHING)
    json.part(OPEN_LIST)
    for (let at = first; at < end; ) {
      if (at > first) json.part(COMMA)
      at = this.part(conversation, at, end)
    }
    json.part(CLOSE_LIST)
  }

  /** Returns the entry after the part. */
  protected part(conversation: Conversation, at: number, end: number): number {
    const { json } = this
    switch (conversation.kindAt(at)) {
      case Kind.TEXT:
        json.entryBetween(this.forms.text, conversation, at, PART_ENDS[conversation.markIndexAt(at)] ?? NOTHING)
        return conversation.next(at)
      case Kind.IMAGE:
      case Kind.IMAGE_URL:
        return this.image(conversation, at)
      case Kind.AUDIO:
        return this.audio(conversation, at, end)
      case Kind.FILE:
        return this.file(conversation, at, end)
      case Kind.DOCUMENT:
      case Kind.DOCUMENT_TEXT:
      case Kind.DOCUMENT_URL:
      case Kind.DOCUMENT_PARTS:
        this.document(new SentDocument(conversation, at), conversation)
        return conversation.endOfPart(at)
      default:
        throw new Error(`a user's message has an entry of kind ${conversation.kindAt(at)}`)
    }
  }

  private image(conversation: Conversation, at: number): number {
    const { json, forms } = this
    const type = conversation.next(at)
    const isInline = conversation.kindAt(at) === Kind.IMAGE
    json.part(forms.image)
    if (isInline) {
      json.entryBetween(DATA, conversation, type, BASE64)
    }
    json.entry(conversation, at)
    json.part(forms.imageDetails[conversation.detailIndexAt(at)] ?? NOTHING)
    json.part(IMAGE_ENDS[conversation.markIndexAt(at)] ?? NOTHING)
    return isInline ? conversation.next(type) : type
  }

  private file(conversation: Conversation, at: number, end: number): number {
    const { json, forms } = this
    const next = conversation.next(at)
    const hasName = next < end && conversation.kindAt(next) === Kind.FILE_NAME
    json.part(forms.file)
    if (hasName) {
      json.entryBetween(FILE_NAME_MEMBER, conversation, next, AFTER_NAME)
    }
    json.entryBetween(FILE_DATA, conversation, at, forms.fileEnds[0] ?? NOTHING)
    return hasName ? conversation.next(next) : next
  }

  /** One of text is a text part, with its name and context; so are these before one of texts and images. */
  private document(sent: SentDocument, conversation: Conversation): void {
    const { json, forms } = this
    const mark = conversation.markIndexAt(sent.entry)
    if (sent.kind === Kind.DOCUMENT_TEXT) {
      json.part(forms.text)
      sent.asText(json)
      return json.part(PART_ENDS[mark] ?? NOTHING)
    }
    if (sent.kind === Kind.DOCUMENT_PARTS)
      // The mark of such a document is that of its last part.
      return sent.writeParts(json, (entry) => this.part(conversation, entry, conversation.endOfPart(entry)), {
        open: forms.text,
        close: PART_ENDS[0] ?? NOTHING,
      })
    if (sent.contextEntry !== NO_ENTRY) {
      json.entryBetween(forms.text, conversation, sent.contextEntry, PART_ENDS[0] ?? NOTHING)
      json.part(COMMA)
    }
    this.documentFile(sent, conversation, mark)
  }

  /** One in base64, or by its address. */
  protected documentFile(sent: SentDocument, conversation: Conversation, mark: number): void {
    const { json, forms } = this
    json.part(forms.file)
    const name = conversation.form === forms.form ? sent.title : sent.fileName
    if (name !== undefined) {
      json.part(FILE_NAME_MEMBER)
      json.inside(name)
      json.part(AFTER_NAME)
    }
    if (sent.kind === Kind.DOCUMENT_URL) json.part(FILE_URL)
    else {
      json.part(FILE_DATA)
      this.dataHead(sent)
    }
    json.entry(conversation, sent.entry)
    json.part(forms.fileEnds[mark] ?? NOTHING)
  }

  /** The head of a data URL. */
  protected dataHead(sent: SentDocument): void {
    const { json } = this
    json.part(DATA)
    json.inside(sent.mediaType)
    json.part(BASE64)
  }

  /**
   * One string, which every server accepts. Parts only to carry cache marks, and then split only after a mark: in the
   * next turn the mark has moved, and the text before it must be the same bytes. `mark`: the index of a mark on the
   * whole text.
   */
  protected text(conversation: Conversation, first: number, end: number, separator: Part, mark = 0): void {
    const { json } = this
    const { text } = this.forms
    let isMarked = mark > 0 && first < end
    for (let at = first; at < end; at = conversation.next(at)) isMarked ||= conversation.bitsAt(at) >= MARKED
    if (isMarked) json.part(OPEN_LIST)
    json.part(isMarked ? text : QUOTE)
    for (let at = first; at < end; ) {
      const next = conversation.next(at)
      const isLast = next === end
      if (at > first) json.part(separator)
      json.entry(conversation, at)
      const own = isLast && mark > 0 ? mark : conversation.markIndexAt(at)
      // Only a part with a mark ends before the whole text does.
      if (own > 0 || (isMarked && isLast)) json.part(PART_ENDS[own] ?? NOTHING)
      if (own > 0 && !isLast) {
        json.part(COMMA)
        json.part(text)
      }
      at = next
    }
    json.part(isMarked ? CLOSE_LIST : QUOTE)
  }

  /** The arguments of a call, as the inside of a string. */
  protected argumentsOf(conversation: Conversation, written: number): void {
    const [from, to] = [conversation.fromAt(written), conversation.toAt(written)]
    if (conversation.kindAt(written) === Kind.INPUT) this.json.json(from, to, conversation.arena)
    else this.json.span(from, to, conversation.arena)
  }

  /**
   * A list of tools, of which those with a name in `offered` are written if it is given. `own`: definitions of others,
   * which are written as they are.
   */
  tools(tools: ToolList, offered?: ReadonlySet<string>, own: readonly string[] = []): void {
    const { json } = this
    json.part(OPEN_LIST)
    let written = 0
    for (let tool = 0; tool < tools.end; tool = tools.endOfTool(tool)) {
      if (offered?.has(this.names.sent(tools.textAt(tool))) === false) continue
      if (written++ > 0) json.part(COMMA)
      this.tool(tools, tool)
    }
    for (const definition of own) {
      if (written++ > 0) json.part(COMMA)
      json.text(definition)
    }
    json.part(CLOSE_LIST)
  }

  /** The ids of the calls of tools that take a text; absent if there are none, so that no id is decoded for nothing. */
  protected callsOf(conversation: Conversation): ReadonlySet<string> | undefined {
    if (this.freeTools === undefined || this.freeTools.size === 0) return undefined
    const calls = new Set<string>()
    for (let entry = 0; entry < conversation.end; entry = conversation.next(entry)) {
      if (conversation.kindAt(entry) !== Kind.CALL_ID) continue
      const isFree = this.freeTools.has(conversation.textAt(conversation.next(entry)))
      if (isFree) calls.add(conversation.textAt(entry))
    }
    return calls
  }

  /** The text of a call whose tool takes one, from its arguments; these, if they have none. */
  protected freeText(conversation: Conversation, entry: number): void {
    const isJson = conversation.kindAt(entry) === Kind.INPUT
    const { arena } = conversation
    const json = isJson
      ? arena.writtenAt(conversation.fromAt(entry), conversation.toAt(entry))
      : conversation.textAt(entry)
    const input = parseObject(json)?.['input']
    this.json.inside(typeof input === 'string' ? input : json)
  }

  private freeTool(tools: ToolList, tool: number): void {
    const sent = this.names.sent(tools.textAt(tool))
    this.json.text(JSON.stringify(freeDefinition(tools, tool, sent, this.forms.form)))
  }

  private tool(tools: ToolList, tool: number): void {
    const { json, forms } = this
    const end = tools.endOfTool(tool)
    if (this.freeTools?.has(tools.textAt(tool)) === true) return this.freeTool(tools, tool)
    let isStrictnessGiven = false
    json.part(forms.tool)
    this.names.write(json, tools, tool)
    for (let entry = tools.next(tool); entry < end; entry = tools.next(entry)) {
      const kind = tools.kindAt(entry)
      if (kind === Kind.FREE_FORM) continue
      isStrictnessGiven ||= kind !== Kind.TEXT && kind !== Kind.INPUT
      json.part(kind === Kind.TEXT ? DESCRIPTION : kind === Kind.INPUT ? PARAMETERS : STRICTNESS)
      json.entry(tools, entry)
    }
    if (!isStrictnessGiven) json.part(forms.unknownStrictness)
    json.part(forms.toolEnds[tools.markIndexAt(tool)] ?? NOTHING)
  }
}

/** The first entry from `from` on that is not of this kind, or `end`. */
export function after(conversation: Conversation, from: number, end: number, kind: number): number {
  let entry = from
  while (entry < end && conversation.kindAt(entry) === kind) entry = conversation.next(entry)
  return entry
}

/**
 * A tool that takes a text in the form of an API, of the members that it has there: what else a caller has written into
 * its definition is rejected.
 */
function freeDefinition(tools: ToolList, tool: number, sentName: string, form: WireForm): JsonObject {
  const entry = tools.memberOf(tool, Kind.FREE_FORM)
  const written = objectOf(tools.arena.valueAt(tools.fromAt(entry), tools.toAt(entry))) ?? {}
  const { description, format } = tools.form === 'chat' ? (objectOf(written['custom']) ?? {}) : written
  const defined = { name: sentName, description: stringOf(description), format: formatOf(format, form) }
  const mark = markOf(tools.bitsAt(tool))
  const marked = mark && { cache_control: { type: 'ephemeral', ...mark } }
  if (form !== 'responses') return { type: 'custom', custom: defined, ...marked }
  const { defer_loading, allowed_callers } = tools.form === 'responses' ? written : {}
  return { type: 'custom', ...defined, defer_loading, allowed_callers, ...marked }
}

/** The grammar of Chat Completions is in an object of its own. */
function formatOf(format: JsonValue | undefined, form: WireForm): JsonObject | undefined {
  if (!isObject(format)) return undefined
  if (format['type'] !== 'grammar') return { type: 'text' }
  const { syntax, definition } = objectOf(format['grammar']) ?? format
  return { type: 'grammar', ...(form === 'responses' ? { syntax, definition } : { grammar: { syntax, definition } }) }
}

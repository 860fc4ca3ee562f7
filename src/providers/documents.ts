/** The documents of a conversation, as providers write them. */

import { decodedUtf8 } from '../core/bytes.ts'
import type { Conversation } from '../core/conversation.ts'
import { extensionOf, isTextType, typeByExtension } from '../core/document-types.ts'
import * as Kind from '../core/entry-kinds.ts'
import { COMMA, type JsonBuilder, LINE_END, type Part, part } from '../core/json-builder.ts'
import { ProviderError } from '../core/provider-error.ts'
import { NO_ENTRY } from './turns.ts'

const HEADING = part('[document: ')
const CLOSE_HEADING = part(']')

/** How a text begins and ends. */
interface TextParts {
  readonly open: Part
  readonly close: Part
}

/** One document, by its first entry. */
export class SentDocument {
  readonly kind: number
  /** The entry of its name or title, and that of the caller's note about it; `NO_ENTRY` for none. */
  readonly nameEntry: number
  readonly contextEntry: number

  constructor(
    private readonly conversation: Conversation,
    readonly entry: number,
  ) {
    this.kind = conversation.kindAt(entry)
    this.nameEntry = conversation.companionOf(entry, Kind.FILE_NAME)
    this.contextEntry = conversation.companionOf(entry, Kind.CONTEXT)
  }

  /** Its name; undefined if it has none. */
  get title(): string | undefined {
    return this.nameEntry === NO_ENTRY ? undefined : this.conversation.textAt(this.nameEntry)
  }

  /** The media type; for a document by address that of its name, else PDF. */
  get mediaType(): string {
    const { conversation, entry, kind } = this
    if (kind === Kind.DOCUMENT_TEXT) return 'text/plain'
    const type = conversation.companionOf(entry, Kind.MEDIA_TYPE)
    if (type !== NO_ENTRY) return conversation.textAt(type)
    return typeByExtension(conversation.textAt(entry)) ?? 'application/pdf'
  }

  /** Its name, or one with the extension of its type. */
  get fileName(): string {
    return this.title ?? `document.${extensionOf(this.mediaType) ?? 'bin'}`
  }

  /** The text of one in base64; undefined if it is no text in UTF-8. */
  decodedText(): string | undefined {
    if (this.kind !== Kind.DOCUMENT || !isTextType(this.mediaType)) return undefined
    return decodedUtf8(Buffer.from(this.conversation.textAt(this.entry), 'base64'))
  }

  /** Whether `heading` writes anything. */
  get hasHeading(): boolean {
    return this.nameEntry !== NO_ENTRY || this.contextEntry !== NO_ENTRY
  }

  /** Writes name and context, as the inside of a string, for APIs that have no members for them. */
  heading(json: JsonBuilder): void {
    const { conversation, nameEntry: name, contextEntry: context } = this
    if (name !== NO_ENTRY) {
      json.entryBetween(HEADING, conversation, name, CLOSE_HEADING)
    }
    if (context === NO_ENTRY) return
    if (name !== NO_ENTRY) json.part(LINE_END)
    json.entry(conversation, context)
  }

  /** Writes one that is text, as the inside of a string, after its name and context. */
  asText(json: JsonBuilder): void {
    this.heading(json)
    if (this.hasHeading) json.part(LINE_END)
    json.entry(this.conversation, this.entry)
  }

  /**
   * Calls `write` for each text and image of a document that consists of them (at least one), with commas between them.
   * `text`: how a text begins and ends, if name and context are one before them.
   */
  writeParts(json: JsonBuilder, write: (entry: number) => void, text?: TextParts): void {
    const { conversation, entry } = this
    const end = conversation.endOfPart(entry)
    let part = conversation.next(entry)
    while (conversation.kindAt(part) === Kind.FILE_NAME || conversation.kindAt(part) === Kind.CONTEXT)
      part = conversation.next(part)
    let isFirst = true
    if (text !== undefined && this.hasHeading) {
      json.part(text.open)
      this.heading(json)
      json.part(text.close)
      isFirst = false
    }
    // The last entry is the end of the document.
    for (; conversation.next(part) < end; part = conversation.endOfPart(part)) {
      if (!isFirst) json.part(COMMA)
      isFirst = false
      write(part)
    }
  }
}

/** A request with a document that an API cannot take: it is not sent. */
export function cannotTake(what: string): ProviderError {
  return new ProviderError('rejected', what, { unsent: true })
}

export const NO_ADDRESSES = 'This model takes images and documents as base64 data only, not by address.'

/** The documents of a conversation, as providers write them. */

import {
  CONTEXT,
  type Conversation,
  DOCUMENT,
  DOCUMENT_PARTS,
  DOCUMENT_TEXT,
  FILE_NAME,
  MEDIA_TYPE,
} from '../core/conversation.ts'
import { extensionOf, isTextType, typeByExtension } from '../core/document-types.ts'
import { type JsonBuilder, part } from '../core/json-builder.ts'
import { ProviderError } from '../core/provider-error.ts'
import { NO_ENTRY } from './turns.ts'

const HEADING = part('[document: ')
const CLOSE_HEADING = part(']')
const LINE_END = part('\\n')

/** One document, by its first entry. */
export class SentDocument {
  readonly kind: number
  private readonly name: number
  private readonly context: number

  constructor(
    private readonly conversation: Conversation,
    readonly entry: number,
  ) {
    this.kind = conversation.kindAt(entry)
    this.name = conversation.companionOf(entry, FILE_NAME)
    this.context = conversation.companionOf(entry, CONTEXT)
  }

  /** The entry of its name or title, and that of the caller's note about it; `NO_ENTRY` for none. */
  get nameEntry(): number {
    return this.name
  }

  get contextEntry(): number {
    return this.context
  }

  /** Its name; undefined if it has none. */
  get title(): string | undefined {
    return this.name === NO_ENTRY ? undefined : this.conversation.textAt(this.name)
  }

  /** Of one in base64. Of an address: the type by its name, or a PDF. */
  get mediaType(): string {
    const { conversation, entry, kind } = this
    if (kind === DOCUMENT_TEXT) return 'text/plain'
    const type = conversation.companionOf(entry, MEDIA_TYPE)
    if (type !== NO_ENTRY) return conversation.textAt(type)
    return typeByExtension(conversation.textAt(entry)) ?? 'application/pdf'
  }

  /** Its name, or one with the extension of its type. */
  get fileName(): string {
    return this.title ?? `document.${extensionOf(this.mediaType) ?? 'bin'}`
  }

  /** The text of one in base64; undefined if it is no text in UTF-8. */
  decodedText(): string | undefined {
    if (this.kind !== DOCUMENT || !isTextType(this.mediaType)) return undefined
    const bytes = Buffer.from(this.conversation.textAt(this.entry), 'base64')
    try {
      return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    } catch {
      return undefined
    }
  }

  /** Whether `heading` writes anything. */
  get hasHeading(): boolean {
    return this.name !== NO_ENTRY || this.context !== NO_ENTRY
  }

  /** Writes name and context, as the inside of a string, for APIs that have no members for them. */
  heading(json: JsonBuilder): void {
    const { conversation, name, context } = this
    if (name !== NO_ENTRY) {
      json.part(HEADING)
      json.entry(conversation, name)
      json.part(CLOSE_HEADING)
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

  /** Calls `visit` for each text and image of a document of such, of which it has at least one. */
  forEachPart(visit: (entry: number) => void): void {
    const { conversation, entry } = this
    if (this.kind !== DOCUMENT_PARTS) return
    const end = conversation.endOfPart(entry)
    let part = conversation.next(entry)
    while (conversation.kindAt(part) === FILE_NAME || conversation.kindAt(part) === CONTEXT)
      part = conversation.next(part)
    // The last entry is the end of the document.
    for (; conversation.next(part) < end; part = conversation.endOfPart(part)) visit(part)
  }
}

/** A request with a document that an API cannot take: it is not sent. */
export function cannotTake(what: string): ProviderError {
  return new ProviderError('rejected', what, { unsent: true })
}

export const NO_ADDRESSES = 'This model takes images and documents as base64 data only, not by address.'

/** Images and documents as entries → blocks of a Messages body. */

import type { Conversation } from '../../core/conversation.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { type JsonBuilder, NOTHING, part, QUOTE } from '../../core/json-builder.ts'
import { markedEnds } from '../cache-marks.ts'
import { cannotTake, SentDocument } from '../documents.ts'
import { mediaType } from '../media-type.ts'
import { NO_ENTRY } from '../turns.ts'

const INLINE_IMAGE = part('{"type":"image","source":{"type":"base64","media_type":"')
const IMAGE_DATA = part('","data":"')
const IMAGE_AT = part('{"type":"image","source":{"type":"url","url":"')
const DOCUMENT_BLOCK = part('{"type":"document","source":')
const DATA_SOURCE = part('{"type":"base64","media_type":"application/pdf","data":"')
const TEXT_SOURCE = part('{"type":"text","media_type":"text/plain","data":"')
const URL_SOURCE = part('{"type":"url","url":"')
const PARTS_SOURCE = part('{"type":"content","content":[')
const CLOSE_SOURCE = part('"}')
const CLOSE_PARTS = part(']}')
const TITLE = part(',"title":"')
const CONTEXT_MEMBER = part(',"context":"')
const CITATIONS = part(',"citations":{"enabled":true}')
/** The ends of blocks by the index of the cache mark. */
const IMAGE_ENDS = [part('"}}'), ...markedEnds('"}', '}')]
const DOCUMENT_ENDS = [part('}'), ...markedEnds('', '}')]

export class MediaBlockWriter {
  constructor(
    private readonly json: JsonBuilder,
    private readonly conversation: Conversation,
    /** Writes a block within a document. */
    private readonly writeBlock: (block: number, mark: number) => void,
  ) {}

  document(block: number, mark: number): void {
    const { json, conversation } = this
    const sent = new SentDocument(conversation, block)
    json.part(DOCUMENT_BLOCK)
    this.source(sent)
    if (sent.nameEntry !== NO_ENTRY) {
      json.entryBetween(TITLE, conversation, sent.nameEntry, QUOTE)
    }
    if (sent.contextEntry !== NO_ENTRY) {
      json.entryBetween(CONTEXT_MEMBER, conversation, sent.contextEntry, QUOTE)
    }
    if (conversation.isCited(block)) json.part(CITATIONS)
    json.part(DOCUMENT_ENDS[mark] ?? NOTHING)
  }

  /** Throws `ProviderError` `rejected` with `unsent` for a document that is neither a PDF nor text. */
  private source(sent: SentDocument): void {
    const { json, conversation } = this
    if (sent.kind === Kind.DOCUMENT_PARTS) {
      json.part(PARTS_SOURCE)
      sent.writeParts(json, (entry) => this.writeBlock(entry, conversation.markIndexAt(entry)))
      return json.part(CLOSE_PARTS)
    }
    const isData = sent.kind === Kind.DOCUMENT && sent.mediaType === 'application/pdf'
    const decoded = isData ? undefined : sent.decodedText()
    if (sent.kind === Kind.DOCUMENT && !isData && decoded === undefined)
      throw cannotTake('This model takes documents that are PDF or text only.')
    json.part(isData ? DATA_SOURCE : sent.kind === Kind.DOCUMENT_URL ? URL_SOURCE : TEXT_SOURCE)
    if (decoded === undefined) json.entry(conversation, sent.entry)
    else json.inside(decoded)
    json.part(CLOSE_SOURCE)
  }

  image(block: number, mark: number): void {
    const { json, conversation } = this
    if (conversation.kindAt(block) === Kind.IMAGE) {
      json.part(INLINE_IMAGE)
      json.inside(mediaType(conversation.textAt(conversation.next(block))))
      json.part(IMAGE_DATA)
    } else json.part(IMAGE_AT)
    json.entry(conversation, block)
    json.part(IMAGE_ENDS[mark] ?? NOTHING)
  }
}

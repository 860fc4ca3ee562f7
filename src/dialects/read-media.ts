/** Images and documents that callers send → entries, wherever in a conversation they are. */

import type { Arena } from '../core/arena.ts'
import { textOf } from '../core/bytes.ts'
import type { CallerError } from '../core/caller-error.ts'
import { DETAILED, DETAILS, type ImageDetail } from '../core/conversation.ts'
import { PDF, typeByExtension } from '../core/document-types.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { EntryWriter } from '../core/entry-writer.ts'
import { type JsonDocument, NONE } from '../wire/json-document.ts'
import { checkImageUrl, type ImageUrls } from './image-url.ts'
import { invalid } from './invalid-field.ts'
import type { RequestLimits } from './request-limits.ts'

/** What the operator and the limits of a request allow. */
export interface MediaRules {
  readonly limits: RequestLimits
  readonly imageUrls: ImageUrls
}

/** A file as Responses and Chat Completions have it: the strings of its members, or `NONE`. */
interface SentFile {
  readonly data: number
  readonly url: number
  readonly name: number
}

type Path = () => string

/** The head of data in base64. */
export const DATA_URL = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w=.+-]+)*;base64,/
/** No file and no image has a longer head. Without a limit, the pattern would scan a long text to its end. */
export const DATA_URL_HEAD_CHARS_MAX = 1024
const IMAGE_TYPE = /^image\/[\w.+-]+$/i
const DOCUMENT_TYPE = /^(?:application|text)\/[\w.+-]+$/
const UNKNOWN_TYPE = 'application/octet-stream'
/** Names of files, and titles. */
const NAME_CHARS_MAX = 1024
/** The first bytes of a PDF, `%PDF-`, in base64. */
const PDF_START = 'JVBERi0'

export class MediaReader {
  constructor(
    private readonly document: JsonDocument,
    private readonly arena: Arena,
    private readonly rules: MediaRules,
  ) {}

  /** An image by a data URL or an address. `added`: to its kind. Returns its entry. */
  image(into: EntryWriter, url: number, added: number, path: Path): number {
    this.rules.limits.count('images', path)
    const found = this.dataUrl(url)
    if (found === undefined) return this.address(into, Kind.IMAGE_URL + added, url, path)
    if (!IMAGE_TYPE.test(found.type)) throw invalid(path(), 'must be the data URL of an image')
    return this.inline(into, Kind.IMAGE + added, found, found.type, path)
  }

  /** An address that a provider fetches. */
  address(into: EntryWriter, kind: number, url: number, path: Path): number {
    const { document } = this
    checkImageUrl(document.text(url), path(), this.rules.imageUrls)
    return into.addValue(kind, document, url)
  }

  /** A string of nothing but base64, with this media type. */
  base64(into: EntryWriter, kind: number, data: number, type: string, path: Path): number {
    return this.inline(into, kind, this.whole(data), type, path)
  }

  /** A document by its data or its address. Returns its entry. */
  file(into: EntryWriter, { data, url, name }: SentFile, added: number, path: (field: string) => string): number {
    const { document } = this
    this.rules.limits.count('documents', () => path('type'))
    const title = name === NONE ? '' : this.title(name, () => path('filename'))
    let entry: number
    if (data === NONE) entry = this.address(into, Kind.DOCUMENT_URL + added, url, () => path('file_url'))
    else {
      const at = () => path('file_data')
      const found = this.dataUrl(data)
      const type = fileType(found?.type.toLowerCase(), title, this.start(data, PDF_START.length))
      if (type === undefined) throw unknownType(at())
      if (!DOCUMENT_TYPE.test(type)) throw invalid(at(), 'must be a document, such as application/pdf')
      entry = this.inline(into, Kind.DOCUMENT + added, found ?? this.whole(data), type, at)
    }
    if (title !== '') into.addValue(Kind.FILE_NAME, document, name)
    return entry
  }

  /** A name or title. */
  title(value: number, path: Path): string {
    const text = this.document.text(value)
    if (text.length > NAME_CHARS_MAX) throw invalid(path(), `must have at most ${NAME_CHARS_MAX} characters`)
    return text
  }

  /** Throws `CallerError` for data that is not base64. */
  private inline(into: EntryWriter, kind: number, span: Data, type: string, path: Path): number {
    const { document, arena } = this
    let { from, to } = span
    let isValid = isBase64(document.bytes, from, to)
    if (!isValid && document.hasEscape(span.value)) {
      // Some callers write `\/` for each slash.
      from = arena.addText(document.text(span.value).slice(span.head))
      to = arena.end
      isValid = isBase64(arena.bufferAt(from), arena.indexAt(from), arena.indexAt(from, to))
    }
    if (!isValid) throw invalid(path(), 'must be base64, with padding and without blanks')
    const entry = into.add(kind, from, to)
    into.addText(Kind.MEDIA_TYPE, arena, type)
    return entry
  }

  private whole(value: number): Data {
    return { from: this.document.fromOf(value), to: this.document.toOf(value), value, head: 0 }
  }

  /** The first bytes of a string, as they were written. */
  private start(value: number, most: number): string {
    const from = this.document.fromOf(value)
    return textOf(this.document.bytes, from, Math.min(from + most, this.document.toOf(value)))
  }

  /** The data of a string that is a data URL, with its media type. */
  private dataUrl(value: number): (Data & { readonly type: string }) | undefined {
    const { document } = this
    const start = this.start(value, DATA_URL_HEAD_CHARS_MAX)
    const match = DATA_URL.exec(start.includes('\\') ? document.text(value).slice(0, DATA_URL_HEAD_CHARS_MAX) : start)
    if (match === null) return undefined
    const [all, type = ''] = match
    return { from: document.fromOf(value) + all.length, to: document.toOf(value), value, head: all.length, type }
  }
}

/** Where data is if its string has no escapes, and how many characters of that come before it. */
interface Data {
  readonly from: number
  readonly to: number
  readonly value: number
  readonly head: number
}

/** The bits of a detail of an image by its name; none for a name that is not known. */
export function detailBits(name: string | undefined): number {
  const index = DETAILS.indexOf(name as ImageDetail | undefined)
  return index < 1 ? 0 : index * DETAILED
}

function fileType(given: string | undefined, name: string, start: string): string | undefined {
  if (given !== undefined && given !== UNKNOWN_TYPE) return given
  return typeByExtension(name) ?? (start === PDF_START ? PDF : undefined)
}

function unknownType(path: string): CallerError {
  const what = 'must be a data URL with the media type of the document, or its name must have a known extension'
  return invalid(path, what)
}

/** By byte: 1 for the characters of base64. */
const ALPHABET = new Uint8Array(256)
for (const byte of Buffer.from('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')) ALPHABET[byte] = 1
const PADDING = 0x3d

/** Whether bytes are base64 with padding, and not empty. */
function isBase64(bytes: Uint8Array, from: number, to: number): boolean {
  if (to === from || (to - from) % 4 !== 0) return false
  let end = to
  while (end > to - 2 && bytes[end - 1] === PADDING) end--
  for (let at = from; at < end; at++) if (ALPHABET[bytes[at] ?? 0] !== 1) return false
  return true
}

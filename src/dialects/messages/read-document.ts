/** A `document` block of Messages → entries. */

import { CITED, ENTRY_INTS } from '../../core/conversation.ts'
import { PDF } from '../../core/document-types.ts'
import * as Kind from '../../core/entry-kinds.ts'
import { MARKED } from '../../core/entry-marks.ts'
import type { EntryWriter } from '../../core/entry-writer.ts'
import { type JsonDocument, NONE, words } from '../../wire/json-document.ts'
import { invalid, missing } from '../invalid-field.ts'
import type { MediaReader } from '../read-media.ts'
import type { RequestLimits } from '../request-limits.ts'

const BLOCK = words('source', 'title', 'context', 'citations')
const SOURCE = words('type', 'media_type', 'data', 'url', 'content')
const SOURCE_TYPES = words('base64', 'text', 'url', 'content')
const ENABLED = words('enabled')

const members = new Int32Array(BLOCK.length)
const source = new Int32Array(SOURCE.length)

/** What reading a document needs besides its block. */
interface Surroundings {
  readonly document: JsonDocument
  readonly media: MediaReader
  readonly limits: RequestLimits
  /** The error of a block that is not supported. */
  readonly unsupported: (path: string) => Error
}

/** The parts of a document that is a list of blocks, which the caller of `readDocument` knows how to read. */
type PartsReader = (list: number, into: EntryWriter) => void

/** `added`: to the kind, for its cache mark. Throws `CallerError` with the path of the invalid field. */
export function readDocument(
  { document, media, limits, unsupported }: Surroundings,
  into: EntryWriter,
  block: number,
  added: number,
  path: () => string,
  readParts: PartsReader,
): void {
  limits.count('documents', path)
  document.select(block, BLOCK, members)
  const [object = NONE, title = NONE, context = NONE, citations = NONE] = members
  if (!document.isObject(object)) throw missing(`${path()}.source`)
  const bits = added + (areWanted(document, citations, path) ? CITED : 0)
  const name = textOrNone(document, title, () => `${path()}.title`)
  const note = textOrNone(document, context, () => `${path()}.context`)
  if (name !== NONE) media.title(name, () => `${path()}.title`)
  const addNames = () => {
    if (name !== NONE) into.addValue(Kind.FILE_NAME, document, name)
    if (note !== NONE) into.addValue(Kind.CONTEXT, document, note)
  }
  document.select(object, SOURCE, source)
  const [type = NONE, mediaType = NONE, data = NONE, url = NONE, content = NONE] = source
  const field = (which: string) => () => `${path()}.source.${which}`
  switch (document.word(type, SOURCE_TYPES)) {
    case 0:
      checkType(document, mediaType, PDF, field('media_type'))
      media.base64(into, Kind.DOCUMENT + bits, filled(document, data, field('data')), PDF, field('data'))
      return addNames()
    case 1: {
      checkType(document, mediaType, 'text/plain', field('media_type'))
      const text = filled(document, data, field('data'))
      into.addValue(Kind.DOCUMENT_TEXT + bits, document, text)
      return addNames()
    }
    case 2:
      media.address(into, Kind.DOCUMENT_URL + bits, filled(document, url, field('url')), field('url'))
      return addNames()
    case 3:
      if (document.isNull(content)) throw missing(field('content')())
      if (document.isString(content)) {
        const text = filled(document, content, field('content'))
        into.addValue(Kind.DOCUMENT_TEXT + bits, document, text)
        return addNames()
      }
      if (!document.isList(content)) throw invalid(field('content')(), 'must be a string or an array of blocks')
      addParts(into, bits, addNames, () => readParts(content, into), field('content'))
      return
    default:
      if (document.isNull(type)) throw missing(field('type')())
      throw unsupported(field('type')())
  }
}

/** The marks of its parts become that of the document, which covers them. */
function addParts(
  into: EntryWriter,
  bits: number,
  addNames: () => void,
  addRest: () => void,
  path: () => string,
): void {
  const entry = into.add(Kind.DOCUMENT_PARTS + bits, 0, 0)
  addNames()
  const first = into.next
  addRest()
  if (into.next === first) throw invalid(path(), 'must have a text or an image')
  for (let part = first; part < into.next; part += ENTRY_INTS) {
    const mark = into.markAt(part)
    if (mark === 0) continue
    into.mark(part, 0)
    if (bits < MARKED) into.mark(entry, mark)
  }
  into.add(Kind.DOCUMENT_END, 0, 0)
}

/** A string that is not empty, or `NONE` for none. */
function textOrNone(document: JsonDocument, value: number, path: () => string): number {
  if (document.isNull(value)) return NONE
  if (!document.isString(value)) throw invalid(path(), 'must be a string')
  return document.isFilled(value) ? value : NONE
}

function filled(document: JsonDocument, value: number, path: () => string): number {
  if (document.isNull(value)) throw missing(path())
  const text = textOrNone(document, value, path)
  if (text === NONE) throw missing(path())
  return text
}

function checkType(document: JsonDocument, value: number, type: string, path: () => string): void {
  const given = filled(document, value, path)
  if (document.text(given) !== type) throw invalid(path(), `must be '${type}'`)
}

function areWanted(document: JsonDocument, citations: number, path: () => string): boolean {
  if (document.isNull(citations)) return false
  if (!document.isObject(citations)) throw invalid(`${path()}.citations`, 'must be an object')
  const enabled = document.member(citations, ENABLED)
  if (document.isNull(enabled)) return false
  if (!document.isBoolean(enabled)) throw invalid(`${path()}.citations.enabled`, 'must be true or false')
  return document.isTrue(enabled)
}

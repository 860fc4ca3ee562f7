/**
 * `multipart/form-data` (RFC 7578): bytes → parts, and parts → bytes under a boundary of our own. The contents of parts
 * are views of the body, not copies, so that an upload is held once.
 *
 * The form is written anew rather than sent on, so that a provider cannot parse it into other parts than we did.
 */

import { decodedUtf8 } from '../core/bytes.ts'
import { CallerError } from '../core/caller-error.ts'

export interface FormPart {
  readonly name: string
  /** Present for a file. */
  readonly filename?: string | undefined
  readonly contentType?: string | undefined
  readonly content: Uint8Array
}

/** Sixteen images, a mask and all known fields are forty parts. */
const PARTS_MAX = 128
/** Lines within the content that begin with the boundary but are not delimiters. */
const OTHER_LINES_MAX = 4096
/** The header of one part. */
const HEADER_BYTES_MAX = 8 * 1024

const CR = 0x0d
const LF = 0x0a
const DASH = 0x2d
const SPACE = 0x20
const TAB = 0x09
const LINE_END = '\r\n'
const HEADER_END = '\r\n\r\n'

/** True if a content type is `multipart/form-data`. */
export function isForm(contentType: string | null): boolean {
  return /^\s*multipart\/form-data\s*(?:;|$)/i.test(contentType ?? '')
}

/** The boundary of a content type. Throws `CallerError` `malformed_body` if it has none that RFC 2046 allows. */
export function boundaryOf(contentType: string): string {
  const boundary = parameter(contentType, 'boundary')
  if (boundary === undefined || !/^[\w'()+,./:=? -]{0,69}[\w'()+,./:=?-]$/.test(boundary)) {
    throw malformed('its Content-Type names no valid boundary')
  }
  return boundary
}

/**
 * All parts in order. Text before the first boundary and after the last is skipped. Throws `CallerError`
 * `malformed_body`.
 */
export function parseForm(bytes: Uint8Array, boundary: string): readonly FormPart[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const first = Buffer.from(`--${boundary}`, 'latin1')
  const search = { buffer, first, next: Buffer.concat([Buffer.of(CR, LF), first]) }
  const parts: FormPart[] = []
  let line = nextDelimiter(search, 0)
  while (!line.last) {
    if (parts.length === PARTS_MAX) throw malformed(`it has more than ${PARTS_MAX} parts`)
    const next = nextDelimiter(search, line.end)
    parts.push(partOf(buffer.subarray(line.end, next.start)))
    line = next
  }
  return parts
}

interface Search {
  readonly buffer: Buffer
  /** The delimiter at a place where a line begins, and the delimiter with the line end before it. */
  readonly first: Buffer
  readonly next: Buffer
}

interface DelimiterLine {
  /** The end of the content before it: the line end in front of a delimiter belongs to the delimiter. */
  readonly start: number
  /** The start of the content after it. */
  readonly end: number
  /** True for the closing delimiter. */
  readonly last: boolean
}

/** The next delimiter line at or after `from`, where a line begins. Throws if the body ends without one. */
function nextDelimiter({ buffer, first, next }: Search, from: number): DelimiterLine {
  const opens = buffer.subarray(from, from + first.length).equals(first)
  let at = opens ? from : buffer.indexOf(next, from)
  for (let others = 0; at !== -1; others++) {
    // RFC 2046, section 5.1.1: the boundary must not occur in the content.
    if (others > OTHER_LINES_MAX) throw malformed('its boundary occurs within its parts')
    const line = at === from && opens ? first : next
    let end = at + line.length
    if (buffer[end] === DASH && buffer[end + 1] === DASH) return { start: at, end: end + 2, last: true }
    while (buffer[end] === SPACE || buffer[end] === TAB) end++
    if (buffer[end] === CR && buffer[end + 1] === LF) return { start: at, end: end + 2, last: false }
    at = buffer.indexOf(next, line === first ? from : at + 1)
  }
  throw malformed('it ends before its closing boundary')
}

/** One part: the bytes between two delimiters. */
function partOf(bytes: Buffer): FormPart {
  const headerEnd = bytes.subarray(0, HEADER_BYTES_MAX).indexOf(HEADER_END)
  if (headerEnd === -1) throw malformed('a part has no end of its header lines')
  const headers = headersOf(bytes.subarray(0, headerEnd))
  const disposition = headers.get('content-disposition') ?? ''
  const name = parameter(disposition, 'name')
  if (name === undefined || !/^form-data\s*;/i.test(disposition)) throw malformed('a part has no name')
  if (!/^(?:binary|8bit|7bit)?$/i.test(headers.get('content-transfer-encoding') ?? '')) {
    throw malformed('a part has a Content-Transfer-Encoding')
  }
  return {
    name,
    filename: parameter(disposition, 'filename'),
    contentType: headers.get('content-type'),
    content: bytes.subarray(headerEnd + HEADER_END.length),
  }
}

function headersOf(bytes: Buffer): ReadonlyMap<string, string> {
  const headers = new Map<string, string>()
  for (const line of formText(bytes).split(LINE_END)) {
    const colon = line.indexOf(':')
    const name = line.slice(0, colon).trim().toLowerCase()
    if (colon < 1 || headers.has(name)) throw malformed('a part has a header line that cannot be read')
    headers.set(name, line.slice(colon + 1).trim())
  }
  return headers
}

/** The beginning of a parameter: its name and the equals sign, with blanks around it. */
const PARAMETER = /;[ \t]*([^\s;="]+)[ \t]*=[ \t]*/y
const QUOTED = /"((?:[^"\\]|\\.)*)"/y
const BARE = /[^\s;"]+/y

/**
 * A parameter of a header value, quoted or not. Browsers write a quote within a name as `%22`, curl as `\"`; both are
 * decoded. The value is scanned once from left to right: a search for the name would take quadratic time on text that
 * repeats it.
 */
function parameter(value: string, name: string): string | undefined {
  let at = value.indexOf(';')
  while (at !== -1) {
    const head = match(PARAMETER, value, at)
    if (head === undefined) {
      at = value.indexOf(';', at + 1)
      continue
    }
    const start = at + head[0].length
    const quoted = match(QUOTED, value, start)
    const found = quoted ?? match(BARE, value, start)
    // An open quote: what follows cannot be distinguished from quoted text.
    if (found === undefined) return undefined
    if (head[1]?.toLowerCase() === name) {
      return quoted === undefined ? found[0] : (found[1] ?? '').replace(/\\(["\\])/g, '$1').replaceAll('%22', '"')
    }
    at = value.indexOf(';', start + found[0].length)
  }
  return undefined
}

function match(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at
  return pattern.exec(text) ?? undefined
}

/** The text of a field. Throws `malformed_body` for invalid UTF-8. */
export function formText(content: Uint8Array): string {
  const text = decodedUtf8(content)
  if (text === undefined) throw malformed('a field is not valid UTF-8')
  return text
}

/** A boundary that no content contains: 144 random bits. */
export function mintBoundary(): string {
  return `weir-${crypto.getRandomValues(Buffer.allocUnsafe(18)).toString('base64url')}`
}

/** The pieces of a body: headers of our own, and the contents of the parts without a copy. */
export function writeForm(parts: readonly FormPart[], boundary: string): readonly Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (const [index, part] of parts.entries()) {
    const file = part.filename === undefined ? '' : `; filename="${escaped(part.filename)}"`
    const type = part.contentType === undefined ? '' : `Content-Type: ${oneLine(part.contentType)}${LINE_END}`
    const disposition = `Content-Disposition: form-data; name="${escaped(part.name)}"${file}`
    const open = `${index === 0 ? '' : LINE_END}--${boundary}${LINE_END}`
    pieces.push(Buffer.from(`${open}${disposition}${LINE_END}${type}${LINE_END}`), part.content)
  }
  pieces.push(Buffer.from(`${LINE_END}--${boundary}--${LINE_END}`))
  return pieces
}

/**
 * Escapes a name as the HTML standard does, so that it cannot end the quotes or the line. Parsers disagree on
 * backslashes.
 */
function escaped(name: string): string {
  return name.replace(/["\\\r\n]/g, (unit) => `%${unit.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`)
}

function oneLine(value: string): string {
  return value.replace(/[\r\n]+/g, ' ')
}

function malformed(why: string): CallerError {
  return new CallerError('malformed_body', `The request body is not valid multipart/form-data: ${why}.`)
}

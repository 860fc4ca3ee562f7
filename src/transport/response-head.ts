/** The head of an HTTP/1.1 response: its status, its fields, and how its body is framed (RFC 9112, sections 4 to 6). */

/**
 * The peer did not send HTTP that can be understood in one way only. The message names the rule that it broke, and
 * quotes nothing of what it sent.
 */
export class ResponseSyntaxError extends Error {
  override readonly name = 'ResponseSyntaxError'
}

/** How the end of a body is known: there is none, by its length, by chunks, or by the end of the connection. */
type BodyFraming = 'none' | 'length' | 'chunked' | 'until close'

/** More fields than any provider sends; picohttpparser in Bun's `fetch` stops at 256. */
const FIELDS_MAX = 200

const LF = 10
const CR = 13
const SPACE = 32
const COLON = 58
const LINE_END_BYTES = 2
const VERSION = 'HTTP/1.'
/** `x-ratelimit-limit` is the shortest name of a field of a rate limit. */
const LIMIT_NAME_MIN = 17
const NO_LIMITS: number[] = []
const NO_FIELDS = { text: '', places: NO_LIMITS }

const NAME_BYTE = 1
const VALUE_BYTE = 2
/** What a byte may be part of: a field's name (RFC 9110, 5.6.2), or its value (visible, blank, or 0x80 to 0xff). */
const BYTES = Uint8Array.from({ length: 256 }, (_, byte) => {
  const isName = /[!#$%&'*+.^_`|~\dA-Za-z-]/.test(String.fromCharCode(byte))
  const isValue = byte === 9 || (byte >= 32 && byte !== 127)
  return (isName ? NAME_BYTE : 0) | (isValue ? VALUE_BYTE : 0)
})

/**
 * One head. The bytes are checked once, in one pass, which notes the few fields that say where the message ends and
 * what follows it; the values of others are searched for only when somebody asks, because two or three of some twenty
 * are ever read.
 */
export class ResponseHead {
  readonly status: number
  readonly framing: BodyFraming
  /** The length of the body, if it is framed by its length. */
  readonly bytes: number
  /** The server keeps the connection open after this response. */
  readonly keepsAlive: boolean
  /** How long the server keeps it if it is idle, less a second because its clock began earlier; else infinite. */
  readonly keepAliveMs: number
  /** The content coding in lower case, such as `gzip`; '' if there is none. */
  readonly coding: string
  private readonly text: string
  private lowerText: string | undefined
  private readonly isOld: boolean
  // What every answer is asked for is not searched for.
  private contentType: string | undefined
  private contentLength: string | undefined
  private contentEncoding: string | undefined
  private transferEncoding: string | undefined
  private connection = ''
  private keepAlive = ''
  private limits = NO_LIMITS

  /** `bytes` from `from` are a head without the empty line that ends it at `to`. Throws `ResponseSyntaxError`. */
  constructor(
    bytes: Buffer,
    /** Where the text begins in the bytes. */
    private readonly from: number,
    to: number,
  ) {
    const text = bytes.toString('latin1', from, to)
    this.text = text
    this.status = 100 * digit(text, 9) + 10 * digit(text, 10) + digit(text, 11)
    this.isOld = text[7] === '0'
    const lineEnd = this.endOfStatusLine(bytes, to)
    if (lineEnd < to) checkFields(bytes, lineEnd + LINE_END_BYTES, to, this)
    this.bytes = this.length()
    this.framing = this.framingOf(this.bytes)
    this.keepsAlive = this.isKeptAlive()
    this.keepAliveMs = this.idleMs()
    this.coding = this.contentEncoding?.toLowerCase() ?? ''
  }

  /** `x-ratelimit-…` and `anthropic-ratelimit-…`: of each, where its name begins, and its value begins and ends. */
  get limitFields(): { readonly text: string; readonly places: readonly number[] } {
    return this.limits === NO_LIMITS ? NO_FIELDS : { text: this.text, places: this.limits }
  }

  /** The values of all fields of this name (lower case) joined by `, `, or null if there is none: as `Headers.get`. */
  get(name: string): string | null {
    if (name === 'content-type') return this.contentType ?? null
    if (name === 'content-length') return this.contentLength ?? null
    this.lowerText ??= this.text.toLowerCase()
    const prefix = `\r\n${name}:`
    let value: string | undefined
    for (let at = this.lowerText.indexOf(prefix); at !== -1; at = this.lowerText.indexOf(prefix, at + 1)) {
      const end = this.text.indexOf('\r\n', at + prefix.length)
      value = joined(value, trimmed(this.text, at + prefix.length, end === -1 ? this.text.length : end))
    }
    return value ?? null
  }

  has(name: string): boolean {
    this.lowerText ??= this.text.toLowerCase()
    return this.lowerText.includes(`\r\n${name}:`)
  }

  /** `HTTP/1.1 200 OK`; the reason may be empty, and its space missing. */
  private endOfStatusLine(bytes: Buffer, to: number): number {
    const { text, isOld } = this
    const isVersion = text.startsWith(VERSION) && (isOld || text[7] === '1') && text[8] === ' '
    let at = this.from + 12
    const hasReason = at < to && bytes[at] === SPACE
    while (hasReason && at < to && isValueByte(bytes[at])) at++
    const isLine = at >= to || (bytes[at] === CR && bytes[at + 1] === LF)
    if (isVersion && this.status >= 100 && isLine) return at
    throw new ResponseSyntaxError('the status line is not that of HTTP/1.1')
  }

  /** A field of the head; only for `checkFields`. */
  note(bytes: Buffer, start: number, nameEnd: number, end: number): void {
    const { from } = this
    switch (nameEnd - start) {
      case 10:
        if (isNamed(bytes, start, 'connection')) this.connection += `,${this.value(nameEnd, end)}`
        else if (isNamed(bytes, start, 'keep-alive')) this.keepAlive += `,${this.value(nameEnd, end)}`
        return
      case 12:
        if (isNamed(bytes, start, 'content-type')) this.contentType = joined(this.contentType, this.value(nameEnd, end))
        return
      case 14:
        if (isNamed(bytes, start, 'content-length'))
          this.contentLength = joined(this.contentLength, this.value(nameEnd, end))
        return
      case 16:
        if (isNamed(bytes, start, 'content-encoding'))
          this.contentEncoding = joined(this.contentEncoding || undefined, this.value(nameEnd, end))
        return
      case 17:
        // Some parsers, llhttp among them, take `chunked` with a tab beside it for another coding.
        if (isNamed(bytes, start, 'transfer-encoding'))
          this.transferEncoding = joined(this.transferEncoding, this.text.slice(nameEnd + 1 - from, end - from))
        else this.noteLimit(bytes, start, nameEnd, end)
        return
      default:
        if (nameEnd - start >= LIMIT_NAME_MIN) this.noteLimit(bytes, start, nameEnd, end)
    }
  }

  private noteLimit(bytes: Buffer, start: number, nameEnd: number, end: number): void {
    if (!isNamed(bytes, start, 'x-ratelimit-') && !isNamed(bytes, start, 'anthropic-ratelimit-')) return
    if (this.limits === NO_LIMITS) this.limits = []
    const { from } = this
    this.limits.push(start - from, nameEnd + 1 - from, end - from)
  }

  private value(nameEnd: number, end: number): string {
    return trimmed(this.text, nameEnd + 1 - this.from, end - this.from)
  }

  /** The one length; a server or a proxy that repeats it repeats the same (RFC 9112, 6.3). -1 if there is none. */
  private length(): number {
    const value = this.contentLength
    if (value === undefined) return -1
    const first = value.includes(',') ? onlyLength(value) : value
    const bytes = /^\d{1,16}$/.test(first) ? Number(first) : Number.NaN
    if (!Number.isSafeInteger(bytes)) throw new ResponseSyntaxError('its length is not a number')
    return bytes
  }

  private framingOf(bytes: number): BodyFraming {
    const coding = this.transferEncoding
    if (coding !== undefined) {
      // A reader that believes the one ends the message elsewhere than a reader that believes the other.
      if (bytes !== -1) throw new ResponseSyntaxError('it has a length and a transfer encoding')
      if (this.isOld || coding.toLowerCase().replace(/^ +| +$/g, '') !== 'chunked')
        throw new ResponseSyntaxError('its transfer encoding is not chunked')
    }
    if (this.status < 200 || this.status === 204 || this.status === 304) return 'none'
    if (coding !== undefined) return 'chunked'
    if (bytes === -1) return 'until close'
    return bytes === 0 ? 'none' : 'length'
  }

  private isKeptAlive(): boolean {
    if (this.framing === 'until close') return false
    if (this.connection === '') return !this.isOld
    const options = this.connection.toLowerCase().split(/[ \t]*,[ \t]*/)
    if (options.includes('close')) return false
    return !this.isOld || options.includes('keep-alive')
  }

  private idleMs(): number {
    if (this.keepAlive === '') return Number.POSITIVE_INFINITY
    const seconds = /(?:^|[,\s])timeout=(\d{1,6})/i.exec(this.keepAlive)?.[1]
    return seconds === undefined ? Number.POSITIVE_INFINITY : Math.max(0, Number(seconds) - 1) * 1000
  }
}

/**
 * Checks that bytes are a section of fields: those of a head, which notes them, or trailers. This also rejects folded
 * lines (they begin with a space), a space before the colon, and lines that end in LF. Throws `ResponseSyntaxError`.
 */
export function checkFields(bytes: Buffer, from: number, to: number, head?: ResponseHead): void {
  let count = 0
  for (let at = from; at < to; at += LINE_END_BYTES) {
    const start = at
    while (at < to && isNameByte(bytes[at])) at++
    if (at === start || at >= to || bytes[at] !== COLON)
      throw new ResponseSyntaxError('a header field has no valid name')
    const nameEnd = at
    at += 1
    while (at < to && isValueByte(bytes[at])) at++
    if (at < to && (bytes[at] !== CR || bytes[at + 1] !== LF))
      throw new ResponseSyntaxError('the value of a header field holds a control character')
    count += 1
    if (count > FIELDS_MAX) throw new ResponseSyntaxError(`there are more than ${FIELDS_MAX} header fields`)
    head?.note(bytes, start, nameEnd, at)
  }
}

function isNamed(bytes: Buffer, start: number, name: string): boolean {
  for (let at = 0; at < name.length; at++) {
    const byte = bytes[start + at] ?? 0
    if ((byte >= 65 && byte <= 90 ? byte | 32 : byte) !== name.charCodeAt(at)) return false
  }
  return true
}

function isNameByte(byte: number | undefined): boolean {
  return byte !== undefined && ((BYTES[byte] ?? 0) & NAME_BYTE) !== 0
}

function isValueByte(byte: number | undefined): boolean {
  return byte !== undefined && ((BYTES[byte] ?? 0) & VALUE_BYTE) !== 0
}

/** The value of the digit at this place of a text; NaN for any other character. */
function digit(text: string, at: number): number {
  const value = text.charCodeAt(at) - 48
  return value >= 0 && value <= 9 ? value : Number.NaN
}

/** The one length of several that are joined by commas. */
function onlyLength(values: string): string {
  const [first = '', ...others] = values.split(/[ \t]*,[ \t]*/)
  if (others.some((other) => other !== first)) throw new ResponseSyntaxError('it has two different lengths')
  return first
}

function joined(values: string | undefined, value: string): string {
  return values === undefined ? value : `${values}, ${value}`
}

/** Part of a text without the spaces and tabs around it; `trim` would take other white space too. */
function trimmed(text: string, from: number, to: number): string {
  let start = from
  let end = to
  while (start < end && isSpace(text.charCodeAt(start))) start++
  while (end > start && isSpace(text.charCodeAt(end - 1))) end--
  return text.slice(start, end)
}

function isSpace(code: number): boolean {
  return code === SPACE || code === 9
}

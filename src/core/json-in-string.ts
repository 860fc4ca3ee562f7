/**
 * A JSON object among the bytes of a request → the inside of a string that holds its JSON, such as the arguments of a
 * call.
 */

import { viewOf } from './bytes.ts'
import { BACKSLASH, CLOSE, COLON, isDigit, isInNumber, LETTER_U, MINUS, OPEN, QUOTE, ZERO } from './json-bytes.ts'

/** More levels, more names in the objects that are open, or longer ones are left to the parser. */
const OPEN_MAX = 64
const NAMES_MAX = 64
const NAME_BYTES_MAX = 64
/** Every integer of so many digits is written as it was read. */
const INTEGER_BYTES_MAX = 15
const SLASH = 0x2f

/** The names of the objects that are open. */
class OpenNames {
  private readonly from = new Int32Array(NAMES_MAX)
  private readonly to = new Int32Array(NAMES_MAX)
  private count = 0
  /** For each open object: `count` when it began. */
  private readonly before = new Int32Array(OPEN_MAX)
  private depth = 0

  begin(): void {
    this.count = 0
    this.depth = 0
  }

  /** False if there are too many. */
  open(): boolean {
    if (this.depth === OPEN_MAX) return false
    this.before[this.depth++] = this.count
    return true
  }

  close(): void {
    this.count = this.before[--this.depth] ?? 0
  }

  /** A name of the innermost object. False if it is not certainly a new one that keeps its place. */
  add(source: Uint8Array, from: number, to: number): boolean {
    if (this.count === NAMES_MAX || to - from > NAME_BYTES_MAX || isDigit(source[from] ?? 0)) return false
    for (let other = this.before[this.depth - 1] ?? 0; other < this.count; other++) {
      const start = this.from[other] ?? 0
      if ((this.to[other] ?? 0) - start === to - from && areEqual(source, from, to, start)) return false
    }
    this.from[this.count] = from
    this.to[this.count++] = to
    return true
  }
}

function areEqual(bytes: Uint8Array, from: number, to: number, other: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at] !== bytes[other + at - from]) return false
  return true
}

/** The names of the object that is being written; shared, because each object is written in one go. */
const names = new OpenNames()

const NO_BYTES: Uint8Array = new Uint8Array(0)
const NO_VIEW = viewOf(NO_BYTES)

/** Writes objects among the same bytes. */
export class JsonInString {
  private readonly sourceView: DataView
  private target = NO_BYTES
  private targetView = NO_VIEW
  /** The next byte of the source, and of the target. */
  private read = 0
  private written = 0
  /** The last string. */
  private from = 0
  private to = 0
  private hasEscape = false

  constructor(private readonly source: Uint8Array) {
    this.sourceView = viewOf(source)
  }

  /**
   * Writes what `JSON.stringify(JSON.stringify(object))` has between its quotes, and returns the index after it. The
   * bytes must be a valid object in UTF-8 with finite numbers; the target must have room for twice as many from `at`
   * on. Returns -1 if the object must be parsed: it has a name twice, a name that begins with a digit, which a parser
   * may move to the front, or a number or an escape that is written in another way.
   */
  write(from: number, to: number, target: Uint8Array, at: number): number {
    names.begin()
    if (this.target !== target) this.targetView = viewOf(target)
    this.target = target
    this.read = from
    this.written = at
    while (this.read < to) if (!this.next(this.source[this.read] ?? 0)) return -1
    return this.written
  }

  /** False if the object must be parsed. */
  private next(byte: number): boolean {
    switch (byte) {
      case QUOTE:
        return this.string()
      case COLON:
        if (this.hasEscape || !names.add(this.source, this.from, this.to)) return false
        break
      case OPEN:
        if (!names.open()) return false
        break
      case CLOSE:
        names.close()
        break
      case 0x20:
      case 0x0a:
      case 0x0d:
      case 0x09:
        this.read++
        return true
      default:
        if (byte === MINUS || isDigit(byte)) return this.number()
    }
    this.target[this.written++] = byte
    this.read++
    return true
  }

  private string(): boolean {
    const { source, target } = this
    target[this.written++] = BACKSLASH
    target[this.written++] = QUOTE
    this.from = ++this.read
    this.hasEscape = false
    for (let byte = this.plain(); byte !== QUOTE; byte = this.plain()) {
      const escaped = source[this.read + 1] ?? 0
      if (escaped === LETTER_U || escaped === SLASH) return false
      this.hasEscape = true
      target[this.written++] = BACKSLASH
      target[this.written++] = BACKSLASH
      if (escaped === QUOTE || escaped === BACKSLASH) target[this.written++] = BACKSLASH
      target[this.written++] = escaped
      this.read += 2
    }
    this.to = this.read++
    target[this.written++] = BACKSLASH
    target[this.written++] = QUOTE
    return true
  }

  /**
   * Copies what is before the next quote or backslash, and returns that. Four bytes at a time: one by one, 24 KB took
   * 26 µs instead of 17.
   */
  private plain(): number {
    const { source, target, sourceView, targetView } = this
    let { read, written } = this
    for (const last = source.length - 4; read <= last; read += 4, written += 4) {
      const four = sourceView.getInt32(read)
      // A byte of these is 0 where the four have the character, and subtracting 1 from it sets its highest bit.
      const quotes = four ^ 0x22222222
      const backslashes = four ^ 0x5c5c5c5c
      const zeros = ((quotes - 0x01010101) & ~quotes) | ((backslashes - 0x01010101) & ~backslashes)
      if ((zeros & 0x80808080) !== 0) break
      targetView.setInt32(written, four)
    }
    let byte = source[read] ?? 0
    while (byte !== QUOTE && byte !== BACKSLASH) {
      target[written++] = byte
      byte = source[++read] ?? 0
    }
    this.read = read
    this.written = written
    return byte
  }

  private number(): boolean {
    const { source, target } = this
    const from = this.read
    let end = from + 1
    while (isDigit(source[end] ?? 0)) end++
    const isInteger = !isInNumber(source[end] ?? 0)
    while (isInNumber(source[end] ?? 0)) end++
    const isNegativeZero = source[from] === MINUS && source[from + 1] === ZERO
    if (!isInteger || isNegativeZero || end - from > INTEGER_BYTES_MAX) {
      const text = Buffer.prototype.latin1Slice.call(source, from, end)
      if (String(Number(text)) !== text) return false
    }
    for (let at = from; at < end; at++) target[this.written++] = source[at] ?? 0
    this.read = end
    return true
  }
}

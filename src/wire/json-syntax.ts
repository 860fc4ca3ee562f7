/** The syntax of a JSON text between its structural bytes, and where its objects and lists end. */

import { isExactNumber, LONG_NUMBERS_MAX, NUMBER, NUMBER_CHARS_MAX } from '../core/exact-json.ts'
import { CLOSE, CLOSE_LIST, COLON, COMMA, isDigit, OPEN, OPEN_LIST, QUOTE, ZERO } from '../core/json-bytes.ts'
import { DEPTH_MAX, VALUES_MAX } from './json-shape.ts'

/** For each opening bracket of the document that was read last, by its index: the index of its closing bracket. */
let closings = new Int32Array(4096)
/** A document with more structural bytes has a list of its own, which goes with it. */
const KEPT_CLOSINGS_MAX = 1024 * 1024

function closingsFor(count: number): Int32Array {
  if (count > KEPT_CLOSINGS_MAX) return new Int32Array(count)
  if (closings.length < count) closings = new Int32Array(Math.min(2 * count, KEPT_CLOSINGS_MAX))
  return closings
}

export const LETTER_N = 0x6e
export const LETTER_T = 0x74
export const LETTER_F = 0x66

/** The opening brackets that are not closed, by their depth. */
const open = new Int32Array(DEPTH_MAX)

/** What may come next. */
const VALUE = 0
const VALUE_OR_END = 1
const NAME = 2
const NAME_OR_END = 3

/** Checks the syntax of a text between its structural bytes, and finds the end of each container. */
class Syntax {
  /** Whether a number of the text that was checked last would be written in another way. */
  hasRewrittenNumber = false
  private bytes: Uint8Array = new Uint8Array(0)
  private size = 0
  private positions: Uint32Array = new Uint32Array(0)
  private count = 0
  closings: Int32Array = closings
  /** Numbers of the text that was checked last with more digits than a double has. */
  longNumbers = 0

  /** Whether the first bytes are an object. */
  isObject(bytes: Uint8Array, size: number, positions: Uint32Array, count: number): boolean {
    this.bytes = bytes
    this.size = size
    this.positions = positions
    this.count = count
    this.closings = closingsFor(count)
    this.hasRewrittenNumber = false
    return this.check()
  }

  /** One loop over all positions, because two or more functions for each took twice the time. */
  private check(): boolean {
    const { bytes, positions, count, closings } = this
    this.longNumbers = 0
    if (bytes[positions[0] ?? 0] !== OPEN) return false
    let next = VALUE
    let depth = 0
    let isInObject = false
    /** The byte after what was read last. */
    let after = 0
    let values = 0
    let position = 0
    while (position < count) {
      const at = positions[position] ?? 0
      const byte = bytes[at] ?? 0
      if (next >= NAME) {
        // A name, or the end of an object without any.
        if (at !== after && !isBlankFrom(bytes, after, at)) return false
        if (byte === QUOTE) {
          const to = positions[position + 1] ?? 0
          const colon = positions[position + 2] ?? 0
          if (position + 3 >= count || bytes[colon] !== COLON) return false
          if (colon !== to + 1 && !isBlankFrom(bytes, to + 1, colon)) return false
          values++
          position += 3
          after = colon + 1
          next = VALUE
          continue
        }
        if (byte !== CLOSE || next === NAME) return false
      } else {
        if (byte === QUOTE) {
          if (at !== after && !isBlankFrom(bytes, after, at)) return false
          after = (positions[position + 1] ?? 0) + 1
          position += 2
        } else if (byte === OPEN || byte === OPEN_LIST) {
          if (at !== after && !isBlankFrom(bytes, after, at)) return false
          if (depth === DEPTH_MAX) return false
          isInObject = byte === OPEN
          open[depth++] = isInObject ? position : ~position
          position++
          after = at + 1
          next = isInObject ? NAME_OR_END : VALUE_OR_END
          continue
        } else {
          const isEnd = next === VALUE_OR_END && byte === CLOSE_LIST && isBlankFrom(bytes, after, at)
          if (!isEnd && !this.isScalar(after, at)) return false
          after = at
        }
      }
      // What closes after the value closes all that ends with it.
      for (;;) {
        const end = positions[position] ?? 0
        if (position >= count || (end !== after && !isBlankFrom(bytes, after, end))) return false
        const byte = bytes[end]
        position++
        after = end + 1
        if (byte === COMMA) {
          values++
          next = isInObject ? NAME : VALUE
          break
        }
        if (byte !== (isInObject ? CLOSE : CLOSE_LIST)) return false
        const opening = open[--depth] ?? 0
        closings[opening < 0 ? ~opening : opening] = position - 1
        if (depth === 0) return this.isEnd(position - 1, values)
        isInObject = (open[depth - 1] ?? 0) >= 0
      }
    }
    return false
  }

  /** Whether the text ends with the closing bracket at this position, within the limits. */
  private isEnd(position: number, values: number): boolean {
    const { bytes, size, positions, count } = this
    if (position !== count - 1 || values > VALUES_MAX) return false
    return isBlankFrom(bytes, (positions[position] ?? 0) + 1, size)
  }

  /** A number or a literal, with blanks around it. */
  private isScalar(start: number, end: number): boolean {
    const { bytes } = this
    let from = start
    let to = end
    while (from < to && isBlank(bytes[from])) from++
    while (from < to && isBlank(bytes[to - 1])) to--
    if (from === to) return false
    const first = bytes[from] ?? 0
    if (first === LETTER_T) return isLiteral(bytes, from, to, TRUE)
    if (first === LETTER_F) return isLiteral(bytes, from, to, FALSE)
    if (first === LETTER_N) return isLiteral(bytes, from, to, NULL)
    if (isPlainInteger(bytes, from, to)) return true
    if (to - from > NUMBER_CHARS_MAX) return false
    const text = Buffer.prototype.latin1Slice.call(bytes, from, to)
    if (!NUMBER.test(text)) return false
    if (!isExactNumber(text) && ++this.longNumbers > LONG_NUMBERS_MAX) return false
    if (String(Number(text)) !== text) this.hasRewrittenNumber = true
    return true
  }
}

/** One for all texts: each is checked before the next one is found. */
export const syntax = new Syntax()
const TRUE = Buffer.from('true')
const FALSE = Buffer.from('false')
const NULL = Buffer.from('null')
/** Every integer of so many digits is written as it was read. */
const INTEGER_BYTES_MAX = 15

function isLiteral(bytes: Uint8Array, from: number, to: number, literal: Uint8Array): boolean {
  if (to - from !== literal.length) return false
  for (let at = 0; at < literal.length; at++) if (bytes[from + at] !== literal[at]) return false
  return true
}

/** Most numbers of a schema are. Others are read as text. */
function isPlainInteger(bytes: Uint8Array, from: number, to: number): boolean {
  if ((bytes[from] === ZERO && to - from > 1) || to - from > INTEGER_BYTES_MAX) return false
  for (let at = from; at < to; at++) if (!isDigit(bytes[at] ?? 0)) return false
  return true
}

export function isBlankFrom(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (!isBlank(bytes[at])) return false
  return true
}

export function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

/**
 * The long texts of one request, kept as the bytes that the caller sent. In the parsed body a short mark stands for
 * each, so that a conversation of megabytes is checked and converted as a few kilobytes; in the provider's JSON each
 * mark is replaced by the bytes. Code that must read such a text calls `resolve`.
 */

import { BytePieces } from './byte-pieces.ts'
import { parseExact } from './exact-json.ts'
import type { JsonValue } from './json.ts'
import { BACKSLASH, NINE, ZERO } from './json-bytes.ts'
import { solidEnd, solidStart } from './solid-text.ts'
import type { Unparsed } from './unparsed.ts'

/** Where a mark is, and what it stands for. */
interface Mark {
  /** The mark's own place in the text that was searched. */
  readonly start: number
  readonly end: number
  /** How many times the text around it was written as a JSON string: 0 for a value, 1 for JSON, 2 for JSON in JSON. */
  readonly level: number
  /** True if it stands for a JSON value; false for the inside of a JSON string, with its escapes. */
  readonly isValue: boolean
  /** The bytes that it stands for, in the request. */
  readonly from: number
  readonly to: number
}

const LINE_END = 0x0a
const SEMICOLON = 0x3b
const NUMBER_SIGN = 0x23
const LETTER_N = 0x6e
const LETTER_U = 0x75
/** A shorter text costs less to parse than to replace by a mark, and to insert again. */
export const MARKED_BYTES_MIN = 192
/** A value of this size is sent from the request's own bytes; copying a shorter one costs less than a view of it. */
const VIEW_BYTES_MIN = 2 * 1024

/** Of a UTF-16 unit in a JSON string: `\u0000`. */
const CHARACTER_BYTES_MAX = 6
export class LongTexts {
  /** The whole request. */
  readonly buffer: Buffer
  /** Values that are not in the request, each in pieces. */
  private readonly values: BytePieces[] = []

  constructor(
    /** The whole request. */
    readonly bytes: Uint8Array,
    /**
     * The beginning of every mark: letters and digits that no caller can know, drawn for this request. So no text of
     * the request contains it.
     */
    private readonly secret: string,
    /** The first byte of each text, and the byte after its last, in turn. */
    private readonly bounds: number[],
    /** Commas and colons within long arguments of tool calls, for the limit on all arguments together. */
    readonly argumentValues: number,
    /** Absent if messages and tools were parsed. */
    readonly unparsed?: Unparsed | undefined,
  ) {
    this.buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  /**
   * The mark of a text, written within a JSON string. Its line end shows how often the text around it was
   * written as JSON: each time, the number of backslashes before the `n` doubles. It begins and ends with a solid
   * character, so that no trimming touches the line end.
   */
  static mark(secret: string, index: number): string {
    return `${secret}\\n${index};`
  }

  private markOf(from: number, to: number): string {
    return `${this.secret}\n${this.bounds.push(from, to) / 2 - 1};`
  }

  /** The text whose inside of a JSON string these bytes are, with a mark for it if it is long. */
  textAt(from: number, to: number): string {
    if (to - from < MARKED_BYTES_MIN) return this.stringAt(from, to)
    const start = solidStart(this.bytes, from, to)
    const end = start === -1 ? -1 : solidEnd(this.bytes, start, to)
    if (end - start < MARKED_BYTES_MIN) return this.stringAt(from, to)
    return this.stringAt(from, start) + this.markOf(start, end) + this.stringAt(end, to)
  }

  /** The same without a mark. */
  stringAt(from: number, to: number): string {
    const inside = from === to ? '' : this.buffer.toString('utf8', from, to)
    return inside.includes('\\') ? JSON.parse(`"${inside}"`) : inside
  }

  /**
   * A new mark, for a JSON value: written as a string in JSON, it is replaced together with its quotes. It may be
   * written once only, and not within a text.
   */
  markOfValue(from: number, to: number): string {
    return `${this.secret}\n${this.bounds.push(from, to) / 2 - 1}#`
  }

  /** The same for JSON that was written for the provider, in pieces. */
  markOfWritten(json: BytePieces): string {
    const index = this.values.push(json)
    return this.markOfValue(-index, 0)
  }

  /** Copies bytes of the request to a place in `target`. */
  copyTo(target: Buffer, at: number, from: number, to: number): void {
    this.buffer.copy(target, at, from, to)
  }

  /** The first mark in a text at or after `from`. */
  markIn(text: string, from: number): Mark | undefined {
    // Most texts are shorter than a mark, and a native search takes longer than this.
    if (text.length - from < this.secret.length) return undefined
    const start = text.indexOf(this.secret, from)
    if (start === -1) return undefined
    let at = start + this.secret.length
    const backslashesAt = at
    while (text.charCodeAt(at) === BACKSLASH) at++
    const backslashes = at - backslashesAt
    const level = backslashes === 0 ? 0 : 32 - Math.clz32(backslashes)
    if (text.charCodeAt(at++) !== (level === 0 ? LINE_END : LETTER_N)) throw new Error('the mark of a text was changed')
    let index = 0
    let code = text.charCodeAt(at++)
    for (; code >= ZERO && code <= NINE; code = text.charCodeAt(at++)) index = index * 10 + code - ZERO
    const [bound, to] = [this.bounds[2 * index], this.bounds[2 * index + 1]]
    const isValue = code === NUMBER_SIGN
    if (bound === undefined || to === undefined || (code !== SEMICOLON && !isValue))
      throw new Error('a mark stands for no text')
    // A value is written without the quotes of the mark.
    return isValue
      ? { start: start - 1, end: at + 1, level, isValue, from: bound, to }
      : { start, end: at, level, isValue, from: bound, to }
  }

  /** The text with the real text in place of each mark. Marks within JSON in it stay. */
  resolve(text: string): string {
    let resolved = ''
    let at = 0
    for (let mark = this.markIn(text, 0); mark !== undefined; mark = this.markIn(text, mark.end)) {
      if (mark.level > 0) continue
      resolved += text.slice(at, mark.start) + this.stringAt(mark.from, mark.to)
      at = mark.end
    }
    return at === 0 ? text : resolved + text.slice(at)
  }

  /** The first characters of what `resolve` returns, without decoding the rest. */
  beginning(text: string, chars: number): string {
    let resolved = ''
    let at = 0
    for (let mark = this.markIn(text, 0); mark !== undefined; mark = this.markIn(text, mark.end)) {
      if (mark.level > 0) continue
      resolved += text.slice(at, mark.start) + this.stringBeginning(mark.from, mark.to, chars)
      at = mark.end
      if (resolved.length >= chars) return resolved.slice(0, chars)
    }
    return (resolved + text.slice(at)).slice(0, chars)
  }

  /** At least so many characters of `stringAt`, or all of it. */
  private stringBeginning(from: number, to: number, chars: number): string {
    const end = from + CHARACTER_BYTES_MAX * (chars + 2)
    if (end >= to) return this.stringAt(from, to)
    const inside = this.buffer.toString('utf8', from, end)
    return inside.includes('\\') ? JSON.parse(`"${withoutHalfEscape(inside)}"`) : inside
  }

  /** The UTF-8 of JSON with the bytes in place of each mark, in pieces. No text is decoded, and none copied twice. */
  fill(json: string): BytePieces {
    const pieces = new BytePieces()
    /** What is not in `pieces` yet: marks, and the text between them from `read` on. */
    let marks: Mark[] = []
    let read = 0
    for (let mark = this.markIn(json, 0); mark !== undefined; mark = this.markIn(json, mark.end)) {
      const written = mark.from < 0 ? this.values[-1 - mark.from] : undefined
      if (written !== undefined || (mark.isValue && mark.to - mark.from >= VIEW_BYTES_MIN)) {
        const before = this.copied(json, read, mark.start, marks)
        pieces.add(before, 0, before.length)
        if (written === undefined) pieces.add(this.buffer, mark.from, mark.to)
        else pieces.addAll(written)
        marks = []
        read = mark.end
      } else marks.push(mark)
    }
    const after = this.copied(json, read, json.length, marks)
    pieces.add(after, 0, after.length)
    return pieces
  }

  /** A part of JSON with these marks in it. */
  private copied(json: string, from: number, to: number, marks: readonly Mark[]): Buffer {
    const part = json.slice(from, to)
    if (marks.length === 0) return Buffer.from(part)
    const nested: (string | undefined)[] = []
    let size = Buffer.byteLength(part)
    for (const mark of marks) {
      const inner = mark.level > 1 ? this.escaped(mark) : undefined
      nested.push(inner)
      size += (inner === undefined ? mark.to - mark.from : Buffer.byteLength(inner)) - (mark.end - mark.start)
    }
    const filled = Buffer.allocUnsafeSlow(size)
    let [at, read] = [0, from]
    for (const [index, mark] of marks.entries()) {
      at += filled.write(json.slice(read, mark.start), at)
      const inner = nested[index]
      at += inner === undefined ? this.buffer.copy(filled, at, mark.from, mark.to) : filled.write(inner, at)
      read = mark.end
    }
    filled.write(json.slice(read, to), at)
    return filled
  }

  /** A text in JSON within JSON, with the escapes that `JSON.stringify` writes: the inner JSON is a text of its own. */
  private escaped(mark: Mark): string {
    let inner = this.stringAt(mark.from, mark.to)
    for (let nesting = 0; nesting < mark.level; nesting++) inner = JSON.stringify(inner).slice(1, -1)
    return inner
  }

  /** The bytes as text: the inside of a JSON string, or JSON, as it was written. */
  writtenAt(from: number, to: number): string {
    return this.buffer.toString('utf8', from, to)
  }

  /** The JSON value that these bytes are, as `JSON.stringify` writes it, with exact numbers. */
  jsonAt(from: number, to: number): string {
    return JSON.stringify(this.valueAt(from, to))
  }

  /** The JSON value that these bytes are. */
  valueAt(from: number, to: number): JsonValue {
    return parseExact(this.buffer.toString('utf8', from, to))
  }
}

/** The inside of a JSON string that was cut anywhere, without an escape that the cut has halved. */
function withoutHalfEscape(inside: string): string {
  const at = inside.lastIndexOf('\\')
  const size = inside.length - at
  if (size >= CHARACTER_BYTES_MAX || (size > 1 && inside.charCodeAt(at + 1) !== LETTER_U)) return inside
  let run = at
  while (run > 0 && inside.charCodeAt(run - 1) === BACKSLASH) run--
  return (at - run) % 2 === 0 ? inside.slice(0, at) : inside
}

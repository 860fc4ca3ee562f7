/**
 * A JSON text by its structure: which members and items it has, and where their values are. The syntax of all of it is
 * checked, but a value is parsed only if somebody asks for it.
 *
 * A value is named by the index of its first structural byte among all of them. A number or a literal has none of its
 * own: it is named by the comma or bracket after it.
 */

import { isUtf8 } from 'node:buffer'
import { textOf } from '../core/bytes.ts'
import { parseExact, parseExactBody } from '../core/exact-json.ts'
import type { JsonValue } from '../core/json.ts'
import { BACKSLASH, COLON, COMMA, hasBackslash, isDigit, OPEN, OPEN_LIST, QUOTE } from '../core/json-bytes.ts'
import { structureFinder } from './json-structure.ts'
import { isBlank, isBlankFrom, LETTER_F, LETTER_N, LETTER_T, syntax } from './json-syntax.ts'

/** No value: an object has no such member. */
export const NONE = -1

/** Names, or strings, that a reader distinguishes. */
export type Words = readonly Uint8Array[]

export function words(...texts: readonly string[]): Words {
  return texts.map((text) => Buffer.from(text))
}

/** The value of a member that is left out of an object, and the JSON that is read in its place. */
export interface LeftOut {
  readonly value: number
  readonly placeholder: string
}

/** How many documents were read: what was found in one is kept until the next. */
let reads = 0

export class JsonDocument {
  /** The document itself, which is an object. */
  readonly root = 0
  private readonly read = reads
  private isKept = false

  private constructor(
    readonly bytes: Uint8Array,
    private positions: Uint32Array,
    private closings: Int32Array,
    private readonly count: number,
    /** How many of its numbers have more digits than a double has. */
    readonly longNumbers: number,
  ) {}

  /** How many structural bytes it has. */
  get structure(): number {
    return this.count
  }

  /**
   * The document, which is valid until the next one is read. Undefined if the bytes are not the JSON of an object in
   * UTF-8, or exceed the limits of a body.
   */
  static read(bytes: Uint8Array): JsonDocument | undefined {
    if (!isUtf8(bytes)) return undefined
    reads++
    const finder = structureFinder()
    const count = finder.find(bytes)
    if (count < 2) return undefined
    const { positions } = finder
    return syntax.isObject(bytes, bytes.length, positions, count)
      ? new JsonDocument(bytes, positions, syntax.closings, count, syntax.longNumbers)
      : undefined
  }

  /**
   * Whether the first bytes, which must be UTF-8, are the JSON of an object that a parser and `JSON.stringify` would
   * write in the same way, but for blanks and escapes: names that begin with a digit may move to the front, and numbers
   * such as 1.0 have another form. False if they exceed the limits of a body, too.
   */
  static isWrittenObject(bytes: Uint8Array, size: number): boolean {
    reads++
    const finder = structureFinder()
    const count = finder.find(bytes, size)
    if (count < 2) return false
    const { positions } = finder
    if (!syntax.isObject(bytes, size, positions, count) || syntax.hasRewrittenNumber) return false
    for (let colon = 3; colon < count; colon++) {
      if (bytes[positions[colon] ?? 0] !== COLON) continue
      const first = bytes[(positions[colon - 2] ?? 0) + 1] ?? 0
      if (isDigit(first) || first === BACKSLASH) return false
    }
    return true
  }

  /** Whether no other document was read since, or it was kept. */
  get isValid(): boolean {
    return this.isKept || this.read === reads
  }

  /** The same document, which stays valid. */
  keep(): this {
    this.isKept = true
    this.positions = this.positions.slice(0, this.count)
    this.closings = this.closings.slice(0, this.count)
    return this
  }

  /** False for `NONE`, as is every question for a type but `isNull`. */
  isString(value: number): boolean {
    return value !== NONE && this.byteAt(value) === QUOTE
  }

  /** A string that is not empty. */
  isFilled(value: number): boolean {
    return this.isString(value) && this.fromOf(value) !== this.toOf(value)
  }

  isObject(value: number): boolean {
    return value !== NONE && this.byteAt(value) === OPEN
  }

  isList(value: number): boolean {
    return value !== NONE && this.byteAt(value) === OPEN_LIST
  }

  /** A number, `true`, `false` or `null`. */
  isScalar(value: number): boolean {
    if (value === NONE) return false
    const byte = this.byteAt(value)
    return byte !== QUOTE && byte !== OPEN && byte !== OPEN_LIST
  }

  /** Also for a member that there is not. */
  isNull(value: number): boolean {
    return value === NONE || (this.isScalar(value) && this.bytes[this.fromOf(value)] === LETTER_N)
  }

  isTrue(value: number): boolean {
    return this.isScalar(value) && this.bytes[this.fromOf(value)] === LETTER_T
  }

  isBoolean(value: number): boolean {
    if (!this.isScalar(value)) return false
    const first = this.bytes[this.fromOf(value)]
    return first === LETTER_T || first === LETTER_F
  }

  /** The first byte of a value; of a string, that of its inside. */
  fromOf(value: number): number {
    const at = this.positions[value] ?? 0
    const byte = this.bytes[at]
    if (byte === QUOTE) return at + 1
    if (byte === OPEN || byte === OPEN_LIST) return at
    let from = (this.positions[value - 1] ?? 0) + 1
    while (isBlank(this.bytes[from])) from++
    return from
  }

  /** The byte after a value; of a string, that after its inside. */
  toOf(value: number): number {
    const at = this.positions[value] ?? 0
    const byte = this.bytes[at]
    if (byte === QUOTE) return this.positions[value + 1] ?? 0
    if (byte === OPEN || byte === OPEN_LIST) return (this.positions[this.closings[value] ?? 0] ?? 0) + 1
    let to = at
    while (isBlank(this.bytes[to - 1])) to--
    return to
  }

  /** The text of a string. */
  text(value: number): string {
    const inside = this.written(value)
    return inside.includes('\\') ? JSON.parse(`"${inside}"`) : inside
  }

  /** A value as it was written; a string without its quotes. */
  written(value: number): string {
    return textOf(this.bytes, this.fromOf(value), this.toOf(value))
  }

  /** A value, with exact numbers. */
  value(value: number): JsonValue {
    return this.isString(value) ? this.text(value) : parseExact(this.written(value))
  }

  /** Whether the bytes of a string have an escape, so that it is another text than they. */
  hasEscape(value: number): boolean {
    return hasBackslash(this.bytes, this.fromOf(value), this.toOf(value))
  }

  /** The index of a string in `known`; `NONE` for another string, and for a value that is none. */
  word(value: number, known: Words): number {
    if (!this.isString(value)) return NONE
    return this.wordIn(this.fromOf(value), this.toOf(value), known)
  }

  /**
   * Writes the value of each name into `found`, at the index of the name: that of the last member with this name, or
   * `NONE`. Returns how many members the object has.
   */
  select(object: number, names: Words, found: Int32Array): number {
    for (let index = 0; index < found.length; index++) found[index] = NONE
    const { positions, bytes } = this
    let members = 0
    let name = object + 1
    if (bytes[positions[name] ?? 0] !== QUOTE) return 0
    for (;;) {
      members++
      const index = this.wordIn((positions[name] ?? 0) + 1, positions[name + 1] ?? 0, names)
      const value = name + 3
      if (index !== NONE) found[index] = value
      const after = this.after(value)
      if (bytes[positions[after] ?? 0] !== COMMA) return members
      name = after + 1
    }
  }

  /** The value of the last member with this name, or `NONE`. */
  member(object: number, name: Words): number {
    const found = new Int32Array(1)
    this.select(object, name, found)
    return found[0] ?? NONE
  }

  /** The name of the first member of an object, or `NONE`. */
  firstName(object: number): number {
    const name = object + 1
    return this.byteAt(name) === QUOTE ? name : NONE
  }

  /** The name of the member after that of this name, or `NONE`. */
  nextName(name: number): number {
    const after = this.after(this.valueOf(name))
    return this.byteAt(after) === COMMA ? after + 1 : NONE
  }

  /** The value of the member of this name. */
  valueOf(name: number): number {
    return name + 3
  }

  /** The first item of a list, or `NONE`. */
  firstItem(list: number): number {
    const isEmpty = this.closings[list] === list + 1 && this.isBlankBetween(list, list + 1)
    return isEmpty ? NONE : list + 1
  }

  /** The item after this one, or `NONE`. */
  nextItem(item: number): number {
    const after = this.after(item)
    return this.byteAt(after) === COMMA ? after + 1 : NONE
  }

  /** How many items a list has. */
  countItems(list: number): number {
    let count = 0
    for (let item = this.firstItem(list); item !== NONE; item = this.nextItem(item)) count++
    return count
  }

  /**
   * The document, parsed, with placeholders for some of its values, which must be in their order. Numbers of its own
   * members are plain. Throws `LongNumbersError`.
   */
  parse(leftOut: readonly LeftOut[]): JsonValue {
    const { bytes } = this
    let text = ''
    let at = 0
    for (const { value, placeholder } of leftOut) {
      const isString = this.isString(value)
      text += textOf(bytes, at, this.fromOf(value) - (isString ? 1 : 0)) + placeholder
      at = this.toOf(value) + (isString ? 1 : 0)
    }
    return parseExactBody(text + textOf(bytes, at, bytes.length))
  }

  /** The index of the structural byte after a value. */
  private after(value: number): number {
    const byte = this.byteAt(value)
    if (byte === QUOTE) return value + 2
    return byte === OPEN || byte === OPEN_LIST ? (this.closings[value] ?? 0) + 1 : value
  }

  private byteAt(value: number): number {
    return this.bytes[this.positions[value] ?? 0] ?? 0
  }

  private isBlankBetween(one: number, other: number): boolean {
    return isBlankFrom(this.bytes, (this.positions[one] ?? 0) + 1, this.positions[other] ?? 0)
  }

  private wordIn(from: number, to: number, known: Words): number {
    const { bytes } = this
    const length = to - from
    for (let index = 0; index < known.length; index++) {
      const word = known[index]
      if (word === undefined || word.length !== length) continue
      let at = 0
      while (at < length && word[at] === bytes[from + at]) at++
      if (at === length) return index
    }
    // An escape may spell any character. Each takes at least one byte more than the character.
    return hasBackslash(bytes, from, Math.min(to, from + ESCAPED_BYTES_MAX)) ? this.escapedWord(from, to, known) : NONE
  }

  private escapedWord(from: number, to: number, known: Words): number {
    if (to - from > ESCAPED_BYTES_MAX) return NONE
    const text = Buffer.from(String(JSON.parse(`"${textOf(this.bytes, from, to)}"`)))
    return known.findIndex((word) => text.equals(word))
  }
}

/** No word that a reader looks for is longer if all of its characters are escaped. */
const ESCAPED_BYTES_MAX = 256

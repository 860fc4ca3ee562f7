/**
 * Reads a JSON text by its structure: which members and items it has and where their values are. No value is parsed,
 * but the syntax of all of them is checked. The caller asks for what it expects next; anything else is `Unusual`.
 */

import {
  BACKSLASH,
  CLOSE,
  CLOSE_LIST,
  COLON,
  COMMA,
  isDigit,
  OPEN,
  OPEN_LIST,
  QUOTE,
  ZERO,
} from '../core/json-bytes.ts'
import { DEPTH_MAX } from './json-shape.ts'

/** The text is not of the form that its reader expects; it may be valid or not. */
export class Unusual extends Error {}

/** One shared instance: making the stack of a new one takes a microsecond, and no code reads it. */
const UNUSUAL = new Unusual('the JSON has another form')

/** What `member` returns for a name that is not among those that were asked for, and at the end of an object. */
export const UNKNOWN = -1
export const END = -2

/** Names, or strings, that a reader distinguishes. */
export type Words = readonly Uint8Array[]

export function words(...texts: readonly string[]): Words {
  return texts.map((text) => Buffer.from(text))
}

export function unusual(): never {
  throw UNUSUAL
}

/** Each method reads what comes next, and throws `Unusual` if it is something else. */
export class JsonCursor {
  /** The inside of the last string, or the whole of the last number or literal. */
  from = 0
  to = 0
  /**
   * Set once a value was read that a parser and `JSON.stringify` would write in another way: with a name that begins
   * with a digit, which a parser may move to the front, or with a number in another form, such as 1.0. Blanks and
   * escapes do not count.
   */
  isRewritten = false
  /** The index of the position that is read next. */
  private next = 0
  /** The index of the byte after what was read last. */
  private after = 0
  private blanks: number[] = []

  constructor(
    readonly bytes: Uint8Array,
    /** Where the structure is, as `StructureFinder` returns it. */
    private readonly positions: Uint32Array,
    private readonly count: number = positions.length,
  ) {}

  /** How many positions were read. */
  get position(): number {
    return this.next
  }

  /** The index of the byte after what was read last. */
  get offset(): number {
    return this.after
  }

  /** The index of the byte after the next structural byte. */
  get nextOffset(): number {
    return (this.positions[this.next] ?? 0) + 1
  }

  /** Notes that blanks may take the place of what was read from this byte on. */
  blank(from: number): void {
    this.blanks.push(from, this.after)
  }

  /** The last of these parts ends after the next structural byte. */
  extendBlanks(): void {
    this.blanks[this.blanks.length - 1] = this.nextOffset
  }

  /** The first byte of each of these parts, and the byte after its last. Forgets them. */
  takeBlanks(): readonly number[] {
    const { blanks } = this
    // Also if it is empty: the list that was returned must not get the parts that are noted from now on.
    this.blanks = []
    return blanks
  }

  /** Whether a string, an object, a list or the end of one comes next, by its first byte. */
  isNext(byte: number): boolean {
    return this.next < this.count && this.bytes[this.positions[this.next] ?? 0] === byte
  }

  /** The opening brace of an object; `member` reads the rest. Returns the index of the byte. */
  object(): number {
    return this.take(OPEN)
  }

  /**
   * The next name of the object, and its colon: its index in `names`, `UNKNOWN`, or `END` after the closing brace. A
   * name with an escape is unusual, because it may spell any name. Without `names` every name is unknown.
   *
   * All of it in one function, because most of the structure is names: in four, reading 200 KB took a tenth longer.
   */
  member(names?: Words): number {
    const { bytes, positions, count } = this
    let { next, after } = this
    let at = positions[next] ?? 0
    if (this.isNext(CLOSE)) {
      this.take(CLOSE)
      return END
    }
    if (bytes[after - 1] !== OPEN) {
      if (bytes[at] !== COMMA || !isBlankFrom(bytes, after, at)) unusual()
      after = at + 1
      at = positions[++next] ?? 0
    }
    if (next + 2 >= count) unusual()
    const to = positions[next + 1] ?? 0
    const colon = positions[next + 2] ?? 0
    if (bytes[at] !== QUOTE || !isBlankFrom(bytes, after, at)) unusual()
    if (bytes[colon] !== COLON || !isBlankFrom(bytes, to + 1, colon)) unusual()
    this.from = at + 1
    this.to = to
    this.next = next + 3
    this.after = colon + 1
    if (names === undefined) return UNKNOWN
    const name = this.word(names)
    if (name === UNKNOWN && this.hasEscape()) unusual()
    return name
  }

  /** The opening bracket of a list that is not empty; `isItem` reads what is between the items. */
  list(): void {
    this.take(OPEN_LIST)
  }

  /** The opening bracket of any list. False if the list has no items: then all of it is read. */
  hasItems(): boolean {
    this.list()
    if (!this.isNext(CLOSE_LIST)) return true
    this.take(CLOSE_LIST)
    return false
  }

  /** After an item: whether another one follows. Otherwise the closing bracket is read. */
  isItem(): boolean {
    if (this.isNext(COMMA)) {
      this.take(COMMA)
      return true
    }
    this.take(CLOSE_LIST)
    return false
  }

  string(): void {
    this.from = this.take(QUOTE) + 1
    // A string has no structure inside.
    if (this.next === this.count) unusual()
    this.to = this.positions[this.next++] ?? 0
    this.after = this.to + 1
  }

  /** The index of the last string in `known`, or `UNKNOWN`. */
  word(known: Words): number {
    const { bytes, from } = this
    const length = this.to - from
    for (let index = 0; index < known.length; index++) {
      const word = known[index]
      if (word === undefined || word.length !== length) continue
      let at = 0
      while (at < length && word[at] === bytes[from + at]) at++
      if (at === length) return index
    }
    return UNKNOWN
  }

  /** A number or a literal: its index in `known`, or `UNKNOWN`. */
  literal(known: Words): number {
    this.scalar()
    return this.word(known)
  }

  /** Goes back to a place where the cursor was. */
  moveTo(position: number, offset: number): void {
    this.next = position
    this.after = offset
  }

  /** Any value, within `depth` containers. */
  value(depth: number): void {
    if (this.isNext(QUOTE)) this.string()
    else if (this.isNext(OPEN)) this.members(depth + 1)
    else if (this.isNext(OPEN_LIST)) this.items(depth + 1)
    else this.scalar()
  }

  private members(depth: number): void {
    if (depth > DEPTH_MAX) unusual()
    this.take(OPEN)
    while (this.member() !== END) {
      const first = this.bytes[this.from] ?? 0
      if (isDigit(first) || first === BACKSLASH) this.isRewritten = true
      this.value(depth)
    }
  }

  private items(depth: number): void {
    if (depth > DEPTH_MAX) unusual()
    this.take(OPEN_LIST)
    // A single number or literal has no structural byte of its own.
    if (this.isNext(CLOSE_LIST) && this.isBlankBeforeNext()) {
      this.take(CLOSE_LIST)
      return
    }
    do this.value(depth)
    while (this.isItem())
  }

  /** A number or a literal: what is before the next structural byte. */
  private scalar(): void {
    const { bytes } = this
    let to = this.next < this.count ? (this.positions[this.next] ?? 0) : bytes.length
    let from = this.after
    while (from < to && isBlank(bytes[from])) from++
    while (from < to && isBlank(bytes[to - 1])) to--
    this.from = from
    this.to = to
    this.after = to
    if (!this.isScalar(from, to)) unusual()
  }

  private isScalar(from: number, to: number): boolean {
    const length = to - from
    if (length === 1) return isDigit(this.bytes[from] ?? 0)
    if (length === 0 || length > SCALAR_BYTES_MAX) return false
    if (this.word(LITERALS) !== UNKNOWN || isPlainInteger(this.bytes, from, to)) return true
    const text = Buffer.prototype.latin1Slice.call(this.bytes, from, to)
    if (!NUMBER.test(text)) return false
    const value = Number(text)
    if (`${value}` !== text) this.isRewritten = true
    // What is too large, a parser reads as infinite.
    return Number.isFinite(value)
  }

  /** One structural byte, with nothing but blanks before it. Returns its index. */
  private take(byte: number): number {
    const { bytes } = this
    const at = this.positions[this.next] ?? 0
    if (this.next >= this.count || bytes[at] !== byte || !this.isBlankBeforeNext()) unusual()
    this.next++
    this.after = at + 1
    return at
  }

  private isBlankBeforeNext(): boolean {
    return isBlankFrom(this.bytes, this.after, this.positions[this.next] ?? 0)
  }

  /** Whether the last string has an escape, so that it may be another text than its bytes. */
  hasEscape(): boolean {
    const { bytes, to } = this
    for (let at = this.from; at < to; at++) if (bytes[at] === BACKSLASH) return true
    return false
  }
}

function isBlankFrom(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (!isBlank(bytes[at])) return false
  return true
}

export function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

const LITERALS = words('true', 'false', 'null')
/** Every integer of so many digits is written as it was read. */
const INTEGER_BYTES_MAX = 15

/** Most numbers of a schema are. Others are read as text. */
function isPlainInteger(bytes: Uint8Array, from: number, to: number): boolean {
  if (bytes[from] === ZERO || to - from > INTEGER_BYTES_MAX) return false
  for (let at = from; at < to; at++) if (!isDigit(bytes[at] ?? 0)) return false
  return true
}

/** RFC 8259, section 6. */
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/
/** A longer number is unusual. */
const SCALAR_BYTES_MAX = 64

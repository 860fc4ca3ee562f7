/**
 * What the readers of unparsed messages share. They assign one value at a time: for `[a, b] = [c, d]` JavaScriptCore
 * may make a list and its iterator, which took 5 to 16 % of the time to read 200 KB.
 */

import { COMMA, QUOTE } from '../core/json-bytes.ts'
import type { EntryWriter } from '../core/unparsed.ts'
import { END, type JsonCursor, UNKNOWN, unusual, type Words, words } from '../wire/json-cursor.ts'

/** Where the values of a tool's members are, by the index of the member's name. Used for one tool after the other. */
export class ToolMembers {
  private readonly from: Int32Array
  private readonly to: Int32Array

  constructor(names: Words) {
    this.from = new Int32Array(names.length)
    this.to = new Int32Array(names.length)
  }

  begin(): void {
    this.from.fill(-1)
  }

  set(name: number, from: number, to: number): void {
    this.from[name] = from
    this.to[name] = to
  }

  /** The first byte of the value, or -1. */
  begins(name: number): number {
    return this.from[name] ?? -1
  }

  /** The byte after the value, if there is one. */
  ends(name: number): number {
    return this.to[name] ?? -1
  }

  /** Adds an entry for a member that the tool has. */
  addTo(entries: EntryWriter, kind: number, name: number): void {
    const from = this.begins(name)
    if (from !== -1) entries.add(kind, from, this.ends(name))
  }
}

/**
 * The members of the object that is next in the cursor after its brace. Those of unknown names are left out of what a
 * provider gets.
 */
export class Members {
  private seen = 0
  /** Where the current member begins, with the comma before it. */
  private from = 0
  /** Whether the current member was left out. */
  private isOut = true
  /** Whether a member before the current one stays, so that the comma between them goes with the current one. */
  private hasKept = false
  /** The last member was left out with none before it: the comma after it goes with it. */
  private isOpen = false

  constructor(
    private readonly cursor: JsonCursor,
    private readonly names: Words,
    /** How many containers the members are in, this object included. */
    private readonly depth: number,
  ) {}

  /**
   * The index of the next known name, whose value is next in the cursor, or `END`. Throws `Unusual` for a name that is
   * there twice: which of the two counts would depend on the parser.
   */
  next(): number {
    const { cursor } = this
    for (;;) {
      this.hasKept ||= !this.isOut
      this.from = cursor.offset
      if (this.isOpen && cursor.isNext(COMMA)) {
        cursor.extendBlanks()
        this.from = cursor.nextOffset
      }
      this.isOpen = false
      const name = cursor.member(this.names)
      if (name === END) {
        this.isOut = true
        return END
      }
      this.isOut = false
      if (name !== UNKNOWN) {
        if ((this.seen & (1 << name)) !== 0) unusual()
        this.seen |= 1 << name
        return name
      }
      cursor.value(this.depth)
      this.leaveOut()
    }
  }

  /** Leaves out the current member, whose value was read. */
  leaveOut(): void {
    this.cursor.blank(this.from)
    this.isOut = true
    this.isOpen = !this.hasKept
  }
}

const SCHEMA = words('type')
const OBJECT = words('object')

/** Reads an object within `depth` containers: whether it is the JSON Schema of an object, as Anthropic requires. */
export function readSchema(cursor: JsonCursor, depth: number): boolean {
  cursor.object()
  let isObject = false
  for (let name = cursor.member(SCHEMA); name !== END; name = cursor.member(SCHEMA)) {
    const isText = cursor.isNext(QUOTE)
    cursor.value(depth + 1)
    // Of members with the same name a parser takes the last.
    if (name !== UNKNOWN) isObject = isText && cursor.word(OBJECT) === 0
  }
  return isObject
}

const NAME_BYTES_MAX = 64

/**
 * True for the name of a tool that every provider accepts as it is: at most 64 letters, digits, `_` and `-`, of which
 * the first is a letter.
 */
export function isLegalName(bytes: Uint8Array, from: number, to: number): boolean {
  if (from === to || to - from > NAME_BYTES_MAX || (bytes[from] ?? 0) < 0x41) return false
  for (let at = from; at < to; at++) {
    const byte = bytes[at] ?? 0
    const isLetter = (byte | 0x20) >= 0x61 && (byte | 0x20) <= 0x7a
    if (!isLetter && !(byte >= 0x30 && byte <= 0x39) && byte !== 0x5f && byte !== 0x2d) return false
  }
  return true
}

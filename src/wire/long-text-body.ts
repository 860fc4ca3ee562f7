/**
 * The fast way to read a large JSON body: long texts are checked but neither decoded nor parsed. The body without them
 * is parsed as usual, with a mark in place of each (`core/long-texts.ts`).
 */

import { isUtf8 } from 'node:buffer'
import { LONG_NUMBERS_MAX, parseExactBody } from '../core/exact-json.ts'
import { isObject, type JsonObject } from '../core/json.ts'
import { CLOSE, CLOSE_LIST, COLON, COMMA, isDigit, MINUS, OPEN, OPEN_LIST, QUOTE } from '../core/json-bytes.ts'
import { LongTexts, MARKED_BYTES_MIN } from '../core/long-texts.ts'
import { solidEnd, solidStart } from '../core/solid-text.ts'
import type { Unparsed, UnparsedMessages, UnparsedTools } from '../core/unparsed.ts'
import { END, JsonCursor, Unusual, type Words } from './json-cursor.ts'
import { DEPTH_MAX, VALUES_MAX } from './json-shape.ts'
import { structureFinder } from './json-structure.ts'
import { valuesWithin } from './json-text.ts'

/**
 * Where a body has texts that reach a provider unread. Containers are counted from 1, the body itself: in
 * `{"messages":[{"content":"…"}]}`, the content is in container 3 under `messages`.
 */
interface TextPlace {
  /** The member of the body that the string is in, or is. */
  readonly under: string
  readonly depth: number
  /** The name of the member, in the container of that depth. */
  readonly name: string
  /**
   * `json`: the text of a JSON object, whose depth and values are limited. `tree`: every string below the member, whose
   * value is not a string itself.
   */
  readonly holds?: 'json' | 'tree'
}

export interface ReadBody {
  readonly json: JsonObject
  /** Absent if the body was read the usual way. */
  readonly longTexts?: LongTexts | undefined
}

/** How to read the large bodies of a dialect. */
export interface LargeBody {
  readonly textPlaces: readonly TextPlace[]
  /** Absent: they are always parsed. */
  readonly lists?: UnparsedLists | undefined
}

/** Each reader reads the value of a member, which is next in the cursor, and throws `Unusual` if it must be parsed. */
interface UnparsedLists {
  /** The names of the members: messages, tools, and system texts if they are not among the messages. */
  readonly names: Words
  readonly messages: (cursor: JsonCursor) => UnparsedMessages
  readonly tools: (cursor: JsonCursor) => UnparsedTools
  /** Returns entries, for the front of those of the messages. If there are none, the value is parsed. */
  readonly system?: (cursor: JsonCursor) => UnparsedMessages
  /** What is parsed in place of each unparsed value, by its index in `names`: values that the dialect accepts. */
  readonly placeholders: readonly string[]
}

/** A shorter body is parsed as fast as it is searched. */
const BODY_BYTES_MIN = 8 * 1024

/**
 * Reads a large body. Undefined if the body must be read the usual way: it is small, has nothing that may stay
 * unparsed, or is invalid in any way, so that the error is the same.
 */
export function readLargeBody(bytes: Uint8Array, { textPlaces, lists }: LargeBody): ReadBody | undefined {
  if (bytes.length < BODY_BYTES_MIN || textPlaces.length === 0 || !isUtf8(bytes)) return undefined
  const finder = structureFinder()
  const found = finder.find(bytes)
  if (found === -1) return undefined
  const { positions } = finder
  // What stays unparsed is converted with the same limit as what is parsed, which is counted there.
  if (found > LONG_NUMBERS_MAX && longNumbersIn(bytes, positions, found) > LONG_NUMBERS_MAX) return undefined
  // At most all positions are values.
  const unparsed = lists !== undefined && found <= VALUES_MAX ? unparsedIn(bytes, positions, found, lists) : NOTHING
  const search = new TextSearch(bytes, positions, found, textPlaces)
  if (!search.run(unparsed.holes)) return undefined
  if (search.bounds.length === 0 && unparsed.holes.length === 0) return undefined
  const secret = crypto.getRandomValues(Buffer.allocUnsafe(12)).toString('hex')
  let json: unknown
  try {
    json = parseExactBody(search.withMarks(secret, unparsed.holes))
  } catch {
    // Invalid outside of what was checked: the usual way reports it.
    return undefined
  }
  if (!isObject(json)) return undefined
  const isUnparsed = unparsed.holes.length > 0
  // Only now that the structure is no longer needed.
  for (const { blanks } of unparsed.holes)
    for (let at = 0; at < blanks.length; at += 2) bytes.fill(BLANK, blanks[at], blanks[at + 1])
  const longTexts = new LongTexts(
    bytes,
    secret,
    search.bounds,
    search.argumentValues,
    isUnparsed ? unparsed : undefined,
  )
  return { json, longTexts }
}

/** The shortest number that needs all digits of a double. */
const LONG_NUMBER_BYTES = 16
const SMALL_E = 0x65

/** Numbers that may keep their text (`core/exact-json.ts`): long, with an exponent, or negative. Some are none. */
function longNumbersIn(bytes: Uint8Array, positions: Uint32Array, found: number): number {
  let count = 0
  for (let position = 0; position < found; position++) {
    const from = (positions[position] ?? 0) + 1
    const to = positions[position + 1] ?? bytes.length
    const first = bytes[from] ?? 0
    if (to - from >= LONG_NUMBER_BYTES ? bytes[from - 1] !== QUOTE : first === MINUS || hasExponent(bytes, from, to))
      count++
  }
  return count
}

function hasExponent(bytes: Uint8Array, from: number, to: number): boolean {
  if (!isDigit(bytes[from] ?? 0)) return false
  for (let at = from + 1; at < to; at++) if (((bytes[at] ?? 0) | 0x20) === SMALL_E) return true
  return false
}

/** An unparsed value, and what is parsed in its place. */
interface Hole {
  /** Its first byte, and the byte after its last. */
  readonly from: number
  readonly to: number
  /** Its first position, and the position after its last. */
  readonly firstPosition: number
  readonly endPosition: number
  readonly placeholder: string
  /** What of the value no provider gets: the first byte of each part, and the byte after its last. */
  readonly blanks: readonly number[]
}

interface UnparsedMembers extends Unparsed {
  /** In order. */
  readonly holes: readonly Hole[]
}

const NOTHING: UnparsedMembers = { holes: [] }
const BLANK = 0x20
const MESSAGES = 0
const TOOLS = 1
const SYSTEM = 2

/** The members of the body that can stay unparsed. */
function unparsedIn(bytes: Uint8Array, positions: Uint32Array, found: number, lists: UnparsedLists): UnparsedMembers {
  const cursor = new JsonCursor(bytes, positions, found)
  const reader = new UnparsedReader(cursor, lists)
  try {
    return reader.read() ? reader.found() : NOTHING
  } catch (error) {
    if (!(error instanceof Unusual)) throw error
    return NOTHING
  }
}

class UnparsedReader {
  private readonly holes: (Hole & { readonly name: number })[] = []
  private messages: UnparsedMessages | undefined
  private system: UnparsedMessages | undefined
  private tools: UnparsedTools | undefined
  private hasParsedSystem = false

  constructor(
    private readonly cursor: JsonCursor,
    private readonly lists: UnparsedLists,
  ) {}

  /** False if all must be parsed. Throws `Unusual`. */
  read(): boolean {
    const { cursor, lists } = this
    let seen = 0
    cursor.object()
    for (let name = cursor.member(lists.names); name !== END; name = cursor.member(lists.names)) {
      if (name < 0) {
        cursor.value(1)
        continue
      }
      // Of members with the same name a parser takes the last.
      if ((seen & (1 << name)) !== 0) return false
      seen |= 1 << name
      this.member(name)
    }
    return true
  }

  private member(name: number): void {
    const { cursor, lists } = this
    const [firstPosition, before] = [cursor.position, cursor.offset]
    const from = cursor.nextOffset - 1
    if (attempt(() => this.list(name))) {
      const { position: endPosition, offset: to } = cursor
      const placeholder = lists.placeholders[name] ?? 'null'
      const blanks = cursor.takeBlanks()
      if (name === SYSTEM && this.system?.entries.length === 0) return
      this.holes.push({ name, from, to, firstPosition, endPosition, placeholder, blanks })
      return
    }
    if (name === SYSTEM) this.hasParsedSystem = true
    cursor.takeBlanks()
    cursor.moveTo(firstPosition, before)
    cursor.value(1)
  }

  private list(name: number): void {
    const { cursor, lists } = this
    if (name === MESSAGES) this.messages = lists.messages(cursor)
    else if (name === TOOLS) this.tools = lists.tools(cursor)
    else this.system = lists.system?.(cursor)
  }

  /** What can stay unparsed: messages only together with their system texts. */
  found(): UnparsedMembers {
    const { tools, system } = this
    const messages = this.hasParsedSystem ? undefined : this.messages
    const holes = messages === undefined ? this.holes.filter(({ name }) => name === TOOLS) : this.holes
    return { holes, messages: system === undefined ? messages : messages?.after(system), tools }
  }
}

/** False if it is unusual. */
function attempt(read: () => void): boolean {
  try {
    read()
    return true
  } catch (error) {
    if (error instanceof Unusual) return false
    throw error
  }
}

/** One pass over the structure of a body. */
class TextSearch {
  /** The first byte of each long text, and the byte after its last, in turn. */
  readonly bounds: number[] = []
  argumentValues = 0
  private depth = 0
  /** Commas and colons so far. */
  private values = 0
  private isInString = false
  /** The last string. */
  private start = 0
  private end = 0
  /** The last comma, colon or bracket. */
  private before = 0
  /** By depth: whether the container is an object, and the name of its current member. */
  private readonly isObject = new Uint8Array(DEPTH_MAX + 2)
  private readonly nameStarts = new Int32Array(DEPTH_MAX + 2)
  private readonly nameEnds = new Int32Array(DEPTH_MAX + 2)

  constructor(
    private readonly bytes: Uint8Array,
    private readonly positions: Uint32Array,
    private readonly found: number,
    private readonly places: readonly TextPlace[],
  ) {}

  /** False if the body is too deep or too full; the rest of the syntax is left to the parser. Holes are left out. */
  run(holes: readonly Hole[]): boolean {
    let from = 0
    for (const { firstPosition, endPosition } of holes) {
      if (!this.read(from, firstPosition)) return false
      from = endPosition
    }
    return this.read(from, this.found) && !this.isInString && this.values <= VALUES_MAX
  }

  private read(from: number, to: number): boolean {
    const { bytes, positions, isObject, nameStarts, nameEnds } = this
    let { isInString, start, end, before, values } = this
    for (let index = from; index < to; index++) {
      const at = positions[index] ?? 0
      const byte = bytes[at] ?? 0
      switch (byte) {
        case QUOTE:
          isInString = !isInString
          if (isInString) {
            start = at + 1
          } else {
            end = at
            if (end - start >= MARKED_BYTES_MIN && (before === COLON || isObject[this.depth] === 0))
              this.text(start, end)
          }
          break
        case COLON:
          nameStarts[this.depth] = start
          nameEnds[this.depth] = end
          before = COLON
          values++
          break
        case COMMA:
          before = COMMA
          values++
          break
        case OPEN:
        case OPEN_LIST:
          if (++this.depth > DEPTH_MAX) return false
          isObject[this.depth] = byte === OPEN ? 1 : 0
          before = byte
          break
        case CLOSE:
        case CLOSE_LIST:
          if (--this.depth < 0) return false
          before = byte
          break
      }
    }
    this.isInString = isInString
    this.start = start
    this.end = end
    this.before = before
    this.values = values
    return true
  }

  /** The body as text, with marks in place of the long texts and placeholders in the holes. */
  withMarks(secret: string, holes: readonly Hole[]): string {
    const { bytes, bounds } = this
    const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    let text = ''
    let at = 0
    let hole = 0
    const fillBefore = (end: number) => {
      for (let next = holes[hole]; next !== undefined && next.from < end; next = holes[++hole]) {
        text += body.toString('utf8', at, next.from) + next.placeholder
        at = next.to
      }
    }
    for (let index = 0; index < bounds.length; index += 2) {
      fillBefore(bounds[index] ?? 0)
      text += body.toString('utf8', at, bounds[index] ?? 0) + LongTexts.mark(secret, index / 2)
      at = bounds[index + 1] ?? 0
    }
    fillBefore(bytes.length)
    return text + body.toString('utf8', at, bytes.length)
  }

  /** A long value. It is kept as bytes if its place allows it, without the blanks at its ends, which others trim. */
  private text(start: number, end: number): void {
    const place = this.place()
    if (place === undefined) return
    const from = solidStart(this.bytes, start, end)
    const to = from === -1 ? -1 : solidEnd(this.bytes, from, end)
    if (to - from < MARKED_BYTES_MIN) return
    if (place.holds === 'json') {
      const values = valuesWithin(this.bytes, start, end)
      if (values === -1) return
      this.argumentValues += values
    }
    this.bounds.push(from, to)
  }

  private place(): TextPlace | undefined {
    for (const place of this.places) {
      const isHere = place.holds === 'tree' ? this.depth > place.depth : this.depth === place.depth
      if (isHere && this.isName(place.depth, place.name) && this.isName(1, place.under)) return place
    }
    return undefined
  }

  /** `name`: in ASCII. */
  private isName(depth: number, name: string): boolean {
    const { bytes } = this
    const start = this.nameStarts[depth] ?? 0
    if ((this.nameEnds[depth] ?? 0) - start !== name.length || this.isObject[depth] === 0) return false
    for (let at = 0; at < name.length; at++) if (bytes[start + at] !== name.charCodeAt(at)) return false
    return true
  }
}

/**
 * The fast way to read a large JSON body: long texts are checked but neither decoded nor parsed. The body without them
 * is parsed as usual, with a mark in place of each (`core/long-texts.ts`).
 */

import { isUtf8 } from 'node:buffer'
import { isObject, type JsonObject } from '../core/json.ts'
import { LongTexts } from '../core/long-texts.ts'
import { DEPTH_MAX, VALUES_MAX } from './json-shape.ts'
import { CHUNK, structureFinder } from './json-structure.ts'

/**
 * Strings that nobody reads on their way to a provider. Containers are counted from 1, the body itself: in
 * `{"messages":[{"content":"…"}]}`, the content is in container 3 under `messages`.
 */
export interface TextPlace {
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

/** A shorter body is parsed as fast as it is searched. */
const BODY_BYTES_MIN = 8 * 1024
/** A shorter text costs less to parse than to replace by a mark, and to insert again. */
const TEXT_BYTES_MIN = 192
/** How far from the ends of a text its first and last solid characters are looked for. */
const SOLID_WITHIN = 256
/** The longest escape, `\u0041`. */
const ESCAPE_BYTES = 6

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
const OPEN_LIST = 0x5b
const CLOSE_LIST = 0x5d
const OPEN = 0x7b
const CLOSE = 0x7d
const LETTER_U = 0x75

/**
 * Reads a body with long texts. Undefined if the body must be read the usual way: it is small, has no long text in
 * these places, or is invalid in any way, so that the error is the same.
 */
export function readWithLongTexts(bytes: Uint8Array, places: readonly TextPlace[]): ReadBody | undefined {
  if (bytes.length < BODY_BYTES_MIN || places.length === 0 || !isUtf8(bytes)) return undefined
  const search = new TextSearch(bytes, places)
  if (!search.run() || search.bounds.length === 0) return undefined
  const secret = crypto.getRandomValues(Buffer.allocUnsafe(12)).toString('hex')
  let json: unknown
  try {
    json = JSON.parse(search.withMarks(secret))
  } catch {
    // Invalid outside long texts: the usual way reports it.
    return undefined
  }
  if (!isObject(json)) return undefined
  return { json, longTexts: new LongTexts(bytes, secret, search.bounds, search.argumentValues) }
}

/** One pass over the bytes of a body. */
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
  private readonly places: readonly (readonly [place: TextPlace, under: Uint8Array, name: Uint8Array])[]

  constructor(
    private readonly bytes: Uint8Array,
    places: readonly TextPlace[],
  ) {
    this.places = places.map((place) => [place, Buffer.from(place.under), Buffer.from(place.name)])
  }

  /** False if a string is invalid, or the body too deep or too full; the rest of the syntax is left to the parser. */
  run(): boolean {
    const { bytes } = this
    const finder = structureFinder()
    for (let from = 0; from < bytes.length; from += CHUNK) {
      const found = finder.find(bytes, from)
      if (found === -1 || !this.read(finder.positions, found, from)) return false
    }
    return !this.isInString && this.values <= VALUES_MAX
  }

  /** The structure of one chunk. */
  private read(positions: Uint32Array, found: number, from: number): boolean {
    const { bytes, isObject, nameStarts, nameEnds } = this
    let { isInString, start, end, before, values } = this
    for (let index = 0; index < found; index++) {
      const at = from + (positions[index] ?? 0)
      const byte = bytes[at] ?? 0
      switch (byte) {
        case QUOTE:
          isInString = !isInString
          if (isInString) {
            start = at + 1
          } else {
            end = at
            if (end - start >= TEXT_BYTES_MIN && (before === COLON || isObject[this.depth] === 0)) this.text(start, end)
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

  /** The body as text, with marks in place of the long texts. */
  withMarks(secret: string): string {
    const { bytes, bounds } = this
    const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    let text = ''
    let at = 0
    for (let index = 0; index < bounds.length; index += 2) {
      text += body.toString('utf8', at, bounds[index]) + LongTexts.mark(secret, index / 2)
      at = bounds[index + 1] ?? 0
    }
    return text + body.toString('utf8', at)
  }

  /** A long value. It is kept as bytes if its place allows it, without the blanks at its ends, which others trim. */
  private text(start: number, end: number): void {
    const place = this.place()
    if (place === undefined) return
    const from = solidStart(this.bytes, start, end)
    const to = from === -1 ? -1 : solidEnd(this.bytes, from, end)
    if (to - from < TEXT_BYTES_MIN) return
    if (place.holds === 'json') {
      const values = valuesWithin(this.bytes, start, end)
      if (values === -1) return
      this.argumentValues += values
    }
    this.bounds.push(from, to)
  }

  private place(): TextPlace | undefined {
    for (const [place, under, name] of this.places) {
      const isHere = place.holds === 'tree' ? this.depth > place.depth : this.depth === place.depth
      if (isHere && this.isName(place.depth, name) && this.isName(1, under)) return place
    }
    return undefined
  }

  private isName(depth: number, name: Uint8Array): boolean {
    const { bytes } = this
    const start = this.nameStarts[depth] ?? 0
    if ((this.nameEnds[depth] ?? 0) - start !== name.length || this.isObject[depth] === 0) return false
    for (let at = 0; at < name.length; at++) if (bytes[start + at] !== name[at]) return false
    return true
  }
}

/** The index of the first character that is certainly not blank; -1 if the text does not begin with one soon. */
function solidStart(bytes: Uint8Array, start: number, end: number): number {
  const last = Math.min(end, start + SOLID_WITHIN)
  for (let at = start; at < last; ) {
    const byte = bytes[at] ?? 0
    if (byte === BACKSLASH) at += bytes[at + 1] === LETTER_U ? ESCAPE_BYTES : 2
    else if (isSolid(byte)) return at
    else at++
  }
  return -1
}

/** The index after the last character that is certainly neither blank nor part of an escape; -1 if there is none. */
function solidEnd(bytes: Uint8Array, start: number, end: number): number {
  const first = Math.max(start + ESCAPE_BYTES, end - SOLID_WITHIN)
  for (let at = end; at > first; at--) {
    if (isContinuation(bytes[at] ?? 0)) continue
    let lead = at - 1
    while (isContinuation(bytes[lead] ?? 0)) lead--
    if (isSolid(bytes[lead] ?? 0) && !hasBackslash(bytes, at - ESCAPE_BYTES, at)) return at
  }
  return -1
}

function hasBackslash(bytes: Uint8Array, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at] === BACKSLASH) return true
  return false
}

/**
 * True for the first byte of a character that is not blank: printable ASCII, and sequences of UTF-8 except for those
 * that begin like a blank (U+0085, U+00A0, U+1680, U+2000 to U+205F, U+3000, U+FEFF).
 */
function isSolid(byte: number): boolean {
  if (byte < 0x80) return byte > 0x20 && byte !== 0x7f && byte !== BACKSLASH
  return byte >= 0xc3 && byte !== 0xe1 && byte !== 0xe2 && byte !== 0xe3 && byte !== 0xef
}

function isContinuation(byte: number): boolean {
  return byte >= 0x80 && byte < 0xc0
}

/**
 * The commas and colons of JSON text that is written within a string, where each of its quotes and backslashes is
 * escaped; -1 if it is too deep, or escapes other characters too, so that it must be read to be counted.
 */
function valuesWithin(bytes: Uint8Array, start: number, end: number): number {
  let [values, depth, inString] = [0, 0, false]
  for (let at = start; at < end; at++) {
    // Within a string only a backslash matters, and most of the bytes, such as those of a file, are within one.
    if (inString) while (at < end && bytes[at] !== BACKSLASH) at++
    switch (bytes[at]) {
      case BACKSLASH: {
        const escaped = bytes[++at]
        if (escaped === LETTER_U) return -1
        if (escaped === QUOTE) inString = !inString
        // A backslash of the inner text: within a string, it escapes the character that follows.
        else if (escaped === BACKSLASH && inString && bytes[++at] === BACKSLASH) at++
        break
      }
      case OPEN:
      case OPEN_LIST:
        if (!inString && ++depth > DEPTH_MAX) return -1
        break
      case CLOSE:
      case CLOSE_LIST:
        if (!inString) depth--
        break
      case COMMA:
      case COLON:
        if (!inString) values++
        break
    }
  }
  return values
}

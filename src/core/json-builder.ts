/** Writes JSON of constant parts and of spans of a request's bytes, without strings in between. */

import type { Arena } from './arena.ts'
import { BytePieces } from './byte-pieces.ts'
import { textOf, viewOf } from './bytes.ts'
import type { Entries } from './conversation.ts'
import { JsonInString } from './json-in-string.ts'

/** A constant part of JSON in ASCII. Seen through a view, its bytes are copied four at a time. */
export type Part = DataView

export function part(text: string): Part {
  return viewOf(Buffer.from(text, 'latin1'))
}

export const NOTHING = part('')
export const OPEN_LIST = part('[')
export const CLOSE_LIST = part(']')
export const CLOSE = part('}')
export const COMMA = part(',')
export const QUOTE = part('"')
/** Within a string. */
export const LINE_END = part('\\n')

/** So few bytes are copied through views, which takes 0.6 ns for each: a native copy takes 60 ns in a server. */
const SHORT_BYTES_MAX = 96
/** Of an integer in a view. */
const WORD_BYTES = 4

/**
 * A span of this size is sent from the request's own bytes. They are four fifths of a conversation, and a new buffer
 * for all of it took 5 to 8 % of the time of a request of 200 KB.
 */
const VIEW_BYTES_MIN = 2 * 1024
/** What is written in between goes into buffers of this size. */
const BUFFER_BYTES = 64 * 1024
/** Around all entries of a body, in bytes. */
const AROUND_ALL = 512
/** A UTF-16 unit takes at most so many bytes of UTF-8. */
const BYTES_A_UNIT = 3

/**
 * Where short JSON is written, one after the other. A buffer for each, and the pieces of it, took a small request as
 * long as writing it.
 */
const shared = Buffer.allocUnsafeSlow(8 * 1024)
const sharedView = viewOf(shared)
/** Who writes into it now. One that fails never ends, so the next one moves it to a buffer of its own. */
let writer: JsonBuilder | undefined

export class JsonBuilder {
  /** What was ended; absent in short JSON. */
  private pieces: BytePieces | undefined
  private target: Buffer
  private view: DataView
  /** What was written into the target, and not added to the pieces, is from `start` to `size`. */
  private start = 0
  private size = 0
  private inString: JsonInString | undefined

  /** `expected`: how many bytes will be written, as far as that is known. */
  constructor(
    private readonly source: Arena,
    expected: number,
  ) {
    if (expected > shared.length) {
      this.target = Buffer.allocUnsafe(Math.min(expected, BUFFER_BYTES))
      this.view = viewOf(this.target)
    } else {
      writer?.leave(0)
      writer = this
      this.target = shared
      this.view = sharedView
    }
  }

  /** For a body with all of a conversation, and about so many bytes around each of its entries. */
  static forBody({ arena, end }: Entries, aroundEntry: number): JsonBuilder {
    return new JsonBuilder(arena, arena.size + aroundEntry * end + AROUND_ALL)
  }

  part(bytes: Part): void {
    this.reserve(bytes.byteLength)
    this.copy(bytes, 0, bytes.byteLength)
  }

  /** The span of an entry. */
  entry(entries: Entries, entry: number): void {
    this.span(entries.fromAt(entry), entries.toAt(entry), entries.arena)
  }

  /** The span of an entry between two parts. */
  entryBetween(before: Part, entries: Entries, entry: number, after: Part): void {
    this.part(before)
    this.entry(entries, entry)
    this.part(after)
  }

  /** Bytes of the request, such as the inside of a string. */
  span(from: number, to: number, source: Arena = this.source): void {
    const buffer = source.bufferAt(from)
    const start = source.indexAt(from)
    const end = source.indexAt(from, to)
    if (to - from >= VIEW_BYTES_MIN && this.target !== shared) {
      this.endPiece().add(buffer, start, end)
      return
    }
    this.reserve(to - from)
    if (to - from <= SHORT_BYTES_MAX) return this.copy(source.viewAt(from), start, end)
    Buffer.prototype.copy.call(buffer, this.target, this.size, start, end)
    this.size += to - from
  }

  private copy(bytes: DataView, from: number, to: number): void {
    const { view } = this
    let { size } = this
    let at = from
    for (const end = to - WORD_BYTES; at <= end; at += WORD_BYTES, size += WORD_BYTES)
      view.setUint32(size, bytes.getUint32(at))
    for (; at < to; at++, size++) view.setUint8(size, bytes.getUint8(at))
    this.size = size
  }

  text(json: string): void {
    this.reserve(BYTES_A_UNIT * json.length)
    this.size += this.target.write(json, this.size)
  }

  /** A text, as the inside of a string. */
  inside(text: string): void {
    this.text(JSON.stringify(text).slice(1, -1))
  }

  /** JSON that is not in the request: the first bytes of a buffer. */
  bytes(json: Buffer, bytes: number): void {
    this.reserve(bytes)
    json.copy(this.target, this.size, 0, bytes)
    this.size += bytes
  }

  /** The JSON of an object of the request, as the inside of a string. */
  json(from: number, to: number, source: Arena = this.source): void {
    this.reserve(2 * (to - from))
    this.inString ??= new JsonInString(source.bytes)
    const isOfBody = from >= 0 && from < source.bytes.length
    const end = isOfBody ? this.inString.write(from, to, this.target, this.size) : -1
    if (end === -1) this.text(JSON.stringify(source.jsonAt(from, to)).slice(1, -1))
    else this.size = end
  }

  /** Bytes that never change, which are not copied. Not in short JSON. */
  unchanged(bytes: Uint8Array): void {
    this.endPiece().add(bytes, 0, bytes.byteLength)
  }

  /** What is written from here on is `since` this piece; undefined in short JSON. */
  nextPiece(): number | undefined {
    return this.target === shared ? undefined : this.endPiece().count
  }

  since(piece: number): readonly Uint8Array[] {
    return this.endPiece().viewsFrom(piece)
  }

  /** All that was written; as text if it is short. */
  take(): string | BytePieces {
    if (this.target !== shared) return this.endPiece()
    writer = undefined
    return textOf(shared, 0, this.size)
  }

  /** Goes on in a buffer of its own, with room for so many bytes. */
  private leave(bytes: number): void {
    writer = undefined
    this.target = Buffer.allocUnsafeSlow(Math.max(this.size + bytes, BUFFER_BYTES))
    this.view = viewOf(this.target)
    shared.copy(this.target, 0, 0, this.size)
  }

  private endPiece(): BytePieces {
    this.pieces ??= new BytePieces()
    this.pieces.add(this.target, this.start, this.size)
    this.start = this.size
    return this.pieces
  }

  private reserve(bytes: number): void {
    if (this.size + bytes <= this.target.length) return
    if (this.target === shared) return this.leave(bytes)
    this.endPiece()
    this.target = Buffer.allocUnsafeSlow(Math.max(bytes, BUFFER_BYTES))
    this.view = viewOf(this.target)
    this.start = 0
    this.size = 0
  }
}

/**
 * The bytes of one request: the body that the caller sent, and what was added to it. A text is a span of them, the
 * inside of a JSON string with its escapes, so that it is written to a provider without being decoded. A turn that
 * continues others has the bytes of their input, too: their addresses are below 0.
 */

import { textOf, viewOf } from './bytes.ts'
import { parseExact } from './exact-json.ts'
import type { JsonValue } from './json.ts'
import { BACKSLASH } from './json-bytes.ts'
import { NO_SHARED_BYTES, type SharedBytes } from './shared-bytes.ts'

const LETTER_U = 0x75
/** Most requests add less. */
const ADDED_BYTES = 1024
const NO_BYTES = Buffer.alloc(0)

export class Arena {
  private added: Buffer | undefined
  private addedBytes = 0
  /** Of `bytes` and `added`, each made when it is first needed. */
  private bodyView: DataView | undefined
  private addedView: DataView | undefined

  constructor(
    /** The whole body. */
    readonly bytes: Uint8Array,
    /** The input of earlier turns. */
    readonly earlier: SharedBytes = NO_SHARED_BYTES,
  ) {}

  /** How many bytes there are. */
  get size(): number {
    return this.earlier.size + this.end
  }

  /** What was added, after the body. */
  get addition(): Uint8Array {
    return (this.added ?? NO_BYTES).subarray(0, this.addedBytes)
  }

  /** Where the next span will be that is added. Spans up to there are a beginning and an end among all bytes. */
  get end(): number {
    return this.bytes.length + this.addedBytes
  }

  /** Adds a text, and returns its first byte; it ends at `end`. */
  addText(text: string): number {
    return this.addJson(JSON.stringify(text).slice(1, -1))
  }

  /** The same for JSON, or the inside of a JSON string. */
  addJson(json: string): number {
    const from = this.end
    const bytes = Buffer.byteLength(json)
    const needed = this.addedBytes + bytes
    if (this.added === undefined || needed > this.added.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(ADDED_BYTES, 2 * needed))
      this.added?.copy(larger, 0, 0, this.addedBytes)
      this.added = larger
      this.addedView = undefined
    }
    this.addedBytes += this.added.write(json, this.addedBytes)
    return from
  }

  /** The bytes among which the span is that begins here. */
  bufferAt(from: number): Uint8Array {
    if (from < this.bytes.length) return from < 0 ? this.earlier.bufferAt(from + this.earlier.size) : this.bytes
    return this.added ?? this.bytes
  }

  /** The same bytes. */
  viewAt(from: number): DataView {
    if (from < 0) return this.earlier.viewAt(from + this.earlier.size)
    if (from < this.bytes.length || this.added === undefined) {
      this.bodyView ??= viewOf(this.bytes)
      return this.bodyView
    }
    this.addedView ??= viewOf(this.added)
    return this.addedView
  }

  /** The index of a byte among them. */
  indexAt(from: number, at: number = from): number {
    if (from >= this.bytes.length) return at - this.bytes.length
    if (from >= 0) return at
    const { earlier } = this
    return at + earlier.size - earlier.beginningAt(from + earlier.size)
  }

  /** The text of a span. */
  stringAt(from: number, to: number): string {
    const inside = this.writtenAt(from, to)
    return inside.includes('\\') ? JSON.parse(`"${inside}"`) : inside
  }

  /** A span as it was written: the inside of a JSON string, or JSON. */
  writtenAt(from: number, to: number): string {
    if (from === to) return ''
    return textOf(this.bufferAt(from), this.indexAt(from), this.indexAt(from, to))
  }

  /** The JSON value that a span is. */
  valueAt(from: number, to: number): JsonValue {
    return parseExact(this.writtenAt(from, to))
  }

  /** The JSON value that a span is, as `JSON.stringify` writes it, with exact numbers. */
  jsonAt(from: number, to: number): string {
    return JSON.stringify(this.valueAt(from, to))
  }

  /** The byte after the first so many UTF-16 units of a text, or its end. */
  after(from: number, to: number, units: number): number {
    const buffer = this.bufferAt(from)
    const first = this.indexAt(from)
    const end = this.indexAt(from, to)
    let at = first
    for (let left = units; left > 0 && at < end; left--) {
      const byte = buffer[at] ?? 0
      if (byte === BACKSLASH) at += buffer[at + 1] === LETTER_U ? 6 : 2
      else if (byte < 0x80) at += 1
      else if (byte < 0xe0) at += 2
      else if (byte < 0xf0) at += 3
      else {
        at += 4
        left--
      }
    }
    return from + Math.min(at, end) - first
  }
}

/**
 * Reads the frames of `frame-writer.ts`. Both ends are weir, so a frame that is not in their form is a fault, and no
 * more is read from its connection.
 */

import { FRAME_BYTES_MAX, HEAD_BYTES, NAMES_MAX, NEW_NAME, UNNUMBERED_NAME } from './frame-writer.ts'

const EMPTY = Buffer.alloc(0)
/** A larger buffer for an incomplete frame is not kept. */
const KEPT_BYTES = 64 * 1024

/** A frame is not in the form that both ends agreed on. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

export class FrameReader {
  /** The beginning of a frame that is not complete, and how many bytes of the buffer it takes. */
  private rest = EMPTY
  private restBytes = 0
  private bytes: Buffer = EMPTY
  private view: DataView = new DataView(EMPTY.buffer, EMPTY.byteOffset, 0)
  /** The next field of the current frame, and where the frame ends. */
  private at = 0
  private end = 0
  private readonly named: string[] = []
  private nextName = 0

  /**
   * Calls `frame` with the type of each frame that is complete; it reads all fields of the frame. `bytes` is not kept.
   * Throws `FrameError`, also from within `frame`.
   */
  read(bytes: Buffer, frame: (type: number) => void): void {
    this.begin(bytes)
    const { length } = this.bytes
    let start = 0
    while (length - start >= HEAD_BYTES) {
      const end = start + HEAD_BYTES - 1 + this.lengthAt(start)
      if (end > length) break
      this.at = start + HEAD_BYTES
      this.end = end
      frame(this.bytes[this.at - 1] ?? 0)
      if (this.at !== end) throw new FrameError(`A frame has ${end - this.at} bytes too many.`)
      start = end
    }
    this.keep(start)
  }

  /** A whole number from 0 to 255. */
  byte(): number {
    return this.bytes[this.take(1)] ?? 0
  }

  number(): number {
    return this.view.getFloat64(this.take(8), true)
  }

  text(): string {
    const length = this.view.getUint32(this.take(4), true)
    if (length === 0) return ''
    const from = this.take(length)
    return this.bytes.toString('utf8', from, from + length)
  }

  name(): string {
    const number = this.view.getUint16(this.take(2), true)
    if (number === UNNUMBERED_NAME) return this.text()
    if (number === NEW_NAME) {
      const value = this.text()
      this.named[this.nextName] = value
      this.nextName = (this.nextName + 1) % NAMES_MAX
      return value
    }
    const known = this.named[number]
    if (known === undefined) throw new FrameError(`No text has the number ${number}.`)
    return known
  }

  /** Not checked: only what JSON is. */
  json<Value>(): Value {
    const text = this.text()
    try {
      return JSON.parse(text)
    } catch {
      throw new FrameError('A frame has a text that is not JSON.')
    }
  }

  /** Returns where a field of so many bytes begins. */
  private take(bytes: number): number {
    const { at } = this
    if (bytes > this.end - at) throw new FrameError('A field is longer than its frame.')
    this.at = at + bytes
    return at
  }

  private lengthAt(start: number): number {
    const length = this.view.getUint32(start, true)
    if (length === 0 || length > FRAME_BYTES_MAX)
      throw new FrameError(`A frame of ${length} bytes is not from 1 to ${FRAME_BYTES_MAX}.`)
    return length
  }

  /** Lets the fields be read from `bytes`, after what has been kept of the last ones. */
  private begin(bytes: Buffer): void {
    this.bytes = this.restBytes === 0 ? bytes : this.joined(bytes)
    this.view = new DataView(this.bytes.buffer, this.bytes.byteOffset, this.bytes.byteLength)
  }

  private joined(bytes: Buffer): Buffer {
    const length = this.restBytes + bytes.length
    if (length > this.rest.length) {
      const larger = Buffer.allocUnsafe(2 ** Math.ceil(Math.log2(length)))
      larger.set(this.rest.subarray(0, this.restBytes))
      this.rest = larger
    }
    this.rest.set(bytes, this.restBytes)
    return this.rest.subarray(0, length)
  }

  /** Keeps what follows the last complete frame. */
  private keep(start: number): void {
    this.restBytes = this.bytes.length - start
    if (this.restBytes > this.rest.length) this.rest = Buffer.from(this.bytes.subarray(start))
    else if (this.restBytes > 0) this.rest.set(this.bytes.subarray(start))
    else if (this.rest.length > KEPT_BYTES) this.rest = EMPTY
    this.bytes = EMPTY
  }
}

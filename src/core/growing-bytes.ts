/** Bytes that arrive in pieces, in one buffer. */

const CAPACITY_MIN = 1024
const NO_BYTES = Buffer.alloc(0)

/**
 * Copies each piece, so that its memory is at most twice the bytes, however small the pieces are. A piece that is kept
 * as a view costs an object of 200 bytes and all of the read that it is a part of: of a body in chunks of one byte, or
 * of chunks with long extensions, that is a hundred times its size.
 */
export class GrowingBytes {
  private buffer: Buffer = NO_BYTES
  private size = 0

  get byteLength(): number {
    return this.size
  }

  add(bytes: Uint8Array, from = 0, to: number = bytes.byteLength): void {
    const size = this.size + to - from
    if (size > this.buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(CAPACITY_MIN, size, 2 * this.buffer.length))
      larger.set(this.buffer.subarray(0, this.size))
      this.buffer = larger
    }
    Buffer.prototype.copy.call(bytes, this.buffer, this.size, from, to)
    this.size = size
  }

  /** All of them, without a copy; it is empty afterwards. */
  take(): Buffer {
    const bytes = this.buffer.subarray(0, this.size)
    this.buffer = NO_BYTES
    this.size = 0
    return bytes
  }
}

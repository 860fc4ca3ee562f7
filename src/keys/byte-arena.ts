/** Pieces of bytes in a few large buffers, whose free places are used again. */

/** Space is allocated in multiples of this many bytes, so that one piece can use the place of another. */
const UNIT_BYTES = 16
/** Bytes that are allocated at a time. */
const CHUNK_BYTES = 1024 * 1024

/** Where a piece lies. */
interface Place {
  readonly chunk: number
  readonly offset: number
}

export class ByteArena {
  private readonly chunks: Buffer[] = []
  /** Offset of the unused part of the newest chunk. */
  private used = CHUNK_BYTES
  private readonly free = new Map<number, Place[]>()

  write(bytes: Uint8Array): Place {
    const place = this.take(Math.ceil(bytes.length / UNIT_BYTES))
    this.chunks[place.chunk]?.set(bytes, place.offset)
    return place
  }

  read(chunk: number, offset: number, length: number): Buffer {
    return this.chunks[chunk]?.subarray(offset, offset + length) ?? Buffer.alloc(0)
  }

  release(chunk: number, offset: number, length: number): void {
    this.free.getOrInsert(Math.ceil(length / UNIT_BYTES), []).push({ chunk, offset })
  }

  private take(units: number): Place {
    const free = this.free.get(units)?.pop()
    if (free !== undefined) return free
    const bytes = units * UNIT_BYTES
    const newest = this.chunks.at(-1)
    if (newest === undefined || this.used + bytes > newest.length) {
      this.chunks.push(Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, bytes)))
      this.used = 0
    }
    const place = { chunk: this.chunks.length - 1, offset: this.used }
    this.used += bytes
    return place
  }
}

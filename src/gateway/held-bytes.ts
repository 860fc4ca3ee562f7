/** A provider's bytes that have arrived and cannot be taken yet, and the back-pressure that keeps them few. */

import { SLICE_BYTES } from '../core/event-loop.ts'
import { GrowingBytes } from '../core/growing-bytes.ts'
import type { UpstreamCall } from '../providers/upstream.ts'

/**
 * While more than `SLICE_BYTES` are unread, reading from the provider pauses. What the transport had read by then still
 * comes, at most 512 KiB. Reading goes on once `resume` is called.
 */
export class HeldBytes {
  /** Pieces of at least a slice, which are few. */
  private pieces: Uint8Array[] = NOTHING_HELD
  /** The smaller pieces after them, joined. Absent until there is one. */
  private tail: GrowingBytes | undefined
  private size = 0
  private isPaused = false

  constructor(private readonly call: Pick<UpstreamCall, 'pause' | 'resume'>) {}

  add(bytes: Uint8Array): void {
    if (bytes.length < SLICE_BYTES) {
      this.tail ??= new GrowingBytes()
      this.tail.add(bytes)
    } else this.append(bytes)
    this.size += bytes.length
    if (this.size > SLICE_BYTES) this.pause()
  }

  /**
   * Takes the next bytes, at most a slice; undefined if there are none. A reader slower than the provider makes reads
   * of up to 512 KiB. Decoding, encoding and writing a slice at a time keeps a stalled stream from holding all of it
   * three times.
   */
  next(): Uint8Array | undefined {
    if (this.pieces.length === 0) this.endTail()
    const [first] = this.pieces
    if (first === undefined) return undefined
    const slice = first.subarray(0, SLICE_BYTES)
    if (slice.length === first.length) this.pieces.shift()
    else this.pieces[0] = first.subarray(SLICE_BYTES)
    this.size -= slice.length
    return slice
  }

  /** Drops them: the stream has ended. */
  clear(): void {
    this.pieces = NOTHING_HELD
    this.tail = undefined
  }

  private append(bytes: Uint8Array): void {
    this.endTail()
    if (this.pieces === NOTHING_HELD) this.pieces = []
    this.pieces.push(bytes)
  }

  private endTail(): void {
    const { tail } = this
    this.tail = undefined
    if (tail !== undefined) this.append(tail.take())
  }

  /** The provider must wait. */
  pause(): void {
    if (this.isPaused) return
    this.isPaused = true
    this.call.pause()
  }

  resume(): void {
    if (!this.isPaused) return
    this.isPaused = false
    this.call.resume()
  }
}

/** Shared by all streams that hold nothing, which are nearly all. */
const NOTHING_HELD: Uint8Array[] = []

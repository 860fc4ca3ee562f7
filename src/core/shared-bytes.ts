/**
 * Bytes that grow at their end, of which several holders share the beginning: the input of a conversation, turn by
 * turn. They are in segments that never change, so that adding to them copies nothing but the addition, also where
 * two conversations go on from one.
 */

import { viewOf } from './bytes.ts'

/** Beyond so many segments they become one: finding a byte, and sending all of them, takes longer with each. */
const SEGMENTS_MAX = 64

interface Segment {
  readonly buffer: Buffer
  /** Its first byte among all of them, and the one after its last. */
  readonly from: number
  readonly to: number
  view?: DataView
}

const EMPTY: Segment = { buffer: Buffer.alloc(0), from: 0, to: 0 }

export class SharedBytes {
  /** The segment that a byte was found in last: the next one is nearly always in it, too. */
  private found: Segment = EMPTY

  private constructor(
    private readonly segments: readonly Segment[],
    readonly size: number,
  ) {}

  /** These bytes, which must not change, without a copy. */
  static of(buffers: readonly Buffer[]): SharedBytes {
    let size = 0
    const segments: Segment[] = []
    for (const buffer of buffers) {
      if (buffer.length === 0) continue
      segments.push({ buffer, from: size, to: size + buffer.length })
      size += buffer.length
    }
    return new SharedBytes(segments, size)
  }

  /** The segment of a byte, as a buffer. */
  bufferAt(at: number): Buffer {
    return this.segmentAt(at).buffer
  }

  viewAt(at: number): DataView {
    const segment = this.segmentAt(at)
    segment.view ??= viewOf(segment.buffer)
    return segment.view
  }

  /** Where the segment of a byte begins. */
  beginningAt(at: number): number {
    return this.segmentAt(at).from
  }

  /** The bytes from one to before another, as pieces. */
  pieces(from = 0, to: number = this.size): readonly Buffer[] {
    const pieces: Buffer[] = []
    for (const segment of this.segments) {
      const [start, end] = [Math.max(from, segment.from), Math.min(to, segment.to)]
      if (start === segment.from && end === segment.to) pieces.push(segment.buffer)
      else if (start < end) pieces.push(segment.buffer.subarray(start - segment.from, end - segment.from))
    }
    return pieces
  }

  /** These bytes, and then a copy of all of `pieces`. */
  with(pieces: readonly Uint8Array[]): SharedBytes {
    const buffer = Buffer.concat(pieces)
    if (buffer.length === 0) return this
    const size = this.size + buffer.length
    const segments = [...this.segments, { buffer, from: this.size, to: size }]
    if (segments.length <= SEGMENTS_MAX) return new SharedBytes(segments, size)
    return SharedBytes.of([Buffer.concat(segments.map((segment) => segment.buffer))])
  }

  private segmentAt(at: number): Segment {
    const { found } = this
    if (at >= found.from && at < found.to) return found
    const { segments } = this
    let low = 0
    let high = segments.length - 1
    while (low < high) {
      const middle = (low + high) >> 1
      if ((segments[middle]?.to ?? 0) > at) high = middle
      else low = middle + 1
    }
    this.found = segments[low] ?? EMPTY
    return this.found
  }
}

export const NO_SHARED_BYTES: SharedBytes = SharedBytes.of([])

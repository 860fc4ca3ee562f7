/** The output items that were sent, remembered for a while so that a caller may refer back to them instead of sending them again. */

import { isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import type { Sealer } from './compaction.ts'

/** Where sent items are kept. Nothing of one organisation is ever given to another. */
export interface ItemMemory {
  /** The item as it was sent, or undefined where it is not remembered (any more). */
  recall(organization: string, id: string): Promise<JsonObject | undefined> | JsonObject | undefined
  /** Takes the items of an answer that is whole. Never throws: an item that cannot be kept is forgotten. */
  remember(organization: string, items: readonly JsonObject[]): void
}

/** Where the bytes of a sealed item lie. */
interface Kept {
  readonly segment: Segment
  readonly start: number
  readonly end: number
  readonly untilMs: number
}

/** Items that are forgotten together: a buffer for each would take as much again as its bytes, and the collector's time. */
interface Segment {
  readonly bytes: Buffer
  readonly keys: string[]
  used: number
  /** When its newest item expires. */
  untilMs: number
}

const BYTES_MAX = 64 * 1024 * 1024
const SEGMENT_BYTES = 1024 * 1024
/** So many segments at least, however little may be kept: the oldest items go then, and not many that are young with them. */
const SEGMENTS_LEAST = 16
/** What an item takes besides its bytes and its name: the entry of the map, and of its segment's list. */
const ENTRY_BYTES = 256

export interface LocalItemMemoryOptions {
  readonly sealer: Sealer
  /** How long an item is remembered; 0 = nothing is. */
  readonly ttlSeconds: number
  /** At most so many bytes in all; the oldest items are forgotten for new ones, and one that is larger is not remembered at all. */
  readonly bytesMax?: number
  /** Milliseconds of a clock that never goes back. */
  readonly nowMs?: () => number
}

/** Remembers in this process, sealed like compaction items, so that no conversation lies in memory as it was said. */
export class LocalItemMemory implements ItemMemory {
  private readonly kept = new Map<string, Kept>()
  /** In the order in which they were begun, which is that in which they expire. */
  private readonly segments: Segment[] = []
  private readonly sealer: Sealer
  private readonly ttlMs: number
  private readonly bytesMax: number
  private readonly nowMs: () => number
  private bytes = 0

  constructor(options: LocalItemMemoryOptions) {
    this.sealer = options.sealer
    this.ttlMs = options.ttlSeconds * 1000
    this.bytesMax = options.bytesMax ?? BYTES_MAX
    this.nowMs = options.nowMs ?? (() => performance.now())
  }

  recall(organization: string, id: string): JsonObject | undefined {
    const kept = this.kept.get(keyOf(organization, id))
    if (kept === undefined || kept.untilMs <= this.nowMs()) return undefined
    const json = this.sealer.open('item', organization, kept.segment.bytes.subarray(kept.start, kept.end))
    if (json === undefined) return undefined
    const item: JsonValue = JSON.parse(json)
    return isObject(item) ? item : undefined
  }

  remember(organization: string, items: readonly JsonObject[]): void {
    if (this.ttlMs === 0) return
    const now = this.nowMs()
    this.makeRoom(0, now)
    for (const item of items) {
      const { id } = item
      if (typeof id === 'string') this.keep(keyOf(organization, id), organization, item, now)
    }
  }

  private keep(key: string, organization: string, item: JsonObject, now: number): void {
    const sealed = this.sealer.seal('item', organization, JSON.stringify(item))
    const entryBytes = ENTRY_BYTES + key.length
    if (sealed.length + entryBytes > this.bytesMax) return
    const segment = this.segmentFor(sealed.length, entryBytes, now)
    const start = segment.used
    segment.used += sealed.copy(segment.bytes, start)
    segment.untilMs = now + this.ttlMs
    segment.keys.push(key)
    this.bytes += entryBytes
    this.kept.set(key, { segment, start, end: segment.used, untilMs: segment.untilMs })
  }

  /** The newest segment where the bytes fit into it, else a new one. The oldest go where there is no room. */
  private segmentFor(length: number, entryBytes: number, now: number): Segment {
    this.makeRoom(entryBytes, now)
    const newest = this.segments.at(-1)
    if (newest !== undefined && newest.used + length <= newest.bytes.length) return newest
    const least = Math.min(SEGMENT_BYTES, Math.floor(this.bytesMax / SEGMENTS_LEAST))
    const segment = { bytes: Buffer.allocUnsafeSlow(Math.max(length, least)), keys: [], used: 0, untilMs: now }
    this.makeRoom(segment.bytes.length + entryBytes, now)
    this.segments.push(segment)
    this.bytes += segment.bytes.length
    return segment
  }

  /** Forgets what has expired and, from the oldest on, as much as must go for `size` bytes more. */
  private makeRoom(size: number, now: number): void {
    for (let oldest = this.segments[0]; oldest !== undefined; oldest = this.segments[0]) {
      if (oldest.untilMs > now && this.bytes + size <= this.bytesMax) return
      this.segments.shift()
      this.forget(oldest)
    }
  }

  private forget({ bytes, keys }: Segment): void {
    this.bytes -= bytes.length
    for (const key of keys) {
      this.bytes -= ENTRY_BYTES + key.length
      // What was sent again lies in a younger segment, too.
      if (this.kept.get(key)?.segment.bytes === bytes) this.kept.delete(key)
    }
  }
}

/** Ids have no NUL in them; organisations may have anything. */
function keyOf(organization: string, id: string): string {
  return `${id}\0${organization}`
}

/** The output items that were sent, remembered for a while so that a caller may refer back to them instead of sending them again. */

import { isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import type { Sealer } from './compaction.ts'

/** Where sent items are kept. Nothing of one organisation is ever given to another. */
export interface ItemMemory {
  /** The item as it was sent, or undefined where it is not remembered (any more). */
  recall(organization: string, id: string): Promise<JsonObject | undefined> | JsonObject | undefined
  /** Takes the items of an answer that is whole. Never throws: an item that cannot be kept is forgotten. */
  remember(organization: string, items: readonly JsonObject[]): void
  /** It is used no more: a reload has put another in its place. */
  close?(): void
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
  readonly ids: string[]
  used: number
  /** When its newest item expires. */
  untilMs: number
}

/** What is kept of one organization. */
interface Shelf {
  readonly organization: string
  readonly kept: Map<string, Kept>
  /** In the order in which they were begun, which is that in which they expire. */
  readonly segments: Segment[]
  /** Of its segments and their entries. */
  bytes: number
}

const BYTES_MAX = 64 * 1024 * 1024
/** An organization's first segments are small, so that many organizations with few items each do not fill the memory with room unused. */
const SEGMENT_BYTES_MIN = 4 * 1024
const SEGMENT_BYTES_MAX = 1024 * 1024
/** So many segments at least, however little may be kept: the oldest items go then, and not many that are young with them. */
const SEGMENTS_MIN = 16
/** What an item takes besides its bytes and its id: the entry of the map, and of its segment's list. */
const ENTRY_BYTES = 256
/** What an organization takes besides its items. */
const SHELF_BYTES = 1024

interface LocalItemMemoryOptions {
  readonly sealer: Sealer
  /** How long an item is remembered; 0 = nothing is. */
  readonly ttlSeconds: number
  /**
   * At most so many bytes in all. If there is no room, the organization that holds the most forgets its oldest items, so one that holds no
   * more than an even share loses nothing to the others. An item larger than all of it is not remembered.
   */
  readonly bytesMax?: number
  /** Milliseconds of a clock that never goes back. */
  readonly nowMs?: () => number
}

/** Remembers in this process, sealed like compaction items, so that no conversation lies in memory as it was said. */
export class LocalItemMemory implements ItemMemory {
  private readonly shelves = new Map<string, Shelf>()
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

  /** Bytes that are held for all organizations. */
  get heldBytes(): number {
    return this.bytes
  }

  recall(organization: string, id: string): JsonObject | undefined {
    const kept = this.shelves.get(organization)?.kept.get(id)
    if (kept === undefined || kept.untilMs <= this.nowMs()) return undefined
    const json = this.sealer.open('item', organization, kept.segment.bytes.subarray(kept.start, kept.end))
    if (json === undefined) return undefined
    const item: JsonValue = JSON.parse(json)
    return isObject(item) ? item : undefined
  }

  remember(organization: string, items: readonly JsonObject[]): void {
    if (this.ttlMs === 0) return
    const now = this.nowMs()
    for (const item of items) {
      const { id } = item
      if (typeof id === 'string') this.keep(organization, id, item, now)
    }
  }

  private keep(organization: string, id: string, item: JsonObject, now: number): void {
    const sealed = this.sealer.seal('item', organization, JSON.stringify(item))
    const entryBytes = ENTRY_BYTES + id.length
    if (sealed.length + entryBytes + SHELF_BYTES > this.bytesMax) return
    const shelf = this.shelfOf(organization)
    const segment = this.segmentFor(shelf, sealed.length, entryBytes, now)
    if (segment === undefined) return
    const start = segment.used
    segment.used += sealed.copy(segment.bytes, start)
    segment.untilMs = now + this.ttlMs
    segment.ids.push(id)
    this.count(shelf, entryBytes)
    shelf.kept.set(id, { segment, start, end: segment.used, untilMs: segment.untilMs })
  }

  private shelfOf(organization: string): Shelf {
    const found = this.shelves.get(organization)
    if (found !== undefined) return found
    const shelf: Shelf = { organization, kept: new Map(), segments: [], bytes: 0 }
    this.shelves.set(organization, shelf)
    this.count(shelf, SHELF_BYTES)
    return shelf
  }

  /**
   * The newest segment if the bytes fit into it, else a new one; the first is small, later ones as large as what is held already. Undefined
   * if there is no room.
   */
  private segmentFor(shelf: Shelf, length: number, entryBytes: number, now: number): Segment | undefined {
    const newest = shelf.segments.at(-1)
    if (newest !== undefined && newest.used + length <= newest.bytes.length) {
      // To make room it may itself be forgotten.
      if (this.makeRoom(shelf, entryBytes, now) && shelf.segments.at(-1) === newest) return newest
    }
    const grown = Math.min(SEGMENT_BYTES_MAX, Math.max(SEGMENT_BYTES_MIN, shelf.bytes))
    const least = Math.min(grown, Math.floor(this.bytesMax / SEGMENTS_MIN))
    const size = Math.max(length, least)
    if (!this.makeRoom(shelf, size + entryBytes, now)) {
      this.dropIfEmpty(shelf)
      return undefined
    }
    const segment = { bytes: Buffer.allocUnsafeSlow(size), ids: [], used: 0, untilMs: now }
    shelf.segments.push(segment)
    this.count(shelf, size)
    return segment
  }

  /**
   * Forgets what has expired and, while there is no room for `size` bytes, the oldest segment of whoever holds the most. False if nobody
   * holds more than `own` would, and it has nothing to forget.
   */
  private makeRoom(own: Shelf, size: number, now: number): boolean {
    this.expire(own, now)
    if (this.bytes + size <= this.bytesMax) return true
    for (const shelf of this.shelves.values()) {
      this.expire(shelf, now)
      if (shelf !== own) this.dropIfEmpty(shelf)
    }
    while (this.bytes + size > this.bytesMax) {
      const largest = this.largest(own, size)
      if (largest === undefined) return false
      this.forgetOldest(largest)
      if (largest !== own) this.dropIfEmpty(largest)
    }
    return true
  }

  /** `own` counts with what it wants: of two that are equal, the one that asks for more gives way. */
  private largest(own: Shelf, wanted: number): Shelf | undefined {
    let largest = own.segments.length > 0 ? own : undefined
    let most = own.bytes + wanted
    for (const shelf of this.shelves.values()) {
      if (shelf.bytes <= most) continue
      largest = shelf
      most = shelf.bytes
    }
    return largest
  }

  private dropIfEmpty(shelf: Shelf): void {
    if (shelf.segments.length > 0) return
    this.count(shelf, -SHELF_BYTES)
    this.shelves.delete(shelf.organization)
  }

  private expire(shelf: Shelf, now: number): void {
    while ((shelf.segments[0]?.untilMs ?? Number.POSITIVE_INFINITY) <= now) this.forgetOldest(shelf)
  }

  private forgetOldest(shelf: Shelf): void {
    const segment = shelf.segments.shift()
    if (segment === undefined) return
    this.count(shelf, -segment.bytes.length)
    for (const id of segment.ids) {
      this.count(shelf, -ENTRY_BYTES - id.length)
      // What was sent again lies in a younger segment, too.
      if (shelf.kept.get(id)?.segment === segment) shelf.kept.delete(id)
    }
  }

  private count(shelf: Shelf, bytes: number): void {
    shelf.bytes += bytes
    this.bytes += bytes
  }
}

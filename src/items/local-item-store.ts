/**
 * Output items in the memory of this process: at most 64 MiB over all organizations, which share it evenly when it is
 * full. Owns no connection and no file; the items end with the process.
 */

import type { ItemText } from './item-store.ts'

/** Where the JSON of an item lies. */
interface StoredItem {
  readonly segment: Segment
  readonly start: number
  readonly end: number
  readonly expiresMs: number
}

/**
 * Items that are dropped together. One buffer for each item would take as much again as its bytes, and time of the
 * collector.
 */
interface Segment {
  readonly bytes: Buffer
  readonly ids: string[]
  used: number
  /** When its newest item expires. */
  expiresMs: number
}

interface OrganizationItems {
  readonly organization: string
  readonly items: Map<string, StoredItem>
  /** Oldest first, which is also the order in which they expire. */
  readonly segments: Segment[]
  /** What its segments and their entries take. */
  bytes: number
}

const BYTES_MAX = 64 * 1024 * 1024
/**
 * An organization's first segments are small, so that many organizations with few items each do not fill the memory
 * with unused bytes.
 */
const SEGMENT_BYTES_MIN = 4 * 1024
const SEGMENT_BYTES_MAX = 1024 * 1024
/**
 * `bytesMax` is divided into at least this many segments, so that dropping the oldest segment drops few recent items.
 */
const SEGMENTS_MIN = 16
/** What an item takes besides its bytes and its id: the entry of the map, and of its segment's list. */
const ENTRY_BYTES = 256
/** What an organization takes besides its items. */
const ORGANIZATION_BYTES = 1024

interface LocalItemStoreOptions {
  /** How long an item is stored; 0 stores nothing. */
  readonly ttlSeconds: number
  /**
   * Limit over all organizations. When it is reached, the organization that holds the most loses its oldest items, so
   * an organization that holds no more than an even share loses nothing to the others. An item larger than the limit is
   * not stored.
   */
  readonly bytesMax?: number
  /** What the items of one organization may take, beyond which it loses its oldest. Absent: only the limit over all. */
  readonly organizationBytesMax?: number
  /** Milliseconds of a monotonic clock. */
  readonly nowMs?: () => number
}

export class LocalItemStore {
  private readonly organizations = new Map<string, OrganizationItems>()
  private readonly ttlMs: number
  private readonly bytesMax: number
  private readonly organizationBytesMax: number
  private readonly nowMs: () => number
  private bytes = 0

  constructor(options: LocalItemStoreOptions) {
    this.ttlMs = options.ttlSeconds * 1000
    this.bytesMax = options.bytesMax ?? BYTES_MAX
    this.organizationBytesMax = options.organizationBytesMax ?? this.bytesMax
    this.nowMs = options.nowMs ?? (() => performance.now())
  }

  /** Bytes that are held for all organizations. */
  get heldBytes(): number {
    return this.bytes
  }

  /** The JSON text of an item. */
  getText(organization: string, id: string): string | undefined {
    const stored = this.organizations.get(organization)?.items.get(id)
    if (stored === undefined || stored.expiresMs <= this.nowMs()) return undefined
    return stored.segment.bytes.toString('utf8', stored.start, stored.end)
  }

  put(organization: string, items: readonly ItemText[]): void {
    if (this.ttlMs > 0) for (const { id, json } of items) this.store(organization, id, json, this.nowMs())
  }

  private store(organization: string, id: string, json: string, now: number): void {
    const length = Buffer.byteLength(json)
    const entryBytes = ENTRY_BYTES + id.length
    if (length + entryBytes + ORGANIZATION_BYTES > Math.min(this.bytesMax, this.organizationBytesMax)) return
    const own = this.itemsOf(organization)
    const segment = this.segmentFor(own, length, entryBytes, now)
    if (segment === undefined) return
    const start = segment.used
    segment.used += segment.bytes.write(json, start)
    segment.expiresMs = now + this.ttlMs
    segment.ids.push(id)
    this.count(own, entryBytes)
    own.items.set(id, { segment, start, end: segment.used, expiresMs: segment.expiresMs })
  }

  private itemsOf(organization: string): OrganizationItems {
    const known = this.organizations.get(organization)
    if (known !== undefined) return known
    const own: OrganizationItems = { organization, items: new Map(), segments: [], bytes: 0 }
    this.organizations.set(organization, own)
    this.count(own, ORGANIZATION_BYTES)
    return own
  }

  /**
   * The newest segment if the bytes fit into it, else a new one: the first is small, a later one as large as all that
   * the organization holds already. Undefined if there is no room.
   */
  private segmentFor(own: OrganizationItems, length: number, entryBytes: number, now: number): Segment | undefined {
    const newest = own.segments.at(-1)
    if (newest !== undefined && newest.used + length <= newest.bytes.length) {
      // Making room may drop the newest segment itself.
      if (this.makeRoom(own, entryBytes, now) && own.segments.at(-1) === newest) return newest
    }
    const grown = Math.min(SEGMENT_BYTES_MAX, Math.max(SEGMENT_BYTES_MIN, own.bytes))
    const least = Math.min(grown, Math.floor(Math.min(this.bytesMax, this.organizationBytesMax) / SEGMENTS_MIN))
    const size = Math.max(length, least)
    if (!this.makeRoom(own, size + entryBytes, now)) {
      this.deleteIfEmpty(own)
      return undefined
    }
    const segment = { bytes: Buffer.allocUnsafeSlow(size), ids: [], used: 0, expiresMs: now }
    own.segments.push(segment)
    this.count(own, size)
    return segment
  }

  /**
   * Drops expired items, then, until `size` bytes fit, the oldest segment of the organization that holds the most.
   * False if no other organization holds more than `own` would, and `own` has nothing to drop.
   */
  private makeRoom(own: OrganizationItems, size: number, now: number): boolean {
    this.dropExpired(own, now)
    while (own.bytes + size > this.organizationBytesMax && own.segments.length > 0) this.dropOldest(own)
    if (this.bytes + size <= this.bytesMax) return true
    for (const one of this.organizations.values()) {
      this.dropExpired(one, now)
      if (one !== own) this.deleteIfEmpty(one)
    }
    while (this.bytes + size > this.bytesMax) {
      const largest = this.largest(own, size)
      if (largest === undefined) return false
      this.dropOldest(largest)
      if (largest !== own) this.deleteIfEmpty(largest)
    }
    return true
  }

  /** `own` counts with the bytes that it wants: of two equal organizations, the one that wants more loses items. */
  private largest(own: OrganizationItems, wanted: number): OrganizationItems | undefined {
    let largest = own.segments.length > 0 ? own : undefined
    let most = own.bytes + wanted
    for (const one of this.organizations.values()) {
      if (one.bytes <= most) continue
      largest = one
      most = one.bytes
    }
    return largest
  }

  private deleteIfEmpty(one: OrganizationItems): void {
    if (one.segments.length > 0) return
    this.count(one, -ORGANIZATION_BYTES)
    this.organizations.delete(one.organization)
  }

  private dropExpired(one: OrganizationItems, now: number): void {
    while ((one.segments[0]?.expiresMs ?? Number.POSITIVE_INFINITY) <= now) this.dropOldest(one)
  }

  private dropOldest(one: OrganizationItems): void {
    const segment = one.segments.shift()
    if (segment === undefined) return
    this.count(one, -segment.bytes.length)
    for (const id of segment.ids) {
      this.count(one, -ENTRY_BYTES - id.length)
      // An item that was sent again lies in a newer segment.
      if (one.items.get(id)?.segment === segment) one.items.delete(id)
    }
  }

  private count(one: OrganizationItems, bytes: number): void {
    one.bytes += bytes
    this.bytes += bytes
  }
}

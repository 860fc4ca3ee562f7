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

interface Kept {
  readonly sealed: Buffer
  readonly size: number
  readonly untilMs: number
}

const BYTES_MAX = 64 * 1024 * 1024
/** What an entry takes besides its bytes and its name: the buffer's and the map's own. */
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
  /** In the order in which they were added, which is that in which they expire. */
  private readonly kept = new Map<string, Kept>()
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
    const json = this.sealer.open('item', organization, kept.sealed)
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
    const size = sealed.length + 2 * key.length + ENTRY_BYTES
    if (size > this.bytesMax) return
    this.forget(key)
    this.makeRoom(size, now)
    this.kept.set(key, { sealed, size, untilMs: now + this.ttlMs })
    this.bytes += size
  }

  /** Forgets what has expired and, from the oldest on, as much as must go for `size` bytes more. */
  private makeRoom(size: number, now: number): void {
    for (const [key, kept] of this.kept) {
      if (kept.untilMs > now && this.bytes + size <= this.bytesMax) return
      this.forget(key)
    }
  }

  private forget(key: string): void {
    const kept = this.kept.get(key)
    if (kept === undefined) return
    this.kept.delete(key)
    this.bytes -= kept.size
  }
}

/** Ids have no NUL in them; organisations may have anything. */
function keyOf(organization: string, id: string): string {
  return `${id}\0${organization}`
}

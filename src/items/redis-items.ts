/**
 * Items of all gateways in Redis: encrypted bytes by owner and id, at most 64 MiB an owner. Does not know what the
 * bytes mean.
 */

import { createHash } from 'node:crypto'
import type { RedisConfig, ReservationPipeline } from '../core/redis-config.ts'
import clock from '../redis/clock.lua' with { type: 'text' }
import { connect, type RedisClient } from '../redis/connect.ts'
import { StoredScript } from '../redis/stored-script.ts'
import getItems from './get-items.lua' with { type: 'text' }
import { findWithWaits } from './item-store.ts'
import putItems from './put-items.lua' with { type: 'text' }

/** A larger item is not stored: Redis holds the ledger, and conversations must not fill its memory. */
const ITEM_BYTES_MAX = 256 * 1024
/** What the items of one owner may take. */
const OWNER_BYTES_MAX = 64 * 1024 * 1024

/** A larger answer is stored in several calls, so that no call blocks Redis for long. */
const CALL_BYTES_MAX = 1024 * 1024

interface StoredBytes {
  readonly id: string
  readonly bytes: Buffer
}

/** Waits before an item that is missing is looked up again. An item is stored within milliseconds. */
const WAITS_MS = [10, 90]

interface RedisItemsOptions {
  readonly ttlSeconds: number
  readonly ownerBytesMax?: number
  /** What its keys are named after; by default `items`. */
  readonly name?: string
  /** Look-ups go out with the ledger's reservations, if it is in the same Redis. */
  readonly pipeline?: ReservationPipeline | undefined
}

/**
 * Each owner has a hash of its items and an index of when they expire, both in one slot of a cluster. The script that
 * stores an item first removes expired items, then the oldest until the new one fits, so an owner never exceeds its
 * limit. Both keys expire with the newest item: an owner that stores nothing for that long has nothing left in Redis.
 */
export class RedisItems {
  private readonly client: RedisClient
  private readonly name: string
  private readonly ttlMs: number
  private readonly ownerBytesMax: number
  private readonly pipeline: ReservationPipeline
  /** How many marks there were when they were last counted, and when they were read. */
  private countedMarks: unknown = 0
  private knownMarks: unknown = 0

  /** Connects on its own, now and whenever Redis comes back. */
  constructor(place: RedisConfig, options: RedisItemsOptions) {
    const { ttlSeconds, ownerBytesMax = OWNER_BYTES_MAX, name = 'items', pipeline } = options
    this.name = name
    this.client = connect(place, `weir-${name}`)
    this.ttlMs = ttlSeconds * 1000
    this.ownerBytesMax = ownerBytesMax
    const own = { ask: ([command = '', ...words]: Words) => this.client.callBuffer(String(command), ...words) }
    this.pipeline = pipeline ?? own
  }

  /** Not awaited: an item that cannot be stored, because it is too large or Redis is away, is dropped. */
  put(owner: string, items: readonly StoredBytes[]): void {
    let batch: StoredBytes[] = []
    let size = 0
    for (const item of items) {
      if (item.bytes.length > ITEM_BYTES_MAX) continue
      if (size + item.bytes.length > CALL_BYTES_MAX) {
        this.send(owner, batch)
        batch = []
        size = 0
      }
      batch.push(item)
      size += item.bytes.length
    }
    if (batch.length > 0) this.send(owner, batch)
  }

  /**
   * The bytes, or undefined if they are not stored or have expired. Throws `CallerError` `ledger_unavailable` if Redis
   * does not answer.
   *
   * No answer waits for `put`: a caller that refers to an item at once may reach a worker whose call overtakes it.
   * So an item that is missing is looked up again.
   */
  get(owner: string, id: string): Promise<Buffer | undefined> {
    return findWithWaits(async () => {
      const [bytes] = await this.getAll(owner, [id])
      return bytes
    }, WAITS_MS)
  }

  /** The bytes of each id, or undefined. Rejects if Redis does not answer. */
  async getAll(owner: string, ids: readonly string[]): Promise<readonly (Buffer | undefined)[]> {
    const found = await scripts.get.ask(this.pipeline, this.keysOf(owner), ids)
    return Array.isArray(found) ? found.map((bytes) => (bytes instanceof Buffer ? bytes : undefined)) : []
  }

  /** Adds a number that all gateways see. Not awaited, as an item. */
  addMark(mark: number): void {
    this.client.sadd(this.marksKey, mark).catch(() => undefined)
  }

  /**
   * Whether there are marks that `readMarks` has not read, by their number: none is removed. Rejects if Redis does not
   * answer.
   */
  async hasNewMarks(): Promise<boolean> {
    this.countedMarks = await this.pipeline.ask(['SCARD', this.marksKey])
    return this.countedMarks !== this.knownMarks
  }

  /** All marks. Rejects if Redis does not answer. */
  async readMarks(): Promise<readonly number[]> {
    const count = this.countedMarks
    const found = await this.pipeline.ask(['SMEMBERS', this.marksKey])
    this.knownMarks = count
    return Array.isArray(found) ? found.map(Number) : []
  }

  private get marksKey(): string {
    return `weir:{${this.name}}:marks`
  }

  close(): void {
    this.client.disconnect()
  }

  private send(owner: string, items: readonly StoredBytes[]): void {
    const fields = items.flatMap(({ id, bytes }) => [id, bytes])
    const words = [this.ttlMs, this.ownerBytesMax, ...fields]
    scripts.put.callBuffer(this.client, this.keysOf(owner), words).catch(() => undefined)
  }

  private keysOf(owner: string): readonly string[] {
    const items = `weir:${this.name}:{${createHash('sha256').update(owner).digest('base64url')}}`
    return [items, `${items}:order`]
  }
}

type Words = readonly (string | number)[]

const scripts = { put: new StoredScript(clock + putItems), get: new StoredScript(clock + getItems) } as const

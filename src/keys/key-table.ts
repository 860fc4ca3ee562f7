/**
 * All API keys of the store in the memory of one process. As objects, 500,000 keys take several hundred MB that every
 * garbage collection walks; here they are bytes in large buffers, about 150 a key, and become objects when they are
 * used.
 */

import { timingSafeEqual } from 'node:crypto'
import { ByteArena } from './byte-arena.ts'
import { HASH_BYTES, idBytes, KeyLayout } from './key-layout.ts'
import { BUDGETS, endOf, type KeyRecord, ORGANIZATION, partsOfId, REVOCATION } from './key-record.ts'
import { NONE, powerOfTwo, SlotIndex } from './slot-index.ts'

/** Recently used keys that are kept as objects. */
const DECODED_MAX = 4096

/** The values of each slot besides its bytes, in columns that grow together. */
class Columns {
  tokenHash = new Uint32Array(64)
  idHash = new Uint32Array(64)
  /** The hash of the secret before the last rotation; 0 if the key has none. */
  previousHash = new Uint32Array(64)
  chunk = new Uint32Array(64)
  offset = new Uint32Array(64)
  /** 0: the slot is free. */
  length = new Uint32Array(64)
  /** When the key ends; `Infinity` if it does not. */
  endMs = new Float64Array(64)
  /** The last reading that found the key. */
  reading = new Uint32Array(64)

  expect(count: number): void {
    if (count <= this.length.length) return
    const size = powerOfTwo(count)
    for (const name of INTEGERS) {
      const column = new Uint32Array(size)
      column.set(this[name])
      this[name] = column
    }
    const endMs = new Float64Array(size)
    endMs.set(this.endMs)
    this.endMs = endMs
  }
}

const INTEGERS = ['tokenHash', 'idHash', 'previousHash', 'chunk', 'offset', 'length', 'reading'] as const

export class KeyTable {
  private readonly columns = new Columns()
  private readonly arena = new ByteArena()
  private readonly layout = new KeyLayout()
  private readonly byToken = new SlotIndex((slot) => this.columns.tokenHash[slot] ?? 0)
  private readonly byId = new SlotIndex((slot) => this.columns.idHash[slot] ?? 0)
  /** The keys that have a secret from before a rotation. */
  private readonly byPrevious = new SlotIndex((slot) => this.columns.previousHash[slot] ?? 0)
  /** By the id of the key of the configuration that each of these records revokes. */
  private readonly revocations = new Map<string, KeyRecord>()
  /** By their ids. */
  private readonly organizations = new Map<string, KeyRecord>()
  /** By the ids of their organisations: raises and resets of budgets. */
  private readonly budgetRecords = new Map<string, KeyRecord>()
  /** Changes with each change of these. */
  budgetsVersion = 0
  private readonly others: Readonly<Record<string, Map<string, KeyRecord>>> = {
    [REVOCATION]: this.revocations,
    [ORGANIZATION]: this.organizations,
    [BUDGETS]: this.budgetRecords,
  }
  private readonly freeSlots: number[] = []
  private slots = 0
  private reading = 0
  /** The number of keys that were put since the reading began. */
  sizeRead = 0
  private readonly decoded = new Map<number, KeyRecord>()

  get size(): number {
    return this.slots - this.freeSlots.length
  }

  /** Allocates for `count` keys at once: growing step by step with hundreds of thousands of keys takes long. */
  expect(count: number): void {
    this.columns.expect(count)
    this.byToken.expect(count)
    this.byId.expect(count)
  }

  /**
   * The key of a token's SHA-256, unless it is revoked. The same object until the key changes, or many other keys were
   * used.
   */
  find(digest: Uint8Array): KeyRecord | undefined {
    return this.findIf(digest, (record) => record.revokedMs === undefined)
  }

  /** As `find`, of a key that is revoked. */
  findRevoked(digest: Uint8Array): KeyRecord | undefined {
    return this.findIf(digest, (record) => record.revokedMs !== undefined)
  }

  /** The key, not revoked, whose secret before the last rotation has this SHA-256. Its grace may have ended. */
  findPrevious(digest: Uint8Array): KeyRecord | undefined {
    if (digest.length !== HASH_BYTES) return undefined
    const slot = this.byPrevious.find(previousHashOf(digest), (candidate) => {
      const { previous, revokedMs } = this.decode(candidate)
      const known = hexBytes(previous?.sha256 ?? '')
      return revokedMs === undefined && known.length === HASH_BYTES && timingSafeEqual(known, digest)
    })
    return slot === NONE ? undefined : this.decode(slot)
  }

  /** The record that revokes a key of the configuration, if there is one. */
  revocation(key: string): KeyRecord | undefined {
    return this.revocations.size === 0 ? undefined : this.revocations.get(key)
  }

  /** All records that revoke keys of the configuration. */
  allRevocations(): readonly KeyRecord[] {
    return [...this.revocations.values()]
  }

  /** The record of an organisation that a command created. The same object until it changes. */
  organization(id: string): KeyRecord | undefined {
    return this.organizations.get(id)
  }

  /** The raises and resets of an organisation's budgets. The same object until it changes. */
  budgets(organization: string): KeyRecord | undefined {
    return this.budgetRecords.get(organization)
  }

  /** Those of all organisations. */
  allBudgets(): Iterable<KeyRecord> {
    return this.budgetRecords.values()
  }

  /** The key of an id, also a revoked one. */
  get(id: string): KeyRecord | undefined {
    const slot = this.slotOf(id)
    return slot === NONE ? undefined : this.decode(slot)
  }

  /** Adds a key, or replaces the one of the same id. */
  put(record: KeyRecord): void {
    const bytes = this.layout.encode(record)
    const known = this.slotOf(record.id)
    if (known !== NONE) {
      if (this.bytes(known).equals(bytes)) {
        this.stamp(known)
        return
      }
      this.remove(known)
    }
    const slot = this.freeSlots.pop() ?? this.slots++
    const { columns } = this
    columns.expect(slot + 1)
    const { chunk, offset } = this.arena.write(bytes)
    columns.chunk[slot] = chunk
    columns.offset[slot] = offset
    columns.length[slot] = bytes.length
    columns.endMs[slot] = endOf(record)
    columns.tokenHash[slot] = hashOf(bytes.subarray(0, HASH_BYTES))
    columns.idHash[slot] = hashOf(record.id)
    columns.reading[slot] = this.reading - 1
    columns.previousHash[slot] = record.previous === undefined ? 0 : previousHashOf(hexBytes(record.previous.sha256))
    this.stamp(slot)
    this.byToken.add(slot)
    this.byId.add(slot)
    if (columns.previousHash[slot] !== 0) this.byPrevious.add(slot)
    const [prefix, id] = partsOfId(record.id)
    this.others[prefix]?.set(id, record)
    if (prefix === BUDGETS) this.budgetsVersion += 1
  }

  delete(id: string): void {
    const slot = this.slotOf(id)
    if (slot !== NONE) this.remove(slot)
  }

  /** Starts a reading: `unread` then lists the keys that it did not put. */
  beginReading(): void {
    this.reading++
    this.sizeRead = 0
  }

  /** The ids that were not put since the reading began. Keys may be put and deleted between two of them. */
  *unread(): Generator<string> {
    for (let slot = 0; slot < this.slots; slot++) {
      const { length, reading } = this.columns
      if (length[slot] !== 0 && reading[slot] !== this.reading) yield idIn(this.bytes(slot))
    }
  }

  /** Ids of at most `most` keys that ended by `ms`. */
  endedBy(ms: number, most: number): readonly string[] {
    const { length, endMs } = this.columns
    const ids: string[] = []
    for (let slot = 0; slot < this.slots && ids.length < most; slot++) {
      if (length[slot] !== 0 && (endMs[slot] ?? Number.POSITIVE_INFINITY) <= ms) ids.push(idIn(this.bytes(slot)))
    }
    return ids
  }

  private findIf(digest: Uint8Array, isWanted: (record: KeyRecord) => boolean): KeyRecord | undefined {
    if (digest.length !== HASH_BYTES) return undefined
    const slot = this.byToken.find(hashOf(digest), (candidate) => {
      if (!timingSafeEqual(this.bytes(candidate).subarray(0, HASH_BYTES), digest)) return false
      return isWanted(this.decode(candidate))
    })
    return slot === NONE ? undefined : this.decode(slot)
  }

  private slotOf(id: string): number {
    const bytes = Buffer.from(id)
    return this.byId.find(hashOf(id), (slot) => idBytes(this.bytes(slot)).equals(bytes))
  }

  private stamp(slot: number): void {
    if (this.columns.reading[slot] === this.reading) return
    this.columns.reading[slot] = this.reading
    this.sizeRead++
  }

  private remove(slot: number): void {
    const { columns } = this
    this.byToken.remove(slot)
    this.byId.remove(slot)
    if (columns.previousHash[slot] !== 0) this.byPrevious.remove(slot)
    const [prefix, id] = partsOfId(idIn(this.bytes(slot)))
    this.others[prefix]?.delete(id)
    if (prefix === BUDGETS) this.budgetsVersion += 1
    this.decoded.delete(slot)
    this.arena.release(columns.chunk[slot] ?? 0, columns.offset[slot] ?? 0, columns.length[slot] ?? 0)
    if (columns.reading[slot] === this.reading) this.sizeRead--
    columns.length[slot] = 0
    this.freeSlots.push(slot)
  }

  private bytes(slot: number): Buffer {
    const { chunk, offset, length } = this.columns
    return this.arena.read(chunk[slot] ?? 0, offset[slot] ?? 0, length[slot] ?? 0)
  }

  private decode(slot: number): KeyRecord {
    const known = this.decoded.get(slot)
    if (known !== undefined) return known
    const record = this.layout.decode(this.bytes(slot))
    if (this.decoded.size >= DECODED_MAX) {
      const [oldest] = this.decoded.keys()
      if (oldest !== undefined) this.decoded.delete(oldest)
    }
    this.decoded.set(slot, record)
    return record
  }
}

function idIn(bytes: Buffer): string {
  return idBytes(bytes).toString()
}

/** Never 0. */
function previousHashOf(digest: Uint8Array): number {
  return (hashOf(digest) | 1) >>> 0
}

function hexBytes(hex: string): Buffer {
  return Buffer.from(hex, 'hex')
}

function hashOf(bytes: string | Uint8Array): number {
  return Bun.hash.xxHash32(bytes)
}

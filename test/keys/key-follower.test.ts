/** A gateway's copy of the keys, for random histories of a store in memory: rolled back, emptied, replaced, failing. */

import { expect } from 'bun:test'
import type { AdminAudit } from '../../src/keys/admin-audit.ts'
import { KeyFollower } from '../../src/keys/key-follower.ts'
import type { KeyRecord } from '../../src/keys/key-record.ts'
import {
  CHANGES_A_PAGE,
  type Change,
  type KeyBackend,
  type KeyPage,
  type Replacement,
  type Standing,
  type Version,
} from '../../src/keys/key-store.ts'
import { property, type Random } from '../support/random.ts'

const STEPS = 120
const IDS = 25
/** Far fewer entries than the real log, so that it is often too short. */
const LOG_KEPT = 12

interface Contents {
  readonly records: ReadonlyMap<string, string>
  readonly log: readonly Change[]
  readonly number: number
}

const NO_AUDIT: AdminAudit = {
  append: async () => {},
  entriesAfter: async () => ({ entries: [], end: undefined }),
  newest: async () => undefined,
  trim: async () => {},
}

class MapStore implements KeyBackend {
  readonly audit = NO_AUDIT
  records = new Map<string, string>()
  log: Change[] = []
  number = 0
  /** The chance that a call fails, before or after it took effect. */
  failing = 0

  constructor(
    readonly isShared: boolean,
    private readonly random: Random,
  ) {}

  changes(from: number): Promise<{ readonly newest: number; readonly entries: readonly Change[] }> {
    return this.call(() => {
      const entries = this.log.filter(({ number }) => number >= from).slice(0, CHANGES_A_PAGE)
      return { newest: this.number, entries }
    })
  }

  problemOf(error: unknown): string {
    return String(error)
  }

  isFinal(): boolean {
    return false
  }

  head(): Promise<Version> {
    return this.call(() => {
      if (this.number === 0) return { number: 0, nonce: '' }
      const last = this.log.at(-1)
      if (last?.number === this.number) return last
      this.note('')
      return this.log.at(-1) ?? { number: 0, nonce: '' }
    })
  }

  texts(ids: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.call(() => ids.map((id) => this.records.get(id)))
  }

  async organizationIds(): Promise<readonly string[]> {
    return []
  }

  page(cursor = '0'): Promise<KeyPage> {
    return this.call(() => {
      const [at, all] = [Number(cursor), [...this.records.values()]]
      return { texts: all.slice(at, at + 5), next: at + 5 < all.length ? String(at + 5) : undefined }
    })
  }

  size(): Promise<number> {
    return this.call(() => this.records.size)
  }

  replace(replacements: readonly Replacement[]): Promise<readonly string[]> {
    return this.call(() => replacements.filter((one) => this.replaced(one)).map(({ id }) => id))
  }

  async standing(): Promise<Standing> {
    return { found: [], doubt: undefined }
  }

  async nowMs(): Promise<number> {
    return Date.now()
  }

  async close(): Promise<void> {}

  /** A write of an earlier version: it counts the change and does not log it. */
  writeWithoutLog(id: string, text: string): void {
    this.records.set(id, text)
    this.number++
  }

  contents(): Contents {
    return { records: new Map(this.records), log: [...this.log], number: this.number }
  }

  become({ records, log, number }: Contents): void {
    this.records = new Map(records)
    this.log = [...log]
    this.number = number
  }

  private note(id: string): void {
    this.log.push({ number: ++this.number, nonce: String(this.random.below(2 ** 32)), id })
    if (this.log.length > LOG_KEPT) this.log.shift()
  }

  private replaced({ id, before, after }: Replacement): boolean {
    if (this.records.get(id) !== before) return false
    if (after === undefined) this.records.delete(id)
    else this.records.set(id, after)
    this.note(id)
    return true
  }

  private async call<T>(action: () => T): Promise<T> {
    if (this.random.chance(this.failing)) throw new Error('never arrived')
    const result = action()
    if (this.random.chance(this.failing)) throw new Error('its reply was lost')
    return result
  }
}

function drawn(random: Random, id: string): KeyRecord {
  const sha256 = random
    .below(2 ** 32)
    .toString(16)
    .padStart(64, '0')
  return { id, organization: 'acme', sha256, shown: 'gwk_x', createdMs: random.below(1e6) }
}

/** A rotated or a revoked key. */
function changed(random: Random, record: KeyRecord): KeyRecord {
  const revision = (record.revision ?? 0) + 1
  if (record.revokedMs === undefined && random.chance(0.5)) {
    const { sha256 } = drawn(random, record.id)
    return { ...record, sha256, previous: { sha256: record.sha256, untilMs: 5 }, revision }
  }
  return { ...record, revokedMs: record.revokedMs ?? Date.now(), revision }
}

/** One event of the store's history. */
function happen(random: Random, store: MapStore, saved: Contents[]): void {
  const id = `key-${random.below(IDS)}`
  const before = store.records.get(id)
  const record = before === undefined ? undefined : (JSON.parse(before) as KeyRecord)
  const kept = saved[random.below(saved.length)]
  switch (random.below(10)) {
    case 0:
      saved.push(store.contents())
      break
    case 1:
      // A backup, a restart that lost the last writes, or another server.
      if (kept !== undefined) store.become(kept)
      break
    case 2:
      if (random.chance(0.3)) store.become({ records: new Map(), log: [], number: 0 })
      break
    case 3:
      if (record === undefined) store.writeWithoutLog(id, JSON.stringify(drawn(random, id)))
      break
    default: {
      const after = record === undefined ? drawn(random, id) : changed(random, record)
      void store.replace([{ id, before, after: JSON.stringify(after) }]).catch(() => undefined)
    }
  }
}

for (const isShared of [true, false]) {
  const name = isShared ? 'a store of several machines' : 'the store of one machine'
  property(`${name}: after any history each gateway has the keys of the store`, 25, async (random) => {
    const store = new MapStore(isShared, random)
    const options = { prunes: false, pruneFailed: () => {} }
    const followers = [new KeyFollower(store, options), new KeyFollower(store, options)]
    const saved: Contents[] = []
    /** The hashes of keys that a gateway knew to be revoked, by id. */
    const revoked = new Map<string, string>()
    for (let step = 0; step < STEPS; step++) {
      store.failing = random.chance(0.1) ? 0.1 : 0
      happen(random, store, saved)
      for (const follower of followers) {
        // One of them polls rarely, and knows fewer of the lost keys.
        if (random.chance(follower === followers[0] ? 0.5 : 0.9)) continue
        const failed = await follower.update()
        if (failed !== undefined) continue
        for (const id of store.records.keys()) {
          const known = follower.table.get(id)
          // After a rollback another key may have the id: a gateway keeps one key of each id.
          if (known?.sha256 !== revoked.get(id)) revoked.delete(id)
          if (known?.revokedMs !== undefined) revoked.set(id, known.sha256)
        }
      }
    }
    store.failing = 0
    for (let i = 0; i < 4; i++) for (const follower of followers) expect(await follower.update()).toBeUndefined()
    const held = [...store.records.values()].map((text) => JSON.parse(text) as KeyRecord)
    for (const { table, isRead } of followers) {
      expect([isRead, table.size]).toEqual([true, held.length])
      for (const record of held) expect(table.get(record.id)).toEqual(record)
    }
    // No gateway accepts a revoked key again.
    if (!isShared) return
    for (const { id, sha256, revokedMs } of held) if (revoked.get(id) === sha256) expect(revokedMs).toBeDefined()
  })
}

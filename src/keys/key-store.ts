/**
 * API keys beside those of the configuration: commands create, list and revoke them, and every worker and gateway knows
 * within a second. Has the interface of the two stores and the commands' operations; `KeyFollower` keeps a gateway up
 * to date.
 */

import { turn } from '../core/event-loop.ts'
import { SLOW_PERIOD_MS } from '../core/ticker.ts'
import type { AdminAudit, AdminEntry } from './admin-audit.ts'
import { type KeyRecord, parseKeyRecord, revocationId, revokedKeyOf } from './key-record.ts'

/** How often a gateway polls for changes: every gateway enforces a revocation within twice this time. */
export const KEY_POLL_MS = SLOW_PERIOD_MS
/** Commands that change keys wait this long: then every gateway has polled, and a new key works from its first use. */
export const KEYS_KNOWN_MS = 500

/** Entries of the change log; a gateway that missed more reads all keys again. */
export const CHANGES_KEPT = 10_000
/** Entries of the log, and keys, in one read: far below the time limit of a command. */
export const CHANGES_A_PAGE = 500
export const KEYS_A_PAGE = 500
/** How many ids are read to suggest one that is similar to a mistyped id. */
const SOME_IDS = 2000

/**
 * A point in a store's history. After data loss or from a backup, the same number could be reached again with other
 * changes; each change has a random nonce, so number and nonce together identify one history.
 */
export interface Version {
  readonly number: number
  /** Empty before the first change. */
  readonly nonce: string
}

/** One entry of the change log. */
export interface Change extends Version {
  /** Empty if no key has changed. */
  readonly id: string
}

/** Replaces the text of a key if it still is `before`; undefined means no key. */
export interface Replacement {
  readonly id: string
  readonly before: string | undefined
  readonly after: string | undefined
}

export interface KeyPage {
  /** May repeat a key of an earlier page. */
  readonly texts: readonly string[]
  /** Start of the next page; undefined after the last. */
  readonly next: string | undefined
}

/** The storage of keys. Every call is one short operation, however many keys exist. */
export interface KeyBackend {
  /** True if several machines use it; they restore keys that it loses. */
  readonly isShared: boolean
  /** The number of the newest change, and up to `CHANGES_A_PAGE` entries of the log, oldest first, from a number on. */
  changes(from: number): Promise<{ readonly newest: number; readonly entries: readonly Change[] }>
  /** The newest version. Adds an entry to the log if changes were made without one, by an earlier version of weir. */
  head(): Promise<Version>
  /** The texts of some keys, in the order of `ids`. */
  texts(ids: readonly string[]): Promise<readonly (string | undefined)[]>
  /** One page of all keys; without a cursor, the first. */
  page(cursor: string | undefined): Promise<KeyPage>
  /** The number of keys, or a lower bound; 0 if counting takes long and pages are always complete. */
  size(): Promise<number>
  /**
   * Each replacement is atomic together with its entry in the log. Resolves to the ids that were written. `entry` is
   * added to the admin audit for each of them, in the same step.
   */
  replace(replacements: readonly Replacement[], entry?: AdminEntry): Promise<readonly string[]>
  readonly audit: AdminAudit
  /** The clock of the storage. */
  nowMs(): Promise<number>
  close(): Promise<void>
}

/** The operations of commands and of the admin API. Each changes one key only. */
export class KeyStore {
  readonly audit: AdminAudit

  constructor(private readonly backend: KeyBackend) {
    this.audit = backend.audit
  }

  /** False if the id is in use, also by a revoked or expired key whose record is still kept. */
  async create(record: KeyRecord, entry?: AdminEntry): Promise<boolean> {
    const { id } = record
    const after = JSON.stringify(record)
    const written = await this.backend.replace([{ id, before: undefined, after }], entry)
    if (written.length > 0) return true
    // An earlier attempt may have written it, and its reply was lost.
    const [there] = await this.backend.texts([id])
    return there === after
  }

  async get(id: string): Promise<KeyRecord | undefined> {
    const [text] = await this.backend.texts([id])
    return text === undefined ? undefined : parseKeyRecord(text)
  }

  /** The keys with these ids, without those that do not exist. */
  async records(ids: readonly string[]): Promise<readonly KeyRecord[]> {
    const texts = await this.backend.texts(ids)
    return texts
      .map((text) => (text === undefined ? undefined : parseKeyRecord(text)))
      .filter((record) => record !== undefined)
  }

  /** Some of the ids in use: reading all of them would take long, and this is only for a suggestion. */
  async someIds(): Promise<readonly string[]> {
    const ids = new Set<string>()
    let cursor: string | undefined
    do {
      const page = await this.backend.page(cursor)
      for (const record of page.texts.map(parseKeyRecord))
        if (record !== undefined && isCreated(record)) ids.add(record.id)
      cursor = page.next
    } while (cursor !== undefined && ids.size < SOME_IDS)
    return [...ids]
  }

  /**
   * The stored keys, of one organization or of all, sorted by id; the first `most` of them. Reading hundreds of
   * thousands takes seconds: other work goes on meanwhile.
   */
  async list(organization?: string, most = Number.POSITIVE_INFINITY): Promise<readonly KeyRecord[]> {
    let found = new Map<string, KeyRecord>()
    let cursor: string | undefined
    do {
      const page = await this.backend.page(cursor)
      for (const record of page.texts.map(parseKeyRecord)) {
        if (record === undefined || (organization !== undefined && record.organization !== organization)) continue
        if (isCreated(record)) found.set(record.id, record)
      }
      // Pages are in no order: the keys with the first ids may be on the last page.
      if (found.size > 2 * most) found = new Map(firstById(found, most).map((record) => [record.id, record]))
      cursor = page.next
      if (cursor !== undefined) await turn()
    } while (cursor !== undefined)
    return firstById(found, most)
  }

  /** The records that revoke some of these keys of the configuration, by the id of the key. */
  async revocations(keys: readonly string[]): Promise<ReadonlyMap<string, KeyRecord>> {
    const found = new Map<string, KeyRecord>()
    for (let i = 0; i < keys.length; i += KEYS_A_PAGE) {
      const some = keys.slice(i, i + KEYS_A_PAGE)
      const texts = await this.backend.texts(some.map(revocationId))
      for (const [at, key] of some.entries()) {
        const record = parseKeyRecord(texts[at] ?? '')
        if (record !== undefined) found.set(key, record)
      }
    }
    return found
  }

  /**
   * Replaces a key by what `edit` makes of its record, whatever others change at the same time: then `edit` is called
   * again. Nothing is written if `edit` returns the record itself. Resolves to the key as it is now; undefined if there
   * is none. Throws what `edit` throws.
   */
  async change(id: string, edit: (record: KeyRecord) => KeyRecord, entry?: AdminEntry): Promise<KeyRecord | undefined> {
    let tried: string | undefined
    for (;;) {
      const [before] = await this.backend.texts([id])
      const record = before === undefined ? undefined : parseKeyRecord(before)
      // The same text: an earlier attempt of ours wrote it, and its reply was lost.
      if (record === undefined || before === tried) return record
      const edited = edit(record)
      if (edited === record) return record
      const next = { ...edited, revision: (record.revision ?? 0) + 1 }
      tried = JSON.stringify(next)
      if ((await this.backend.replace([{ id, before, after: tried }], entry)).length > 0) return next
    }
  }

  async revoke(id: string, nowMs: number, entry?: AdminEntry): Promise<'revoked' | 'already_revoked' | 'unknown'> {
    const edit = (record: KeyRecord) => (record.revokedMs === undefined ? { ...record, revokedMs: nowMs } : record)
    const revoked = await this.change(id, edit, entry)
    if (revoked === undefined) return 'unknown'
    return revoked.revokedMs === nowMs ? 'revoked' : 'already_revoked'
  }

  async close(): Promise<void> {
    await this.backend.close()
  }
}

function firstById(keys: ReadonlyMap<string, KeyRecord>, most: number): readonly KeyRecord[] {
  return [...keys.values()].sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, most)
}

/** False for a record that revokes a key of the configuration. */
function isCreated({ id }: KeyRecord): boolean {
  return revokedKeyOf(id) === undefined
}

/**
 * API keys beside those of the configuration: commands create, list and revoke them, and every worker and gateway knows
 * within a second. Has the interface of the two stores and the commands' operations; `KeyFollower` keeps a gateway up
 * to date.
 */

import { SLOW_PERIOD_MS } from '../core/ticker.ts'
import { type KeyRecord, parseKey } from './key-record.ts'

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
  /** Each replacement is atomic together with its entry in the log. Resolves to the ids that were written. */
  replace(replacements: readonly Replacement[]): Promise<readonly string[]>
  /** The clock of the storage. */
  nowMs(): Promise<number>
  close(): Promise<void>
}

/** The operations of `weir keys`. Each changes one key only. */
export class KeyStore {
  constructor(private readonly backend: KeyBackend) {}

  /** False if the id is in use, also by a revoked or expired key whose record is still kept. */
  async create(record: KeyRecord): Promise<boolean> {
    const { id } = record
    const after = JSON.stringify(record)
    const written = await this.backend.replace([{ id, before: undefined, after }])
    if (written.length > 0) return true
    // An earlier attempt may have written it, and its reply was lost.
    const [there] = await this.backend.texts([id])
    return there === after
  }

  async get(id: string): Promise<KeyRecord | undefined> {
    const [text] = await this.backend.texts([id])
    return text === undefined ? undefined : parseKey(text)
  }

  /** Some of the ids in use: reading all of them would take long, and this is only for a suggestion. */
  async someIds(): Promise<readonly string[]> {
    const ids = new Set<string>()
    let cursor: string | undefined
    do {
      const page = await this.backend.page(cursor)
      for (const record of page.texts.map(parseKey)) if (record !== undefined) ids.add(record.id)
      cursor = page.next
    } while (cursor !== undefined && ids.size < SOME_IDS)
    return [...ids]
  }

  /** Every stored key, of one organization or of all, sorted by id. */
  async list(organization?: string): Promise<readonly KeyRecord[]> {
    const found = new Map<string, KeyRecord>()
    let cursor: string | undefined
    do {
      const page = await this.backend.page(cursor)
      for (const record of page.texts.map(parseKey)) {
        if (record === undefined || (organization !== undefined && record.organization !== organization)) continue
        found.set(record.id, record)
      }
      cursor = page.next
    } while (cursor !== undefined)
    return [...found.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  async revoke(id: string, nowMs: number): Promise<'revoked' | 'already_revoked' | 'unknown'> {
    for (;;) {
      const [before] = await this.backend.texts([id])
      const record = before === undefined ? undefined : parseKey(before)
      if (record === undefined) return 'unknown'
      // The same time: an earlier attempt of ours revoked it, and its reply was lost.
      if (record.revokedMs !== undefined) return record.revokedMs === nowMs ? 'revoked' : 'already_revoked'
      const after = JSON.stringify({ ...record, revokedMs: nowMs } satisfies KeyRecord)
      // If it changed since it was read, read it again.
      if ((await this.backend.replace([{ id, before, after }])).length > 0) return 'revoked'
    }
  }

  async close(): Promise<void> {
    await this.backend.close()
  }
}

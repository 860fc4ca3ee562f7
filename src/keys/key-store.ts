/**
 * API keys beside those of the configuration: created, listed and revoked by command, known to every worker and node within a second. Owns
 * what the two stores have in common; `KeyFollower` keeps a gateway up to date with one.
 */

import { type KeyRecord, parseKey } from './key-record.ts'

/** How often a gateway asks the store what has changed; a revocation is in force everywhere within twice this. */
export const KEY_POLL_MS = 400
/** Commands that change keys finish only after this: by then every gateway has asked, so that a new key works from its first use on. */
export const KEYS_KNOWN_MS = 500

/** The change log keeps this many entries; a gateway that missed more reads all keys again. */
export const CHANGES_KEPT = 10_000
/** How many entries of the log, and how many keys, are read at once: each piece is far below the time limit of a command. */
export const CHANGES_A_PAGE = 500
export const KEYS_A_PAGE = 500
/** Who mistyped an id is shown a similar one, if it is among so many. */
const SOME_IDS = 2000

/**
 * A point in a store's history. A number alone could be reached again with other keys, after data loss or from a backup; the nonce is drawn
 * at random for each change, so that both together are met in one history only.
 */
export interface Version {
  readonly number: number
  /** Empty before the first change. */
  readonly nonce: string
}

/** One entry of the change log. */
export interface Change extends Version {
  /** Empty: no key has changed. */
  readonly id: string
}

/** Writes a key's text, if the key still has the text `before`; undefined stands for no key. */
export interface Replacement {
  readonly id: string
  readonly before: string | undefined
  readonly after: string | undefined
}

export interface KeyPage {
  /** May hold a key again that an earlier page had. */
  readonly texts: readonly string[]
  /** Where the next page begins; undefined after the last. */
  readonly next: string | undefined
}

/** Where keys are kept. Every call is one short operation, however many keys there are. */
export interface KeyBackend {
  /** True if several machines use it, which give back what it loses. */
  readonly isShared: boolean
  /** The number of the newest change, and up to `CHANGES_A_PAGE` entries of the log, oldest first, from a number on. */
  changes(from: number): Promise<{ readonly newest: number; readonly entries: readonly Change[] }>
  /** The newest version. Adds an entry to the log if changes were made without one, by an earlier version of this program. */
  head(): Promise<Version>
  /** The texts of some keys, in the order asked for. */
  texts(ids: readonly string[]): Promise<readonly (string | undefined)[]>
  /** Some of all keys; without a cursor, the first. */
  page(cursor: string | undefined): Promise<KeyPage>
  /** How many keys it has at least; 0 if that takes long to count and its pages are never incomplete. */
  size(): Promise<number>
  /** Each of them alone is atomic, with its entry in the log. Resolves to the ids of those that were written. */
  replace(replacements: readonly Replacement[]): Promise<readonly string[]>
  /** By its own clock. */
  nowMs(): Promise<number>
  close(): Promise<void>
}

/** What commands do with keys: each touches the key that it is about, and no other. */
export class KeyStore {
  constructor(private readonly backend: KeyBackend) {}

  /** False if the id is in use, also by a key that was revoked or has expired and is still kept. */
  async create(record: KeyRecord): Promise<boolean> {
    const { id } = record
    const after = JSON.stringify(record)
    const written = await this.backend.replace([{ id, before: undefined, after }])
    if (written.length > 0) return true
    // A first try whose reply was lost may have written it.
    const [there] = await this.backend.texts([id])
    return there === after
  }

  async get(id: string): Promise<KeyRecord | undefined> {
    const [text] = await this.backend.texts([id])
    return text === undefined ? undefined : parseKey(text)
  }

  /** Some of the ids in use: reading all of them would take long, and nothing depends on it. */
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

  /** Every key that is kept, of one organisation or of all, by id. */
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
      // At this moment: by our own first try, whose reply was lost.
      if (record.revokedMs !== undefined) return record.revokedMs === nowMs ? 'revoked' : 'already_revoked'
      const after = JSON.stringify({ ...record, revokedMs: nowMs } satisfies KeyRecord)
      // It may have changed since it was read: then it is read again.
      if ((await this.backend.replace([{ id, before, after }])).length > 0) return 'revoked'
    }
  }

  async close(): Promise<void> {
    await this.backend.close()
  }
}

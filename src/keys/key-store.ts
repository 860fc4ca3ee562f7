/**
 * API keys beside those of the configuration: commands create, list and revoke them, and every worker and gateway knows
 * within a second. Has the interface of the two stores and the commands' operations; `KeyFollower` keeps a gateway up
 * to date.
 */

import { randomBytes } from 'node:crypto'
import { batchesOf } from '../core/batches.ts'
import { turn } from '../core/event-loop.ts'
import { parseObject } from '../core/json.ts'
import { KeyProblem } from '../core/key-problem.ts'
import { SLOW_PERIOD_MS } from '../core/ticker.ts'
import type { AdminAudit, AdminEntry } from './admin-audit.ts'
import { type KeyRecord, parseKeyRecord, partsOfId, revocationId } from './key-record.ts'
import { organizationRecordId } from './organization-record.ts'

/** How often a gateway polls for changes: every gateway enforces a revocation within twice this time. */
export const KEY_POLL_MS = SLOW_PERIOD_MS
/** Commands that change keys wait this long: then every gateway has polled, and a new key works from its first use. */
const KEYS_KNOWN_MS = 500

/** Entries of the change log; a gateway that missed more reads all keys again. */
export const CHANGES_KEPT = 10_000
/** Entries of the log, and keys, in one read: far below the time limit of a command. */
export const CHANGES_A_PAGE = 500
export const KEYS_A_PAGE = 500
/** How many ids are read to suggest one that is similar to a mistyped id. */
const SOME_IDS = 2000
/** How long a change may take to be safe: a failover takes 10 to 20 s until the old master takes no more writes. */
const CONFIRM_MS_MAX = 30_000
const CONFIRM_PAUSE_MS = 200

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

/** What the server that all gateways follow has, which may be another one than took the changes. */
export interface Standing {
  /** The present text of each key, and whether the log has the change. */
  readonly found: readonly { readonly text: string | undefined; readonly isLogged: boolean }[]
  /** Why it may still be lost, in a failover; undefined if it stays. */
  readonly doubt: string | undefined
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
  /** The ids of all organisations that commands created. */
  organizationIds(): Promise<readonly string[]>
  /** One page of all keys; without a cursor, the first. */
  page(cursor: string | undefined): Promise<KeyPage>
  /** The number of keys, or a lower bound; 0 if counting takes long and pages are always complete. */
  size(): Promise<number>
  /**
   * Each replacement is atomic together with its entry in the log. Resolves to the ids that were written. `entry` is
   * added to the admin audit for each of them, in the same step. `nonce` marks the entries of the log.
   */
  replace(replacements: readonly Replacement[], entry?: AdminEntry, nonce?: string): Promise<readonly string[]>
  /** Whether it is an error of the storage against which no retry helps. */
  isFinal(error: unknown): boolean
  /** An error of the storage in the operator's words. */
  problemOf(error: unknown): string
  /** What has become of changes that were made a moment ago. */
  standing(changes: readonly Pick<Change, 'id' | 'nonce'>[]): Promise<Standing>
  readonly audit: AdminAudit
  /** The clock of the storage. */
  nowMs(): Promise<number>
  close(): Promise<void>
}

type Edit = (record: KeyRecord) => KeyRecord

/** A change that this process made, to make it again if it is lost. */
interface Made {
  readonly id: string
  readonly nonce: string
  readonly text: string
  readonly entry: AdminEntry | undefined
  /** Absent for a new key. */
  readonly edit?: Edit
  /** False for a key that was already as it was to be. */
  readonly isWritten: boolean
}

/** What is known of the changes. */
interface Safety {
  /** Why the store may lose one of them; undefined if it keeps them. */
  readonly doubt: string | undefined
  /** Entries of the audit that were lost, of changes that a gateway has put back. */
  readonly unaudited: readonly AdminEntry[]
}

/**
 * The operations of commands and of the admin API. Each changes one key only; a change is in force everywhere, and
 * stays, when `confirm` has resolved.
 */
export class KeyStore {
  readonly audit: AdminAudit
  /** The changes since the last `confirm`, by the id of the key. */
  private readonly made = new Map<string, Made>()

  constructor(private readonly backend: KeyBackend) {
    this.audit = backend.audit
  }

  /** False if the id is in use, also by a revoked or expired key whose record is still kept. */
  async create(record: KeyRecord, entry?: AdminEntry): Promise<boolean> {
    const { id } = record
    const text = JSON.stringify(record)
    const made = { id, nonce: newNonce(), text, entry, isWritten: true }
    const isCreated = await this.put(made, undefined)
    if (isCreated) this.made.set(id, made)
    return isCreated
  }

  /** False if the text is not `before`. */
  private async put({ id, nonce, text, entry }: Made, before: string | undefined): Promise<boolean> {
    for (;;) {
      const written = await this.backend.replace([{ id, before, after: text }], entry, nonce)
      if (written.length > 0) return true
      // An earlier attempt may have written it, and its reply was lost. In a failover, the other server has no record.
      const [there] = await this.backend.texts([id])
      if (there !== before) return there === text
    }
  }

  async get(id: string): Promise<KeyRecord | undefined> {
    const [text] = await this.backend.texts([id])
    return text === undefined ? undefined : parseKeyRecord(text)
  }

  /** The keys with these ids, without those that do not exist. */
  async records(ids: readonly string[]): Promise<readonly KeyRecord[]> {
    const found: KeyRecord[] = []
    for (const some of batchesOf(ids, KEYS_A_PAGE)) {
      for (const text of await this.backend.texts(some)) {
        const record = text === undefined ? undefined : parseKeyRecord(text)
        if (record !== undefined) found.push(record)
      }
    }
    return found
  }

  /** Some of the ids in use: reading all of them would take long, and this is only for a suggestion. */
  async someIds(): Promise<readonly string[]> {
    const ids = new Set<string>()
    for await (const keys of this.pages()) {
      for (const { id } of keys) ids.add(id)
      if (ids.size >= SOME_IDS) break
    }
    return [...ids]
  }

  /**
   * The stored keys, of one organization or of all, sorted by id; the first `most` of them. Reading hundreds of
   * thousands takes seconds: other work goes on meanwhile.
   */
  async list(organization?: string, most = Number.POSITIVE_INFINITY): Promise<readonly KeyRecord[]> {
    let found = new Map<string, KeyRecord>()
    for await (const keys of this.pages()) {
      for (const key of keys)
        if (organization === undefined || key.organization === organization) found.set(key.id, key)
      // Pages are in no order: the keys with the first ids may be on the last page.
      if (found.size > 2 * most) found = new Map(firstById(found, most).map((key) => [key.id, key]))
    }
    return firstById(found, most)
  }

  /** All keys, without the records that are none; one may occur twice. */
  private async *pages(): AsyncGenerator<readonly KeyRecord[]> {
    let cursor: string | undefined
    do {
      const page = await this.backend.page(cursor)
      yield page.texts.flatMap((text) => parseKeyRecord(text) ?? []).filter(({ id }) => partsOfId(id)[0] === '')
      cursor = page.next
      if (cursor !== undefined) await turn()
    } while (cursor !== undefined)
  }

  /** The records of all organisations that commands created, by id. */
  async organizations(): Promise<readonly KeyRecord[]> {
    const found = await this.records((await this.backend.organizationIds()).map(organizationRecordId))
    return found.toSorted((one, other) => (one.organization < other.organization ? -1 : 1))
  }

  /** The record of an organisation that a command created. */
  async organization(id: string): Promise<KeyRecord | undefined> {
    return await this.get(organizationRecordId(id))
  }

  /** The records that revoke some of these keys of the configuration, by the id of the key. */
  async revocations(keys: readonly string[]): Promise<ReadonlyMap<string, KeyRecord>> {
    const records = await this.records(keys.map(revocationId))
    return new Map(records.map((record) => [partsOfId(record.id)[1], record]))
  }

  /**
   * Replaces a key by what `edit` makes of its record, whatever others change at the same time: then `edit` is called
   * again. Nothing is written if `edit` returns the record itself. Resolves to the key as it is now; undefined if there
   * is none. Throws what `edit` throws.
   */
  async change(id: string, edit: Edit, entry?: AdminEntry): Promise<KeyRecord | undefined> {
    for (;;) {
      const [before] = await this.backend.texts([id])
      const record = before === undefined ? undefined : parseKeyRecord(before)
      if (before === undefined || record === undefined) return undefined
      const edited = edit(record)
      // The record as it is may be another command's change, which is not confirmed yet.
      const isWritten = edited !== record
      const next = isWritten ? { ...edited, revision: (record.revision ?? 0) + 1 } : record
      const text = isWritten ? JSON.stringify(next) : before
      const made = { id, nonce: newNonce(), text, entry, edit, isWritten }
      if (isWritten && !(await this.put(made, before))) continue
      // An earlier attempt of ours on this server proves nothing about the one that all follow.
      if (isWritten || !this.made.has(id)) this.made.set(id, made)
      return next
    }
  }

  async revoke(id: string, nowMs: number, entry?: AdminEntry): Promise<'revoked' | 'already_revoked' | 'unknown'> {
    const edit = (record: KeyRecord) => (record.revokedMs === undefined ? { ...record, revokedMs: nowMs } : record)
    const revoked = await this.change(id, edit, entry)
    if (revoked === undefined) return 'unknown'
    return revoked.revokedMs === nowMs ? 'revoked' : 'already_revoked'
  }

  /**
   * Resolves when every gateway has the changes that this process made, and no failover can undo them. Changes that the
   * store has lost meanwhile are made again. Throws `KeyProblem` if that takes too long.
   */
  async confirm(withinMs = CONFIRM_MS_MAX): Promise<void> {
    const end = performance.now() + withinMs
    for (let wasSure = true; this.made.size > 0; ) {
      if (wasSure) await Bun.sleep(KEYS_KNOWN_MS)
      const { doubt, unaudited } = await this.remake().catch((error: unknown) => this.doubtOf(error))
      // After a doubt, gateways have changed the server perhaps: they poll once more.
      if (doubt === undefined && wasSure) {
        if (unaudited.length > 0) await this.audit.append(unaudited)
        this.made.clear()
      }
      wasSure = doubt === undefined
      if (doubt === undefined) continue
      if (performance.now() >= end) throw unconfirmed([...this.made.keys()], doubt, withinMs)
      await Bun.sleep(CONFIRM_PAUSE_MS)
    }
  }

  /** Makes changes again that are lost. */
  private async remake(): Promise<Safety> {
    const changes = [...this.made.values()]
    const unaudited: AdminEntry[] = []
    let doubt: string | undefined
    for (const page of batchesOf(changes, KEYS_A_PAGE)) {
      const standing = await this.backend.standing(page)
      doubt ??= standing.doubt
      for (const [at, made] of page.entries()) {
        const { text, isLogged } = standing.found[at] ?? { text: undefined, isLogged: false }
        if (isLogged) continue
        if (!holds(made, text)) {
          await this.makeAgain(made, text)
          doubt ??= 'Redis has lost a change, which was made again'
        } else if (made.isWritten && made.entry !== undefined) unaudited.push(made.entry)
      }
    }
    return { doubt, unaudited }
  }

  private async makeAgain(made: Made, text: string | undefined): Promise<void> {
    const { id, edit, entry } = made
    if (text === undefined) await this.put(made, undefined)
    // A key that others have changed meanwhile gets the change on top.
    else if (edit !== undefined) await this.change(id, edit, entry)
    else throw new KeyProblem('exists', `another key got the id ${JSON.stringify(id)} at the same time; choose another`)
  }

  async close(): Promise<void> {
    await this.backend.close()
  }

  /** Rethrows what a retry does not help against. */
  private doubtOf(error: unknown): Safety {
    if (error instanceof KeyProblem || this.backend.isFinal(error)) throw error
    if (!(error instanceof Error) || error instanceof TypeError) throw error
    return { doubt: this.backend.problemOf(error), unaudited: [] }
  }
}

/**
 * Whether a change that the log does not have holds: a gateway that knew the later record has put it back, with its
 * fields in another order.
 */
function holds({ text: made, edit }: Made, text: string | undefined): boolean {
  if (text === undefined) return false
  const record = parseKeyRecord(text)
  return (record !== undefined && edit?.(record) === record) || Bun.deepEquals(parseObject(text), parseObject(made))
}

/** A nonce for one change. */
export function newNonce(): string {
  return randomBytes(8).toString('hex')
}

function unconfirmed(ids: readonly string[], doubt: string, withinMs: number): KeyProblem {
  const [first = ''] = ids
  const what = ids.length === 1 ? JSON.stringify(first) : `${ids.length} ids`
  return new KeyProblem(
    'unconfirmed',
    `the change of ${what} was sent, and ${withinMs / 1000} s later it may still be lost: ${doubt}. Run the ` +
      'command again; a key that was created or rotated has an unknown secret: rotate it.',
  )
}

function firstById(keys: ReadonlyMap<string, KeyRecord>, most: number): readonly KeyRecord[] {
  return [...keys.values()].sort((a, b) => (a.id < b.id ? -1 : 1)).slice(0, most)
}

/**
 * Keeps one process up to date with the key store: reads all keys once, page by page, then only changes. If the store's
 * history does not continue from what was read (it was emptied, rolled back, or is another store), it reads all keys
 * again and restores those that were lost.
 */

import { batchesOf } from '../core/batches.ts'
import { HOUR_MS } from '../core/durations.ts'
import { turn } from '../core/event-loop.ts'
import { Pause } from '../core/pause.ts'
import { LedgerFileError } from '../sqlite/database.ts'
import { AuditTail } from './admin-audit.ts'
import { ConfiguredRevocations, type RevocationOptions } from './configured-revocations.ts'
import { endOf, KEY_KEPT_MS, type KeyRecord, parseKeyRecord } from './key-record.ts'
import {
  CHANGES_A_PAGE,
  type Change,
  KEY_POLL_MS,
  KEYS_A_PAGE,
  type KeyBackend,
  type Replacement,
  type Version,
} from './key-store.ts'
import { KeyTable } from './key-table.ts'

/**
 * The first pause after a failed poll, because Redis is not connected yet when a gateway starts; it doubles each time.
 */
const FIRST_POLL_MS = 20
/** After this time without a successful poll the keys are out of date: a revoked key may still be accepted. */
const STALE_MS = 2000
/** A failed poll counts for at most this time: our own process may have been suspended meanwhile. */
const POLL_MS_MAX = 1000
/** The shortest pause between two polls, however long one took. */
const PAUSE_MS_MIN = 20
/** How often changes are polled while all keys are read. */
const CATCH_UP_MS = 200
/** How often one page is read before the error counts. */
const PAGE_TRIES = 3
const PAGE_PAUSE_MS = 100
/** Keys can vanish while they are counted. After this many readings with a wrong count, the last one is used. */
const READINGS_MAX = 3
/** Records restored or deleted in one call. */
const WRITTEN_A_CALL = 100
/** After this many written records, changes are read at once: the log must keep them until all gateways have. */
const CAUGHT_UP_AFTER = 1000
const PRUNE_MS = HOUR_MS

export interface FollowerOptions extends RevocationOptions {
  /** True in one process of a machine, which deletes the records of keys that ended 30 days ago. */
  readonly prunes: boolean
  /** Called with the error if deleting fails; the next attempt is an hour later. */
  readonly pruneFailed: (error: unknown) => void
  /** How long entries of the admin audit are kept; for the process that prunes. */
  readonly keepAuditMs?: number
}

/** The keys of the store, as this process last read them. */
export interface FollowedKeys {
  readonly table: KeyTable
  /** False until all keys were read once: the store may be unreachable when a gateway starts. */
  readonly isRead: boolean
  /** Why the keys are out of date; undefined if they are not. */
  readonly complaint: string | undefined
}

export class KeyFollower implements FollowedKeys {
  readonly table = new KeyTable()
  isRead = false
  private seen: Version | undefined
  /** Time since the last successful poll. */
  private missedMs = 0
  private lastError = ''
  private caughtUpMs = 0
  /** False if changes were missed during long work. */
  private hasAllChanges = true
  /** Records to write to the store again, which has an earlier state of them. */
  private readonly toRestore: Replacement[] = []
  private readonly revocations: ConfiguredRevocations
  private readonly auditTail: AuditTail | undefined
  private written = 0
  private prunedMs = Number.NEGATIVE_INFINITY
  private pauseMs = FIRST_POLL_MS
  private readonly firstRead = Promise.withResolvers<void>()
  private isEnded = false
  private readonly pause = new Pause()
  private running: Promise<void> = Promise.resolve()

  constructor(
    private readonly backend: KeyBackend,
    private readonly options: FollowerOptions,
  ) {
    this.revocations = new ConfiguredRevocations(backend, this.table, options)
    if (options.changed !== undefined) this.auditTail = new AuditTail(backend.audit, options.changed)
  }

  get complaint(): string | undefined {
    if (this.missedMs < STALE_MS) return undefined
    const seconds = Math.floor(this.missedMs / 1000)
    return `API keys could not be read for ${seconds} s, so revoked keys may still be accepted: ${this.lastError}`
  }

  /** Resolves when all keys were read once. Throws `LedgerFileError` if the file cannot be used. */
  async start(): Promise<void> {
    const error = await this.update()
    this.running = this.run()
    if (error instanceof LedgerFileError) throw error
    await this.firstRead.promise
  }

  async stop(): Promise<void> {
    this.isEnded = true
    this.pause.end()
    // This fails the call in flight, so that nothing waits for a server that does not answer.
    await this.backend.close()
    await this.running
  }

  /** Polls the store once; `start` repeats it until `stop`. Resolves to the error, if one occurred. */
  async update(): Promise<unknown> {
    const begun = performance.now()
    try {
      await this.poll()
      return undefined
    } catch (error) {
      // The keys that were last read stay in use until the next poll.
      this.missedMs += Math.max(Math.min(performance.now() - begun, POLL_MS_MAX), this.pauseMs)
      this.lastError = this.backend.problemOf(error)
      return error
    }
  }

  /** Call after a change of the configuration: it may no longer have a key that is revoked in the store. */
  configurationChanged(): void {
    this.revocations.configurationChanged()
  }

  private async run(): Promise<void> {
    let begun = performance.now()
    while (!this.isEnded) {
      // Commands wait for this interval to be sure that every gateway has polled. The slow ticker has the same period.
      const leftMs = this.pauseMs - (performance.now() - begun)
      if (this.pauseMs === KEY_POLL_MS && leftMs > KEY_POLL_MS / 2) await this.pause.untilTick()
      else await this.pause.wait(Math.max(PAUSE_MS_MIN, leftMs))
      begun = performance.now()
      this.pauseMs = this.isRead ? KEY_POLL_MS : Math.min(this.pauseMs * 2, KEY_POLL_MS)
      if (!this.isEnded) await this.update()
    }
  }

  private async poll(): Promise<void> {
    await this.auditTail?.begin()
    const { seen } = this
    if (seen === undefined || !this.hasAllChanges || !(await this.catchUp())) await this.readAll()
    while (this.toRestore.length > 0) {
      await this.write(this.toRestore.slice(0, WRITTEN_A_CALL))
      this.toRestore.splice(0, WRITTEN_A_CALL)
    }
    if (seen !== this.seen) await this.auditTail?.report()
    if (!this.options.prunes) return
    await this.revocations.removeReleased()
    if (performance.now() - this.prunedMs >= PRUNE_MS) await this.prune()
  }

  /** Applies the changes since the last poll. False if the log does not continue from there. */
  private async catchUp(): Promise<boolean> {
    for (;;) {
      const { seen } = this
      if (seen === undefined) return false
      const { newest, entries } = await this.backend.changes(seen.number)
      const added = continuation(seen, newest, entries)
      if (added === undefined) return false
      await this.applyChanges(added)
      this.missedMs = 0
      this.caughtUpMs = performance.now()
      if (entries.length < CHANGES_A_PAGE) return true
    }
  }

  private async applyChanges(added: readonly Change[]): Promise<void> {
    const last = added.at(-1)
    if (last === undefined) return
    const ids = [...new Set(added.map(({ id }) => id).filter((id) => id !== ''))]
    const texts = ids.length === 0 ? [] : await this.backend.texts(ids)
    for (const [i, id] of ids.entries()) {
      const text = texts[i]
      if (text === undefined || !this.adopt(text)) this.drop(id)
    }
    this.seen = { number: last.number, nonce: last.nonce }
  }

  /**
   * Stores a key as the store has it. False if the text is not a record. If this process knows a later state of the
   * key, the store was rolled back, or got the key from a machine that did not know of the change: the later state is
   * restored, so that no revoked key and no rotated secret is accepted again.
   */
  private adopt(before: string): boolean {
    const record = parseKeyRecord(before)
    if (record === undefined) return false
    const known = this.backend.isShared ? this.table.get(record.id) : undefined
    const isOutdated = known !== undefined && isLater(known, record)
    if (isOutdated) this.toRestore.push({ id: record.id, before, after: JSON.stringify(known) })
    this.table.put(isOutdated ? known : record)
    return true
  }

  /**
   * Forgets a key that the store does not have. The revocation of a key of the configuration stays while the
   * configuration has the key: another machine, whose configuration no longer has it, deleted the revocation.
   */
  private drop(id: string): void {
    const record = this.table.get(id)
    if (record !== undefined && this.revocations.mustStay(record))
      this.toRestore.push({ id, before: undefined, after: JSON.stringify(record) })
    else this.table.delete(id)
    this.revocations.forget(id)
  }

  private async readAll(): Promise<void> {
    try {
      for (let i = 1; !this.isEnded && !(await this.readOnce(i >= READINGS_MAX)); i++);
    } catch (error) {
      // Changes from here on would be missed: the next poll reads all keys again.
      this.seen = undefined
      throw error
    }
  }

  /** False if the reading must be repeated: more changed meanwhile than the log keeps, or keys are missing. */
  private async readOnce(isLast: boolean): Promise<boolean> {
    this.seen = await this.backend.head()
    this.table.expect(await this.backend.size())
    this.table.beginReading()
    this.hasAllChanges = true
    // The reading finds them again.
    this.toRestore.length = 0
    await this.readRevocations()
    let unreadable = 0
    let cursor: string | undefined
    do {
      const page = await this.page(cursor)
      for (const text of page.texts) if (!this.adopt(text)) unreadable++
      cursor = page.next
      await this.keepUp()
    } while (cursor !== undefined && !this.isEnded)
    if (this.isEnded) return true
    // After a failover, a cursor of the old server skips keys: then the count is too low.
    const size = await this.backend.size()
    await this.keepUp(0)
    if (!this.hasAllChanges || (this.table.sizeRead + unreadable < size && !isLast)) return false
    await this.restoreOrDropUnread()
    if (!this.hasAllChanges) return false
    this.isRead = true
    this.firstRead.resolve()
    return true
  }

  /** First of all: reading very many keys takes seconds, and keys of the configuration are accepted meanwhile. */
  private async readRevocations(): Promise<void> {
    const { ids } = this.revocations
    for (const some of batchesOf(ids, KEYS_A_PAGE)) {
      for (const text of await this.backend.texts(some)) if (text !== undefined) this.adopt(text)
    }
  }

  /** During long work: applies changes if the last time is `afterMs` ago, and lets requests run. */
  private async keepUp(afterMs = CATCH_UP_MS): Promise<void> {
    await turn()
    if (performance.now() - this.caughtUpMs < afterMs || (await this.catchUp())) return
    this.hasAllChanges = false
    this.seen = await this.backend.head()
  }

  private async page(cursor: string | undefined) {
    for (let i = 1; ; i++) {
      try {
        return await this.backend.page(cursor)
      } catch (error) {
        if (i >= PAGE_TRIES || this.isEnded) throw error
        await this.pause.wait(PAGE_PAUSE_MS)
      }
    }
  }

  /** Handles keys that are no longer in the store: restores those that it lost, and drops the others. */
  private async restoreOrDropUnread(): Promise<void> {
    const now = Date.now()
    const lost: Replacement[] = []
    for (const id of this.table.unread()) {
      const record = this.table.get(id)
      const isKept = this.isRead && this.backend.isShared && record !== undefined && endOf(record) + KEY_KEPT_MS > now
      if (isKept) lost.push({ id, before: undefined, after: JSON.stringify(record) })
      else this.drop(id)
      if (lost.length >= WRITTEN_A_CALL) await this.write(lost.splice(0))
    }
    await this.write(lost)
  }

  /** Deletes some records of keys that ended 30 days ago by both clocks: one of them may be wrong. */
  private async prune(): Promise<void> {
    try {
      const until = Math.min(Date.now(), await this.backend.nowMs()) - KEY_KEPT_MS
      const ids = this.table.endedBy(until, WRITTEN_A_CALL)
      const texts = ids.length === 0 ? [] : await this.backend.texts(ids)
      const ended = ids.flatMap((id, i) => {
        const before = texts[i]
        const record = before === undefined ? undefined : parseKeyRecord(before)
        return record === undefined || endOf(record) > until ? [] : [{ id, before, after: undefined }]
      })
      await this.write(ended)
      const { keepAuditMs } = this.options
      if (keepAuditMs !== undefined) await this.backend.audit.trim(Date.now() - keepAuditMs)
      this.revocations.lookAgain()
      // If the page was full, the next poll deletes more.
      if (ids.length < WRITTEN_A_CALL) this.prunedMs = performance.now()
    } catch (error) {
      this.prunedMs = performance.now()
      if (!this.isEnded) this.options.pruneFailed(error)
    }
  }

  private async write(replacements: readonly Replacement[]): Promise<void> {
    for (const some of batchesOf(replacements, WRITTEN_A_CALL)) {
      await this.backend.replace(some)
      this.written += WRITTEN_A_CALL
      // Other machines write as much: the log must keep it until all have read it.
      await this.keepUp(this.written % CAUGHT_UP_AFTER === 0 ? 0 : CATCH_UP_MS)
    }
  }
}

/** Whether the first is a later state of the same key. A revoked key stays revoked. */
function isLater(known: KeyRecord, stored: KeyRecord): boolean {
  if (known.createdMs !== stored.createdMs || known.organization !== stored.organization) return false
  if (stored.revokedMs !== undefined) return false
  return known.revokedMs !== undefined || (known.revision ?? 0) > (stored.revision ?? 0)
}

/** The changes after a version; undefined if the log misses that version or one after it. */
function continuation(seen: Version, newest: number, entries: readonly Change[]): readonly Change[] | undefined {
  const [first] = entries
  const isKnown = seen.number === 0 || (first?.number === seen.number && first.nonce === seen.nonce)
  if (!isKnown) return undefined
  const added = seen.number === 0 ? entries : entries.slice(1)
  if (added.some(({ number }, i) => number !== seen.number + 1 + i)) return undefined
  const reached = added.at(-1)?.number ?? seen.number
  return reached >= newest || entries.length >= CHANGES_A_PAGE ? added : undefined
}

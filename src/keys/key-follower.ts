/**
 * Keeps one process up to date with the key store: reads all keys once, in pieces, then changes alone. Knows when the store's history is not
 * the one that it has read (it was emptied, set back, or is another one), reads everything again then, and gives back what was lost.
 */

import { turn } from '../core/event-loop.ts'
import { LedgerFileError } from '../sqlite/database.ts'
import { endOf, KEY_KEPT_MS, parseKey } from './key-record.ts'
import {
  CHANGES_A_PAGE,
  type Change,
  KEY_POLL_MS,
  type KeyBackend,
  type Replacement,
  type Version,
} from './key-store.ts'
import { KeyTable } from './key-table.ts'

/** How soon it looks again after the first try, since Redis is not connected yet when a gateway starts; then twice as long each time. */
const FIRST_POLL_MS = 20
/** Without a reading for so long the keys are out of date: a revoked one may still be accepted. */
const STALE_MS = 2000
/** A look that failed counts for no more than this: our own process may have stood still meanwhile. */
const TRY_MS_MAX = 1000
/** Between two looks, however long one took. */
const PAUSE_MS_MIN = 20
/** While all keys are read, changes are looked at this often. */
const CATCH_UP_MS = 200
const PAGE_TRIES = 3
const PAGE_PAUSE_MS = 100
/** Keys can vanish while they are counted; whoever counts wrong so often reads on with what there is. */
const READINGS_MAX = 3
/** Records given back or dropped in one call. */
const WRITTEN_A_CALL = 100
const CAUGHT_UP_AFTER = 1000
const PRUNE_MS = 3_600_000

export interface FollowerOptions {
  /** True for one process of a machine: it deletes the records of keys that were over 30 days ago. */
  readonly prunes: boolean
  /** What keeps it from deleting them; it tries again an hour later. */
  readonly pruneFailed: (error: unknown) => void
}

/** What a process knows of the keys of the store. */
export interface FollowedKeys {
  readonly table: KeyTable
  /** False until all of them were read once: the store may be away when a gateway starts. */
  readonly isRead: boolean
  /** Why the keys are out of date; undefined if they are not. */
  readonly complaint: string | undefined
}

export class KeyFollower implements FollowedKeys {
  readonly table = new KeyTable()
  isRead = false
  private seen: Version | undefined
  /** For how long no reading has succeeded. */
  private missedMs = 0
  private trouble = ''
  private caughtUpMs = 0
  /** False if changes were missed in the midst of long work. */
  private isWhole = true
  /** Keys that are to be revoked again in the store. */
  private readonly revived: Replacement[] = []
  private written = 0
  private prunedMs = Number.NEGATIVE_INFINITY
  private pauseMs = FIRST_POLL_MS
  private readonly firstRead = Promise.withResolvers<void>()
  private isEnded = false
  private wake: () => void = () => {}
  private running: Promise<void> = Promise.resolve()

  constructor(
    private readonly backend: KeyBackend,
    private readonly options: FollowerOptions,
  ) {}

  get complaint(): string | undefined {
    if (this.missedMs < STALE_MS) return undefined
    const seconds = Math.floor(this.missedMs / 1000)
    return `API keys could not be read for ${seconds} s, so revoked keys may still be accepted: ${this.trouble}`
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
    this.wake()
    // What is under way fails with it, so that nobody waits for a server that does not answer.
    await this.backend.close()
    await this.running
  }

  /** One look at the store, which `start` repeats until the end. Resolves to what went wrong. */
  async update(): Promise<unknown> {
    const begun = performance.now()
    try {
      await this.look()
      return undefined
    } catch (error) {
      // The keys that were read last stand, and the next look is soon.
      this.missedMs += Math.max(Math.min(performance.now() - begun, TRY_MS_MAX), this.pauseMs)
      this.trouble = error instanceof Error ? error.message : String(error)
      return error
    }
  }

  private async run(): Promise<void> {
    let begun = performance.now()
    while (!this.isEnded) {
      // Commands that wait until every gateway has looked rely on this interval.
      await this.pause(Math.max(PAUSE_MS_MIN, this.pauseMs - (performance.now() - begun)))
      begun = performance.now()
      this.pauseMs = this.isRead ? KEY_POLL_MS : Math.min(this.pauseMs * 2, KEY_POLL_MS)
      if (!this.isEnded) await this.update()
    }
  }

  private async look(): Promise<void> {
    if (this.seen === undefined || !this.isWhole || !(await this.catchUp())) await this.readAll()
    while (this.revived.length > 0) {
      await this.write(this.revived.slice(0, WRITTEN_A_CALL))
      this.revived.splice(0, WRITTEN_A_CALL)
    }
    if (this.options.prunes && performance.now() - this.prunedMs >= PRUNE_MS) await this.prune()
  }

  /** Takes over what has changed since. False if the log does not go on from what was seen. */
  private async catchUp(): Promise<boolean> {
    for (;;) {
      const { seen } = this
      if (seen === undefined) return false
      const { newest, entries } = await this.backend.changes(seen.number)
      const added = continuation(seen, newest, entries)
      if (added === undefined) return false
      await this.take(added)
      this.missedMs = 0
      this.caughtUpMs = performance.now()
      if (entries.length < CHANGES_A_PAGE) return true
    }
  }

  private async take(added: readonly Change[]): Promise<void> {
    const last = added.at(-1)
    if (last === undefined) return
    const ids = [...new Set(added.map(({ id }) => id).filter((id) => id !== ''))]
    const texts = ids.length === 0 ? [] : await this.backend.texts(ids)
    for (const [i, id] of ids.entries()) {
      const text = texts[i]
      if (text === undefined || !this.adopt(text)) this.table.delete(id)
    }
    this.seen = { number: last.number, nonce: last.nonce }
  }

  /**
   * Takes over a key as the store has it. False if the text is no key. Nobody revives a revoked key: if this process knows that one was
   * revoked and the store does not, the store was set back, or was given the key back by a machine that knows less.
   */
  private adopt(before: string): boolean {
    const record = parseKey(before)
    if (record === undefined) return false
    const known = this.backend.isShared && record.revokedMs === undefined ? this.table.get(record.id) : undefined
    const isRevived = known?.revokedMs !== undefined && known.sha256 === record.sha256
    if (isRevived) this.revived.push({ id: record.id, before, after: JSON.stringify(known) })
    this.table.put(isRevived ? known : record)
    return true
  }

  private async readAll(): Promise<void> {
    try {
      for (let i = 1; !this.isEnded && !(await this.readOnce(i >= READINGS_MAX)); i++);
    } catch (error) {
      // What changes from here on would be missed: the next look begins anew.
      this.seen = undefined
      throw error
    }
  }

  /** False if it has to be done again: more has changed meanwhile than the log keeps, or keys are missing. */
  private async readOnce(isLast: boolean): Promise<boolean> {
    this.seen = await this.backend.head()
    this.table.expect(await this.backend.size())
    this.table.beginReading()
    this.isWhole = true
    // Those that are still to be revoked again are met again.
    this.revived.length = 0
    let foreign = 0
    let cursor: string | undefined
    do {
      const page = await this.page(cursor)
      for (const text of page.texts) if (!this.adopt(text)) foreign++
      cursor = page.next
      await this.keepUp()
    } while (cursor !== undefined && !this.isEnded)
    if (this.isEnded) return true
    // A cursor that another server was given is good for nothing: what it passed over shows in the number.
    const size = await this.backend.size()
    await this.keepUp(0)
    if (!this.isWhole || (this.table.sizeRead + foreign < size && !isLast)) return false
    await this.settleUnread()
    if (!this.isWhole) return false
    this.isRead = true
    this.firstRead.resolve()
    return true
  }

  /** In the midst of long work: takes over what has changed, if that was not done lately, and lets requests have their turn. */
  private async keepUp(afterMs = CATCH_UP_MS): Promise<void> {
    await turn()
    if (performance.now() - this.caughtUpMs < afterMs || (await this.catchUp())) return
    this.isWhole = false
    this.seen = await this.backend.head()
  }

  private async page(cursor: string | undefined) {
    for (let i = 1; ; i++) {
      try {
        return await this.backend.page(cursor)
      } catch (error) {
        if (i >= PAGE_TRIES || this.isEnded) throw error
        await this.pause(PAGE_PAUSE_MS)
      }
    }
  }

  /** What was known and is not in the store any more: given back if it was lost, else forgotten. */
  private async settleUnread(): Promise<void> {
    const now = Date.now()
    const lost: Replacement[] = []
    for (const id of this.table.unread()) {
      const record = this.table.get(id)
      const isKept = this.isRead && this.backend.isShared && record !== undefined && endOf(record) + KEY_KEPT_MS > now
      if (isKept) lost.push({ id, before: undefined, after: JSON.stringify(record) })
      else this.table.delete(id)
      if (lost.length >= WRITTEN_A_CALL) await this.write(lost.splice(0))
    }
    await this.write(lost)
  }

  /** Deletes the records of keys that were over 30 days ago, some at a time. Both clocks must say so: one of them may be wrong. */
  private async prune(): Promise<void> {
    try {
      const until = Math.min(Date.now(), await this.backend.nowMs()) - KEY_KEPT_MS
      const ids = this.table.endedBy(until, WRITTEN_A_CALL)
      const texts = ids.length === 0 ? [] : await this.backend.texts(ids)
      const over = ids.flatMap((id, i) => {
        const before = texts[i]
        const record = before === undefined ? undefined : parseKey(before)
        return record === undefined || endOf(record) > until ? [] : [{ id, before, after: undefined }]
      })
      await this.write(over)
      // As many again at the next look.
      if (ids.length < WRITTEN_A_CALL) this.prunedMs = performance.now()
    } catch (error) {
      this.prunedMs = performance.now()
      if (!this.isEnded) this.options.pruneFailed(error)
    }
  }

  private async write(replacements: readonly Replacement[]): Promise<void> {
    for (let i = 0; i < replacements.length; i += WRITTEN_A_CALL) {
      await this.backend.replace(replacements.slice(i, i + WRITTEN_A_CALL))
      this.written += WRITTEN_A_CALL
      // Other machines write as much: the log must hold it until all have read it.
      await this.keepUp(this.written % CAUGHT_UP_AFTER === 0 ? 0 : CATCH_UP_MS)
    }
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      timer.unref()
      this.wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** The changes since a version, or undefined if the log does not hold that version and each one after it. */
function continuation(seen: Version, newest: number, entries: readonly Change[]): readonly Change[] | undefined {
  const [first] = entries
  const isKnown = seen.number === 0 || (first?.number === seen.number && first.nonce === seen.nonce)
  if (!isKnown) return undefined
  const added = seen.number === 0 ? entries : entries.slice(1)
  if (added.some(({ number }, i) => number !== seen.number + 1 + i)) return undefined
  const reached = added.at(-1)?.number ?? seen.number
  return reached >= newest || entries.length >= CHANGES_A_PAGE ? added : undefined
}

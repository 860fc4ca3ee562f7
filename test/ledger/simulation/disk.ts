/** One gateway's log: what is committed outlives it, what is gathered does not. May be full for a while. */

import type { Entry } from '../../../src/ledger/entry.ts'
import type { Pending, SettlementLog } from '../../../src/ledger/outbox.ts'
import type { World } from './world.ts'

const COMMIT_MS = 20
const FIRST_WAY_MS = 2000

interface Stored {
  readonly entry: Entry
  state: 'pending' | 'taken' | 'given_up'
  dueMs: number
  sentMs: number | null
  takenMs: number
}

interface Waiting {
  readonly entry: Entry
  readonly isSent: boolean
  readonly done: () => void
  isReleased: boolean
}

/** What a restart finds. */
export class Disk {
  readonly stored = new Map<string, Stored>()
  /** Those that are not taken: so that looking them through costs little. */
  readonly open = new Set<string>()
  isFull = false
}

export class SimulatedLog implements SettlementLog {
  private readonly waiting = new Map<string, Waiting>()
  private readonly marks: (() => void)[] = []
  private scheduled = false

  constructor(
    private readonly world: World,
    private readonly disk: Disk,
    private readonly isAlive: () => boolean,
  ) {}

  get uncommitted(): number {
    return this.waiting.size
  }

  /** What a kill would lose now, and whether a failed commit had already let it go: only then was it sent before it was written. */
  get unwritten(): ReadonlyMap<string, { readonly isReleased: boolean }> {
    return this.waiting
  }

  get complaint(): string | undefined {
    return this.disk.isFull ? 'full' : undefined
  }

  count(): { readonly pending: number; readonly givenUp: number } {
    const states = [...this.disk.open].map((id) => this.disk.stored.get(id)?.state)
    return {
      pending: states.filter((state) => state === 'pending').length,
      givenUp: states.filter((state) => state === 'given_up').length,
    }
  }

  add(entry: Entry, isSent: boolean): Promise<void> {
    return new Promise((done) => {
      this.waiting.set(entry.closing.id, { entry, isSent, done, isReleased: false })
      this.soon()
    })
  }

  sent(id: string): void {
    this.mark(id, (stored) => {
      stored.sentMs ??= this.world.nowMs
    })
  }

  taken(id: string): void {
    this.mark(id, (stored) => {
      stored.state = 'taken'
      stored.takenMs = this.world.nowMs
      this.disk.open.delete(id)
    })
  }

  givenUp(id: string): void {
    this.mark(id, (stored) => {
      stored.state = 'given_up'
    })
  }

  postponed(id: string): void {
    this.mark(id, (stored) => {
      stored.dueMs = this.world.nowMs + 60_000
    })
  }

  pending(most: number, early = false): readonly Pending[] {
    const found: Pending[] = []
    for (const id of this.disk.open) {
      const stored = this.disk.stored.get(id)
      if (stored === undefined || stored.state !== 'pending' || (!early && stored.dueMs > this.world.nowMs)) continue
      found.push({ entry: stored.entry, sentMs: stored.sentMs })
      if (found.length === most) break
    }
    return found
  }

  reopen(sinceMs: number): void {
    this.marks.push(() => {
      for (const [id, stored] of this.disk.stored) {
        if (stored.state !== 'taken' || stored.takenMs < sinceMs) continue
        stored.state = 'pending'
        stored.dueMs = this.world.nowMs
        stored.sentMs = stored.takenMs
        this.disk.open.add(id)
      }
    })
    this.soon()
  }

  forget(): void {}

  commit(): boolean {
    const waiting = [...this.waiting.values()]
    if (this.disk.isFull) {
      for (const one of waiting) {
        one.isReleased = true
        one.done()
      }
      this.soon()
      return false
    }
    for (const { entry, isSent } of waiting) {
      const { id } = entry.closing
      if (this.disk.stored.has(id)) continue
      const { nowMs } = this.world
      this.disk.stored.set(id, {
        entry,
        state: 'pending',
        dueMs: nowMs + FIRST_WAY_MS,
        sentMs: isSent ? nowMs : null,
        takenMs: 0,
      })
      this.disk.open.add(id)
    }
    for (const mark of this.marks.splice(0)) mark()
    this.waiting.clear()
    for (const { done } of waiting) done()
    return true
  }

  close(): void {
    this.commit()
  }

  private mark(id: string, change: (stored: Stored) => void): void {
    this.marks.push(() => {
      const stored = this.disk.stored.get(id)
      if (stored !== undefined) change(stored)
    })
    this.soon()
  }

  private soon(): void {
    if (this.scheduled) return
    this.scheduled = true
    this.world.after(COMMIT_MS, () => {
      this.scheduled = false
      if (this.isAlive()) this.commit()
    })
  }
}

/** The log of one gateway: committed rows survive a crash, gathered ones do not. The disk may be full at times. */

import { withSums } from '../../../src/ledger/redis/outbox/node-sums.ts'
import { reconcile } from '../../../src/ledger/redis/outbox/reconcile.ts'
import type { GivenRow } from '../../../src/ledger/redis/protocol/counter-spend.ts'
import {
  addSpend,
  type CounterSpend,
  lackingSpend,
  NO_COUNTERS_FOUND,
  spendByCounter,
  spendOf,
} from '../../../src/ledger/redis/protocol/counter-spend.ts'
import type {
  CommitListener,
  EpochLog,
  Expected,
  FoundOfNode,
  KnownEpoch,
  NodeLog,
  Pending,
} from '../../../src/ledger/redis/protocol/node-log.ts'
import type { Settlement } from '../../../src/ledger/redis/protocol/settlement.ts'
import { addUsage, noUsage } from '../../../src/ledger/usage-figures.ts'
import { placeName, type UsageRow, usageRowOf } from '../../../src/ledger/usage-log.ts'
import type { World } from './world.ts'

const COMMIT_MS = 20
const FIRST_WAY_MS = 2000

interface Stored {
  settlement: Settlement
  state: 'pending' | 'taken' | 'absorbed'
  dueMs: number
  sentMs: number | null
  takenMs: number
}

interface Waiting {
  readonly settlement: Settlement
  readonly isSent: boolean
  readonly listener: CommitListener
  isReleased: boolean
}

/** What a restart finds. */
export class Disk {
  readonly stored = new Map<string, Stored>()
  /** The rows that are not acknowledged, kept apart so that reading them is cheap. */
  readonly open = new Set<string>()
  epoch = 0
  isComplete = false
  given: readonly GivenRow[] = []
  /** What was spent in counters, by their names. */
  readonly counters = new Map<string, CounterSpend>()
  isFull = false

  constructor(readonly node: string) {}
}

export class SimulatedLog implements NodeLog, EpochLog {
  readonly epochs: EpochLog = this
  readonly node: string
  private readonly waiting = new Map<string, Waiting>()
  private readonly marks: (() => void)[] = []
  private scheduled = false

  constructor(
    private readonly world: World,
    private readonly disk: Disk,
    private readonly isAlive: () => boolean,
  ) {
    this.node = disk.node
  }

  get uncommitted(): number {
    return this.waiting.size
  }

  /**
   * Rows that a kill would lose now, and whether a failed commit had already let them be sent: only then may a row be
   * sent before it is written.
   */
  get unwritten(): ReadonlyMap<string, { readonly isReleased: boolean }> {
    return this.waiting
  }

  get complaint(): string | undefined {
    return this.disk.isFull ? 'full' : undefined
  }

  pendingCount(): number {
    return this.disk.open.size
  }

  add(settlement: Settlement, isSent: boolean, listener: CommitListener): void {
    this.waiting.set(settlement.id, { settlement, isSent, listener, isReleased: false })
    this.soon()
  }

  sent(id: string): void {
    this.mark(id, (stored) => {
      stored.sentMs ??= this.world.nowMs
    })
  }

  taken(id: string, _organization: string, epoch: number): void {
    this.mark(id, (stored) => {
      if (stored.state !== 'pending' || this.disk.epoch !== epoch) return
      stored.state = 'taken'
      stored.takenMs = this.world.nowMs
      this.disk.open.delete(id)
    })
  }

  postponed(id: string): void {
    this.mark(id, (stored) => {
      stored.dueMs = this.world.nowMs + 60_000
    })
  }

  pending(most: number, early = false): readonly Pending[] {
    const found: Pending[] = []
    for (const stored of this.openOnes()) {
      if (!early && stored.dueMs > this.world.nowMs) continue
      found.push(this.pendingOf(stored))
      if (found.length === most) break
    }
    return found
  }

  resent(): readonly Pending[] {
    return this.openOnes()
      .filter(({ dueMs }) => dueMs === 0)
      .map((stored) => this.pendingOf(stored))
  }

  standing(settlement: Settlement): Pending | undefined {
    if (this.waiting.has(settlement.id)) return { settlement, epoch: 0, wasSent: false }
    const stored = this.disk.stored.get(settlement.id)
    return stored?.state === 'pending' ? this.pendingOf(stored) : undefined
  }

  all(): readonly KnownEpoch[] {
    const organizations = new Set(
      [...this.disk.stored.values()].map(({ settlement }) => settlement.account.organization),
    )
    return [...organizations].map((organization) => this.of(organization))
  }

  of(organization: string): KnownEpoch {
    return { organization, epoch: this.disk.epoch, complete: this.disk.isComplete, legacyEpoch: 0 }
  }

  expected(): Expected {
    return { requests: this.disk.stored.size, pending: this.disk.open.size }
  }

  allExpected(): ReadonlyMap<string, Expected> {
    return new Map(this.all().map(({ organization }) => [organization, this.expected()]))
  }

  readonly foldedBefore = 0

  places(): readonly UsageRow[] {
    const rows = new Map<string, UsageRow>()
    for (const { settlement } of this.disk.stored.values()) {
      const row = usageRowOf(settlement)
      if (row === undefined) continue
      const name = placeName(row)
      rows.set(name, { ...row, ...addUsage(rows.get(name) ?? noUsage, row) })
    }
    return [...rows.values()]
  }

  counters(): readonly string[] {
    return [...this.disk.counters.keys()]
  }

  endingCounters(): ReadonlyMap<string, readonly string[]> {
    return new Map()
  }

  keepCounters(): void {}

  async find(_organization: string, admittedMs: ReadonlyMap<string, number>): Promise<readonly Settlement[]> {
    return [...admittedMs.keys()].flatMap((id) => this.disk.stored.get(id)?.settlement ?? [])
  }

  async prepare(): Promise<void> {}

  async enter(
    _organization: string,
    epoch: number,
    found: FoundOfNode,
    resent: readonly Settlement[],
  ): Promise<readonly GivenRow[]> {
    const { disk } = this
    if (!this.commit()) {
      if (disk.epoch === 0 && disk.stored.size === 0) return []
      throw new Error('The disk is full.')
    }
    if (disk.epoch === epoch) return disk.given
    const again = new Set(resent.map(({ id }) => id))
    const logged = [...disk.stored].flatMap(([id, { settlement, state, takenMs }]) => {
      const isKnown = state === 'pending' || again.has(id) || (state === 'taken' && takenMs >= found.sinceMs)
      return isKnown ? [{ id, isPending: state === 'pending', usage: usageRowOf(settlement) }] : []
    })
    const served = this.places()
    const figures = withSums(found.sums, found, served, logged)
    const { resend, absorb, rows } = reconcile(served, logged, { ...found, figures })
    // The outbox keeps no accounts of what was taken.
    for (const id of resend) if (disk.stored.get(id)?.state !== 'pending') this.forgetAccount(id)
    for (const id of resend) this.reopen(id)
    for (const id of absorb) this.absorb(id)
    disk.epoch = epoch
    disk.isComplete = false
    const counters = found.counters ?? NO_COUNTERS_FOUND
    const resends = resend.flatMap((id) => disk.stored.get(id)?.settlement ?? [])
    const spends = lackingSpend([...disk.counters.values()], counters, resends, this.world.nowMs)
    disk.given = [...rows, ...spends]
    return disk.given
  }

  entered(_organization: string, epoch: number): void {
    if (this.disk.epoch !== epoch || this.disk.isComplete) return
    if (this.disk.isFull) throw new Error('The disk is full.')
    this.disk.isComplete = true
  }

  forget(): void {}

  commit(): boolean {
    const waiting = [...this.waiting.values()]
    if (this.disk.isFull) {
      for (const one of waiting) {
        one.isReleased = true
        one.listener.committed()
      }
      this.soon()
      return false
    }
    for (const { settlement, isSent } of waiting) {
      const { id } = settlement
      if (this.disk.stored.has(id)) continue
      const { nowMs } = this.world
      this.disk.stored.set(id, {
        settlement,
        state: 'pending',
        dueMs: nowMs + FIRST_WAY_MS,
        sentMs: isSent ? nowMs : null,
        takenMs: 0,
      })
      this.disk.open.add(id)
      const ofAccount = spendOf(settlement)
      for (const spend of ofAccount === undefined ? [] : spendByCounter(ofAccount, nowMs)) {
        const known = this.disk.counters.get(spend.counter)
        this.disk.counters.set(spend.counter, known === undefined ? spend : addSpend(known, spend))
      }
    }
    for (const mark of this.marks.splice(0)) mark()
    this.waiting.clear()
    for (const { listener } of waiting) listener.committed()
    return true
  }

  close(): void {
    this.commit()
  }

  private openOnes(): readonly Stored[] {
    return [...this.disk.open].flatMap((id) => this.disk.stored.get(id) ?? [])
  }

  private pendingOf({ settlement, sentMs }: Stored): Pending {
    return { settlement, epoch: this.disk.epoch, wasSent: sentMs !== null }
  }

  private reopen(id: string): void {
    const stored = this.disk.stored.get(id)
    if (stored === undefined) return
    stored.state = 'pending'
    stored.dueMs = 0
    stored.sentMs = null
    this.disk.open.add(id)
  }

  private forgetAccount(id: string): void {
    const stored = this.disk.stored.get(id)
    if (stored === undefined) return
    const { organization, key } = stored.settlement.account
    const account = { organization, organizationLimits: {}, key, keyLimits: {} }
    stored.settlement = { ...stored.settlement, account }
  }

  private absorb(id: string): void {
    const stored = this.disk.stored.get(id)
    if (stored !== undefined) stored.state = 'absorbed'
    this.disk.open.delete(id)
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

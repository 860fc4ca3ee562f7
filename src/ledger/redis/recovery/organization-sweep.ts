/**
 * Periodic sweep over all organisations: ends overdue reservations of those that have no requests, and finds data loss
 * in Redis that came without a broken connection. One node looks for overdue reservations of all; each compares its own
 * figures, those that have not changed for long in turns, and looks up until when other nodes keep counters that it has
 * used: what it has spent in them counts as long.
 */

import { batchesOf } from '../../../core/batches.ts'
import { isPermanent } from '../../../redis/redis-errors.ts'
import type { Link, Surveyed } from '../protocol/link.ts'
import type { Expected, NodeLog } from '../protocol/node-log.ts'
import type { Restoration } from './restoration.ts'

/** Organisations of one survey. */
const A_TURN = 500
/** What was served within so many sweeps is compared in each: a Redis that loses writes loses the last ones. */
const RECENT_SWEEPS = 4
/** Of the rest one of so many parts: all within ten minutes. */
const PARTS = 20

/** How many requests of an organisation Redis should have, and the sweep that first saw that. */
interface Seen {
  readonly requests: number
  readonly sweep: number
}
/** How often a sweep asks the log for counters that end. */
const ENDING_TURNS = 10

export class OrganizationSweep {
  private running: Promise<void> | undefined
  private sweeps = 0
  private readonly seen = new Map<string, Seen>()

  constructor(
    private readonly link: Pick<Link, 'store' | 'isReady' | 'survey' | 'overdue' | 'epochs'>,
    private readonly log: Pick<NodeLog, 'epochs' | 'endingCounters' | 'keepCounters'>,
    private readonly restoration: Restoration,
  ) {}

  /** A call during a sweep waits for it. `isFull`: Redis may have been emptied, so everything is compared. */
  run(isFull = false): Promise<void> {
    const { running } = this
    if (running !== undefined && !isFull) return running
    const next = (running ?? Promise.resolve())
      .then(() => this.sweep(isFull))
      .finally(() => {
        if (this.running === next) this.running = undefined
      })
    this.running = next
    return next
  }

  private async sweep(isFull: boolean): Promise<void> {
    if (!this.link.isReady) return
    for (const organization of await this.link.overdue())
      if (!(await this.goesOn(() => this.link.store.reap(organization)))) return
    // Read before Redis: a settlement in between makes Redis have more, not less.
    const expected = this.log.epochs.allExpected()
    this.sweeps++
    const due = [...expected].flatMap(([organization, one]) =>
      this.isDue(organization, one) || isFull ? [organization] : [],
    )
    for (const some of batchesOf(due, A_TURN)) {
      if (!this.link.isReady) return
      for (const one of await this.link.survey(some, this.log.epochs.node))
        if (!(await this.compare(one, expected.get(one.organization)))) return
    }
    for (let turn = 0; turn < ENDING_TURNS; turn++) {
      const ending = this.log.endingCounters()
      if (ending.size === 0) return
      for (const [organization, names] of ending) if (!(await this.keep(organization, names))) return
    }
  }

  private isDue(organization: string, { requests, pending }: Expected): boolean {
    const { seen, sweeps } = this
    const known = seen.get(organization)
    if (known?.requests !== requests) seen.set(organization, { requests, sweep: sweeps })
    const isRecent = known?.requests !== requests || pending > 0 || sweeps - known.sweep < RECENT_SWEEPS
    return isRecent || Bun.hash.crc32(organization) % PARTS === sweeps % PARTS
  }

  /** False if Redis does not answer. */
  private keep(organization: string, names: readonly string[]): Promise<boolean> {
    return this.goesOn(async () => {
      const { epoch, keptMs } = await this.link.store.countersKept(organization, names)
      // A Redis that has lost data lacks counters that have not ended.
      const isWhole = epoch === this.link.epochs.of(organization) && !this.restoration.isDoubted(organization)
      if (isWhole) this.log.keepCounters(organization, keptMs)
    })
  }

  /** False if Redis does not answer. */
  private compare(surveyed: Surveyed, expected: Expected | undefined): Promise<boolean> {
    const { organization } = surveyed
    return this.goesOn(async () => {
      const isWell = expected === undefined || this.restoration.agrees(surveyed, expected)
      if (!isWell) await this.restoration.compare(organization)
    })
  }

  /** A problem with the keys of one organisation must not stop the sweep. False if Redis does not answer. */
  private async goesOn(work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work()
      return true
    } catch (error) {
      return isPermanent(error) && this.link.isReady
    }
  }
}

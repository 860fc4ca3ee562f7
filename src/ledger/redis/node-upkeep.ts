/**
 * What a node with Redis does without a request: it probes a Redis that was away, cancels, sends what the outbox still
 * has, and compares with Redis what this may have lost.
 */

import { commandProblem, isPermanent } from '../../redis/redis-errors.ts'
import type { Cancellations } from './delivery/cancellations.ts'
import type { SettlementSender } from './delivery/settlement-sender.ts'
import type { NodeHealth } from './node-health.ts'
import type { Time } from './node-time.ts'
import type { Link } from './protocol/link.ts'
import type { NodeLog } from './protocol/node-log.ts'
import { OrganizationSweep } from './recovery/organization-sweep.ts'
import type { Restoration } from './recovery/restoration.ts'

const BEAT_MS = 250
/** How often all organisations are checked for data loss and overdue reservations. */
const SWEEP_MS = 30_000

export class NodeUpkeep {
  private readonly stops: readonly (() => void)[]
  private working: Promise<void> | undefined
  private comparing: Promise<void> | undefined
  private closed = false

  constructor(
    private readonly link: Link,
    private readonly outbox: NodeLog,
    private readonly restoration: Restoration,
    private readonly cancellations: Cancellations,
    private readonly delivery: SettlementSender,
    private readonly health: NodeHealth,
    time: Time,
    /** True for one of the processes that share the outbox: it sweeps over all organisations. */
    isKeeper: boolean,
  ) {
    link.onReady = () => this.reconnected()
    link.onLost = () => restoration.doubt(link.lostMs)
    const sweep = new OrganizationSweep(link, outbox, restoration)
    const runSweep = (isFull: boolean) => sweep.run(isFull).catch(() => undefined)
    link.onEmptied = () => void runSweep(true)
    this.stops = [
      time.every(BEAT_MS, () => this.beat()),
      ...(isKeeper ? [time.every(SWEEP_MS, () => runSweep(false))] : []),
    ]
    this.compareDoubted()
  }

  /** Resolves when nothing of it runs any more. */
  async close(): Promise<void> {
    this.closed = true
    for (const stop of this.stops) stop()
    await Promise.all([this.working, this.comparing])
  }

  private beat(): void {
    this.compareDoubted()
    if (this.working !== undefined || this.closed || !this.link.isConnected || !this.link.breaker.admits()) return
    this.working = this.work()
      .then(
        () => {
          this.health.workProblem = undefined
        },
        (error: unknown) => {
          // The disk is full or the file is locked: the next beat retries, and `health` reports it.
          this.health.workProblem = commandProblem(error)
        },
      )
      .finally(() => {
        this.working = undefined
      })
  }

  private async work(): Promise<void> {
    if (this.link.breaker.isOpen && !(await this.link.probe())) return
    await this.health.checkStandstill()
    await this.cancellations.send()
    this.outbox.forget()
    await this.delivery.sendSome()
  }

  /** A server that restarted may have lost its last writes. */
  private reconnected(): void {
    if (this.closed) return
    const { lostMs } = this.link
    this.restoration.doubt(lostMs)
    this.cancellations.repeatSince(lostMs)
    this.compareDoubted()
  }

  /**
   * Compares organisations that may have lost data now, or on the next beat if Redis cannot be reached. A reservation
   * of such an organisation compares it first.
   */
  private compareDoubted(): void {
    const doubts = this.comparing === undefined && !this.closed ? this.restoration.doubts() : []
    if (doubts.length === 0 || !this.link.isReady) return
    this.comparing = this.compare(doubts).finally(() => {
      this.comparing = undefined
    })
  }

  /** Unexpected data in the keys of one organisation does not stop the others. */
  private async compare(organizations: readonly string[]): Promise<void> {
    for (const organization of organizations) {
      if (!this.link.isReady) return
      try {
        if (this.restoration.isDoubted(organization)) await this.restoration.compare(organization)
      } catch (error) {
        if (!isPermanent(error)) return
      }
    }
  }
}

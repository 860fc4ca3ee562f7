/**
 * A lease on a node's id, so that only one outbox uses it: two copies of one `data_dir` would count into the same sums
 * in Redis, and each would take the other's settlements for its own. The outbox renews the lease; the workers of one
 * machine share it.
 */

import type { Cluster, Redis } from 'ioredis'
import { RedisUnfitError } from '../../redis/redis-errors.ts'
import { dayOf } from '../window.ts'
import type { EpochLog } from './protocol/node-log.ts'
import { SEEN_KEY } from './store/redis-keys.ts'

/** How long after a gateway's end an outbox elsewhere may not use its id; a gateway that starts there waits for it. */
const LEASE_MS = 6000
const RENEW_MS = 2000
const PAUSE_MS = 250
/** How long a closed outbox keeps the lease, for workers that share it and have not renewed it yet. */
const CLOSED_MS = 1000

/** An outbox: its id, which a copy has too, and its place, which no copy shares. */
export interface NodeHome {
  readonly epochs: Pick<EpochLog, 'node'>
  readonly home: string
}

export class NodeLease {
  /** Another outbox has the id. */
  problem: RedisUnfitError | undefined
  private isHeld = false
  /** The day that is noted as the last one on which the node was connected. */
  private seenDay = 0
  private readonly timer: ReturnType<typeof setInterval>

  constructor(
    private readonly client: Redis | Cluster,
    private readonly own: NodeHome,
    /**
     * Called if the lease is missing before it expires: Redis lost data. Also called after a worker of the machine has
     * ended.
     */
    private readonly gone: () => void,
  ) {
    this.timer = setInterval(() => this.claim().catch(() => undefined), RENEW_MS)
    this.timer.unref()
  }

  /**
   * Takes or renews the lease if no other outbox has it. Throws if Redis does not answer; then `problem` stays as it
   * is.
   */
  async claim(): Promise<void> {
    const { epochs, home } = this.own
    const isNew = (await this.client.set(this.key, home, 'PX', LEASE_MS, 'NX')) === 'OK'
    const holder = isNew ? home : await this.client.get(this.key)
    if (holder === home) {
      if (!isNew) await this.client.pexpire(this.key, LEASE_MS)
      this.problem = undefined
      if (isNew && this.isHeld) this.gone()
      this.isHeld = true
      await this.noteDay(isNew)
    } else if (holder !== null) {
      this.problem = new RedisUnfitError(
        `Another gateway uses a copy of this data_dir (node ${epochs.node}), so the two would be charged as one. ` +
          'Stop one of them, and remove outbox.sqlite, outbox.sqlite-wal and outbox.sqlite-shm from its data_dir.',
      )
    }
  }

  /** Waits until the lease of another outbox has expired. If that outbox still renews it, `problem` is set. */
  async await(): Promise<void> {
    const end = performance.now() + LEASE_MS + PAUSE_MS
    await this.claim()
    while (this.problem !== undefined && performance.now() < end) {
      await Bun.sleep(PAUSE_MS)
      await this.claim()
    }
  }

  close(): void {
    clearInterval(this.timer)
    if (this.problem === undefined) this.client.pexpire(this.key, CLOSED_MS).catch(() => undefined)
  }

  /** So that the figures of a node that does not come back can be summed up. */
  private async noteDay(isNew: boolean): Promise<void> {
    const day = dayOf(Date.now())
    if (!isNew && day === this.seenDay) return
    await this.client.hset(SEEN_KEY, this.own.epochs.node, day)
    this.seenDay = day
  }

  private get key(): string {
    return `weir:node:${this.own.epochs.node}`
  }
}

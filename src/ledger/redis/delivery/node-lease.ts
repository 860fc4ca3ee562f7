/**
 * Sees to it that a node's id is used by one outbox alone: two copies of one `data_dir` would count into the same sums in Redis, and each would
 * take the other's settlements for its own. The outbox that has the id renews a lease on it; workers of one machine share it.
 */

import type { Cluster, Redis } from 'ioredis'
import { RedisUnfitError } from '../../../redis/redis-errors.ts'

/** How long after its end a gateway's id may not be used by an outbox that is elsewhere; a start waits for it. */
const LEASE_MS = 6000
const RENEW_MS = 2000
const PAUSE_MS = 250
/** How long an outbox that is closed keeps its id, for workers that share it and have just not renewed it. */
const CLOSED_MS = 1000

/** An outbox: its id, which a copy has too, and where it is, which no copy shares. */
export interface NodeHome {
  readonly node: string
  readonly home: string
}

export class NodeLease {
  /** Another outbox has the id. */
  problem: RedisUnfitError | undefined
  private isHeld = false
  private readonly timer: ReturnType<typeof setInterval>

  constructor(
    private readonly client: Redis | Cluster,
    private readonly own: NodeHome,
    /** The lease was gone before its time: whoever emptied Redis took more with it. Also after a worker of the machine has ended. */
    private readonly gone: () => void,
  ) {
    this.timer = setInterval(() => this.claim().catch(() => undefined), RENEW_MS)
    this.timer.unref()
  }

  /** Takes or renews the lease if nobody else has it. Throws if Redis cannot be asked: then what was known stands. */
  async claim(): Promise<void> {
    const { node, home } = this.own
    const isNew = (await this.client.set(this.key, home, 'PX', LEASE_MS, 'NX')) === 'OK'
    const holder = isNew ? home : await this.client.get(this.key)
    if (holder === home) {
      if (!isNew) await this.client.pexpire(this.key, LEASE_MS)
      this.problem = undefined
      if (isNew && this.isHeld) this.gone()
      this.isHeld = true
    } else if (holder !== null) {
      this.problem = new RedisUnfitError(
        `Another gateway uses a copy of this data_dir (node ${node}), so the two would be charged as one. Stop one of them, and remove ` +
          'outbox.sqlite, outbox.sqlite-wal and outbox.sqlite-shm from its data_dir.',
      )
    }
  }

  /** Waits until whoever had the id before has been gone for long enough. `problem` tells if it is not gone. */
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

  private get key(): string {
    return `weir:node:${this.own.node}`
  }
}

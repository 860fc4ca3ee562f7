/**
 * One reservation's calls to Redis: through the queue, and once more under the same id if no reply came in time. The
 * script answers a repeated call as it answered the first.
 */

import { isTimeout, wasNeverSent } from '../../../redis/redis-errors.ts'
import type { Account, Hold } from '../../ledger.ts'
import type { ReserveReply } from '../../reservation-store.ts'
import type { Link } from '../client/redis-link.ts'
import { DataLossError } from '../epochs/epochs.ts'
import type { ReserveQueue } from './reserve-queue.ts'

/** Redis stopped answering while a reservation waited for its turn: it was not sent. */
class StoppedAnsweringError extends Error {
  override readonly name = 'StoppedAnsweringError'
}

export class ReserveAttempts {
  private unanswered = false

  constructor(
    private readonly link: Pick<Link, 'store' | 'breaker'>,
    private readonly queue: ReserveQueue,
    private readonly account: Account,
    private readonly hold: Hold,
  ) {}

  /** True if Redis may still execute a call, late, by a connection that has broken since. */
  get isAnyUnanswered(): boolean {
    return this.unanswered
  }

  /** Throws what the store throws, and `ReserveQueueFullError`. */
  ask(): Promise<ReserveReply> {
    const { breaker } = this.link
    const isProbe = breaker.isOpen
    return this.queue.run(this.account.organization, async () => {
      if (breaker.isOpen && !isProbe) throw new StoppedAnsweringError('Redis stopped answering.')
      try {
        return await this.send()
      } catch (error) {
        if (!isTimeout(error)) throw error
        return await this.send()
      }
    })
  }

  private async send(): Promise<ReserveReply> {
    try {
      return await this.link.store.reserve(this.account, this.hold)
    } catch (error) {
      if (!wasNeverSent(error) && !(error instanceof DataLossError)) this.unanswered = true
      throw error
    }
  }
}

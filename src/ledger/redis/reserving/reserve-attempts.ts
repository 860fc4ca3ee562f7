/**
 * One reservation's calls to Redis: through the queue, and repeated once under the same id if no reply came in time.
 * The script gives a repeated call the same reply as the first.
 */

import type { Later, LaterListener } from '../../../core/later.ts'
import { isTimeout, wasNeverSent } from '../../../redis/redis-errors.ts'
import type { Account, Hold } from '../../ledger.ts'
import type { ReserveReply } from '../../reservation-store.ts'
import { DataLossError } from '../protocol/epochs.ts'
import type { Link } from '../protocol/link.ts'
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
    /** Whether it replaces a reservation. */
    private readonly isMove: boolean,
  ) {}

  /**
   * True if a call had no reply, so that Redis may still execute it, and nothing will end what it reserves: one that
   * replaces another is settled as that.
   */
  get mayBeHeld(): boolean {
    return this.unanswered && !this.isMove
  }

  /**
   * Sends the first call if none waits before it; else returns false. After its reply or error `granted` or `goOn` must
   * be called.
   */
  begin(listener: LaterListener<ReserveReply>): boolean {
    if (!this.queue.enter(this.account.organization)) return false
    this.send().listen(listener)
    return true
  }

  /** The call that has begun was granted. */
  granted(): void {
    this.queue.leave(this.account.organization)
    this.link.breaker.succeeded()
  }

  /** Goes on with the call that has begun, whatever came of it. Throws the store's errors. */
  goOn(begun: Promise<ReserveReply>): Promise<ReserveReply> {
    return this.repeated(begun).finally(() => this.queue.leave(this.account.organization))
  }

  /** Throws the store's errors and `ReserveQueueFullError`. */
  reserve(): Promise<ReserveReply> {
    const { breaker } = this.link
    const isProbe = breaker.isOpen
    return this.queue.run(this.account.organization, () => {
      if (breaker.isOpen && !isProbe) return Promise.reject(new StoppedAnsweringError('Redis stopped answering.'))
      return this.repeated(this.send())
    })
  }

  /** A call that got no reply in time is sent once more. */
  private async repeated(call: PromiseLike<ReserveReply>): Promise<ReserveReply> {
    try {
      return await call
    } catch (error) {
      this.failed(error)
      if (!isTimeout(error)) throw error
    }
    try {
      return await this.send()
    } catch (error) {
      this.failed(error)
      throw error
    }
  }

  private send(): Later<ReserveReply> {
    return this.link.store.reserve(this.account, this.hold)
  }

  private failed(error: unknown): void {
    if (!wasNeverSent(error) && !(error instanceof DataLossError)) this.unanswered = true
  }
}

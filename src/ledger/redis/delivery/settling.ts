/**
 * One settlement on its way: into the outbox, then to Redis when the limit of its organisation allows. An object with
 * callbacks: as async functions, which wait for each other, a settlement kept nine promises until its reply came.
 */

import type { ConcurrencyLimit, Startable } from '../client/concurrency-limit.ts'
import type { Link } from '../client/redis-link.ts'
import type { Delivered, SettlementDelivery } from './settlement-delivery.ts'
import type { CommitListener, Pending } from './settlement-log.ts'

type Outcome = 'settled' | 'already_settled'

export class Settling implements CommitListener, Startable, Delivered {
  private isCommitted = false

  constructor(
    private readonly pending: Pending,
    /** Whether Redis could be reached when it was written; if not, the outbox sends it later. */
    private readonly isSent: boolean,
    private readonly link: Pick<Link, 'isReady'>,
    private readonly delivery: SettlementDelivery,
    private readonly limit: ConcurrencyLimit,
    private readonly ended: (outcome: Outcome) => void,
  ) {}

  committed(): void {
    // A commit that failed is retried.
    if (this.isCommitted) return
    this.isCommitted = true
    if (this.isSent) this.limit.enter(this)
    else this.ended('settled')
  }

  start(): void {
    // If Redis has become unreachable meanwhile, the outbox sends it later.
    if (this.link.isReady) this.delivery.send(this.pending, this)
    else this.delivered('settled')
  }

  delivered(outcome: Outcome): void {
    this.limit.leave()
    this.ended(outcome)
  }
}

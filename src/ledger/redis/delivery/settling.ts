/**
 * One settlement on its way: into the outbox, then to Redis when the limit of its organisation allows. An object with
 * callbacks: as async functions, which wait for each other, a settlement kept nine promises until its reply came.
 */

import { Later } from '../../../core/later.ts'
import type { Startable } from '../client/concurrency-limit.ts'
import type { Link } from '../client/redis-link.ts'
import type { Settlement } from './settlement.ts'
import type { Delivered, SettlementDelivery } from './settlement-delivery.ts'
import type { CommitListener } from './settlement-log.ts'
import type { SettlementInFlight, SettlementsInFlight } from './settlements-in-flight.ts'

type Outcome = 'settled' | 'already_settled'

export class Settling extends Later<Outcome> implements CommitListener, Startable, Delivered {
  private isCommitted = false

  constructor(
    private readonly settlement: Settlement,
    /** Of its organisation, when it began. */
    private readonly epoch: number,
    /** Whether Redis could be reached when it was written; if not, the outbox sends it later. */
    private readonly isSent: boolean,
    private readonly link: Pick<Link, 'isReady'>,
    private readonly delivery: SettlementDelivery,
    private readonly settlements: SettlementsInFlight,
    /** Its entry in `settlements`. */
    private readonly inFlight: SettlementInFlight,
  ) {
    super()
  }

  committed(): void {
    // A commit that failed is retried.
    if (this.isCommitted) return
    this.isCommitted = true
    if (this.isSent) this.inFlight.limit.enter(this)
    else this.end('settled')
  }

  start(): void {
    const { settlement, epoch } = this
    // If Redis has become unreachable meanwhile, the outbox sends it later.
    if (this.link.isReady) this.delivery.send({ settlement, epoch, wasSent: false }, this)
    else this.delivered('settled')
  }

  delivered(outcome: Outcome): void {
    this.inFlight.limit.leave()
    this.end(outcome)
  }

  private end(outcome: Outcome): void {
    this.settlements.end(this.inFlight)
    this.resolve(outcome)
  }
}

/**
 * One settlement on its way: into the outbox, then to Redis when the limit of its organisation allows. One object with
 * callbacks for all of it: as async functions, which wait for each other, a settlement kept nine promises until its
 * reply came, and each object that it keeps until then is copied by the collector.
 */

import { Later } from '../../../core/later.ts'
import type { SettleReply } from '../../reservation-store.ts'
import type { ConcurrencyLimit, Startable } from '../client/concurrency-limit.ts'
import type { Link } from '../client/redis-link.ts'
import type { Settlement } from './settlement.ts'
import type { FirstSending, SettlementDelivery } from './settlement-delivery.ts'
import type { CommitListener } from './settlement-log.ts'
import type { SettlementInFlight, SettlementsInFlight } from './settlements-in-flight.ts'

type Outcome = 'settled' | 'already_settled'

export class Settling extends Later<Outcome> implements CommitListener, Startable, FirstSending, SettlementInFlight {
  place = -1
  listeners: (() => void)[] | undefined
  readonly wasSent = false
  private isCommitted = false
  private readonly limit: ConcurrencyLimit

  constructor(
    readonly settlement: Settlement,
    /** The epoch of its organisation when it began. */
    readonly epoch: number,
    /** Whether Redis could be reached when it was written; if not, the outbox sends it later. */
    private readonly isSent: boolean,
    private readonly link: Pick<Link, 'isReady'>,
    private readonly delivery: SettlementDelivery,
    private readonly inFlight: SettlementsInFlight,
  ) {
    super()
    this.limit = inFlight.begin(this)
  }

  get organization(): string {
    return this.settlement.account.organization
  }

  committed(): void {
    // A commit that failed is retried.
    if (this.isCommitted) return
    this.isCommitted = true
    if (this.isSent) this.limit.enter(this)
    else this.end('settled')
  }

  start(): void {
    // If Redis has become unreachable meanwhile, the outbox sends it later.
    if (this.link.isReady) this.delivery.send(this)
    else this.delivered('settled')
  }

  replied(reply: SettleReply): void {
    this.delivery.replied(reply, this)
  }

  failed(error: unknown): void {
    this.delivery.failed(error, this)
  }

  delivered(outcome: Outcome): void {
    this.limit.leave()
    this.end(outcome)
  }

  private end(outcome: Outcome): void {
    this.inFlight.end(this)
    this.resolve(outcome)
  }
}

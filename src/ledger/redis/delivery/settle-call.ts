/**
 * One call of `settle`, from the outbox to its end: its settlement is sent when the limit of its organisation allows.
 * One object with callbacks for all of it: as async functions, which wait for each other, a settlement kept nine
 * promises until its reply came, and each object that it keeps until then is copied by the collector.
 */

import { Later } from '../../../core/later.ts'
import type { ConcurrencyLimit, Startable } from '../../../redis/concurrency-limit.ts'
import type { SettleReply } from '../../reservation-store.ts'
import type { Link } from '../protocol/link.ts'
import type { CommitListener } from '../protocol/node-log.ts'
import type { Settlement } from '../protocol/settlement.ts'
import type { FirstSending, SettlementSender } from './settlement-sender.ts'
import type { SettlementInFlight, SettlementsInFlight } from './settlements-in-flight.ts'

type Outcome = 'settled' | 'already_settled'

export class SettleCall extends Later<Outcome> implements CommitListener, Startable, FirstSending, SettlementInFlight {
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
    private readonly delivery: SettlementSender,
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

  resolved(reply: SettleReply): void {
    this.delivery.replied(reply, this)
  }

  rejected(error: unknown): void {
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

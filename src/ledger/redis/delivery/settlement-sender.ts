/**
 * Sends settlements of this node's outbox to Redis, for the first time and again, and marks those that Redis took. What
 * fails stays in the outbox.
 */

import { batchesOf } from '../../../core/batches.ts'
import type { Later, LaterListener } from '../../../core/later.ts'
import { isPermanent } from '../../../redis/redis-errors.ts'
import type { SettleOptions, SettleReply } from '../../reservation-store.ts'
import { DataLossError } from '../protocol/epochs.ts'
import type { Link } from '../protocol/link.ts'
import type { NodeLog, Pending } from '../protocol/node-log.ts'
import type { Restoration } from '../recovery/restoration.ts'

/** Settlements that are resent concurrently. */
const RESENT_AT_ONCE = 32
/** Settlements that are resent in one beat. */
const REPLAYED_PER_BEAT = 256
/** A settlement is tried 3 times if Redis loses data: it may lose data again meanwhile. */
const TRIES = 3

/** A settlement that is sent for the first time. */
export interface FirstSending extends Pending, LaterListener<SettleReply> {
  /** Redis took it, or the outbox sends it later. */
  delivered(outcome: 'settled' | 'already_settled'): void
}

export class SettlementSender {
  /** The last options, because most settlements in a row have the same. */
  private options: SettleOptions | undefined

  constructor(
    private readonly link: Link,
    private readonly outbox: NodeLog,
    private readonly restoration: Restoration,
  ) {}

  /** Sends one settlement, and marks it if Redis took it. One that fails stays in the outbox. */
  send(sending: FirstSending): void {
    const { settlement } = sending
    if (this.restoration.isDoubted(settlement.account.organization)) return this.sendOn(sending, undefined)
    this.settle(sending).listen(sending)
  }

  /** The reply of the first call of a settlement. */
  replied(reply: SettleReply, sending: FirstSending): void {
    if (reply === 'unknown') return this.sendOn(sending, Promise.resolve(reply))
    const { id, account } = sending.settlement
    this.link.breaker.succeeded()
    this.outbox.taken(id, account.organization, sending.epoch)
    sending.delivered(reply === 'settled' ? 'settled' : 'already_settled')
  }

  /** The error of the first call of a settlement. */
  failed(error: unknown, sending: FirstSending): void {
    this.sendOn(sending, Promise.reject(error))
  }

  private sendOn(sending: FirstSending, begun: Promise<SettleReply> | undefined): void {
    void this.deliver(sending, begun).then((outcome) => sending.delivered(outcome))
  }

  /** The same, whatever the reply is. `begun`: the reply of its first call, if that is sent already. */
  private async deliver(first: Pending, begun?: Promise<SettleReply>): Promise<'settled' | 'already_settled'> {
    const { id, account } = first.settlement
    const { organization } = account
    const { breaker } = this.link
    let pending: Pending | undefined = first
    try {
      for (let tries = 0; pending !== undefined && tries < TRIES; tries++) {
        const reply = await this.charge(pending, tries === 0 ? begun : undefined)
        breaker.succeeded()
        if (reply !== 'compared') {
          this.outbox.taken(id, organization, pending.epoch)
          // After a comparison another process, or this one, may already have sent it.
          return tries > 0 || reply === 'settled' ? 'settled' : 'already_settled'
        }
        // It may be among the rows that were given back meanwhile: then it must not be sent.
        const standing = this.outbox.standing(first.settlement)
        pending = standing && { ...standing, epoch: standing.epoch || this.link.epochs.of(organization) }
      }
    } catch (error) {
      if (isPermanent(error)) this.outbox.postponed(id)
      else breaker.failed()
    }
    return 'settled'
  }

  /**
   * `compared`: nothing was charged, because Redis had lost data. The lost data has been given back, or will be when
   * this settlement is sent again.
   */
  private async charge(pending: Pending, begun: Promise<SettleReply> | undefined): Promise<SettleReply | 'compared'> {
    const { organization } = pending.settlement.account
    try {
      if (begun === undefined && this.restoration.isDoubted(organization)) await this.restoration.serve(organization)
      const reply = await (begun ?? this.settle(pending))
      if (reply !== 'unknown') return reply
      // Redis has lost the reservation, or never had it. If the settlement was sent before, Redis may have taken it and
      // lost the record of that.
      if (!pending.wasSent) return await this.settle(pending, true)
      await this.restoration.resolve(organization, pending.epoch)
    } catch (error) {
      if (!(error instanceof DataLossError)) throw error
      await this.restoration.serve(organization)
    }
    return 'compared'
  }

  private settle(pending: Pending, isDirect = false): Later<SettleReply> {
    const { settlement } = pending
    return this.link.store.settle(settlement, settlement.charge, this.optionsOf(pending, isDirect))
  }

  private optionsOf({ epoch }: Pending, isDirect: boolean): SettleOptions {
    const known = this.options
    if (known !== undefined && known.isDirect === isDirect && known.from?.epoch === epoch) return known
    this.options = { isDirect, from: { node: this.outbox.epochs.node, epoch } }
    return this.options
  }

  /** Sends all settlements in the outbox, until Redis takes no more. */
  async sendAll(): Promise<void> {
    for (let before = Number.POSITIVE_INFINITY; this.link.isReady; ) {
      this.outbox.commit()
      const pending = this.outbox.pendingCount()
      if (pending === 0 || pending >= before) return
      before = pending
      await this.resend(this.outbox.pending(REPLAYED_PER_BEAT, true))
    }
  }

  /** Sends a part of the settlements in the outbox: what one beat of the ledger has time for. */
  sendSome(): Promise<void> {
    return this.resend(this.outbox.pending(REPLAYED_PER_BEAT))
  }

  /** Sends settlements that may have been sent before, until Redis cannot be reached. */
  async resend(pending: readonly Pending[]): Promise<void> {
    if (pending.length === 0) return
    for (const { settlement, wasSent } of pending) if (!wasSent) this.outbox.sent(settlement.id)
    // Committed before it is sent: after a crash the outbox must show that Redis may have taken it.
    if (!this.outbox.commit()) return
    for (const some of batchesOf(pending, RESENT_AT_ONCE)) {
      await Promise.all(some.map((one) => this.deliver(one)))
      if (!this.link.isReady) return
    }
  }
}

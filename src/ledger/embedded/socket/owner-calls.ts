/** The calls of a worker to the owner of the ledger: what is sent, and what it returns. */

import { CallerError } from '../../../core/caller-error.ts'
import { Later } from '../../../core/later.ts'
import type { ListMember } from '../../../core/member-list.ts'
import type { Account, Charge, Estimate, Hold, LedgerHealth, RateStatuses, Reservation } from '../../ledger.ts'
import { fullError, isHeld, reservationOf } from '../../refusal.ts'
import type { ExtendReply } from '../../reservation-store.ts'
import type { OwnerLink } from './owner-link.ts'
import type { NotGranted } from './owner-messages.ts'

/** How long a call waits for an owner that is away, or for its answer. */
export const WAIT_MS = 2000
/** The same for a health check, which a load balancer waits for. */
const HEALTH_WAIT_MS = 250

const NOTHING: Estimate = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }

/** A reservation that the owner has granted. */
export class Granted implements Reservation, ListMember {
  /** In the list of those that have not ended. */
  place = -1
  soFar: Estimate = NOTHING

  constructor(
    readonly account: Account,
    public hold: Hold,
    readonly admittedMs: number,
    readonly rates: RateStatuses | undefined,
    /** When its lease began, by `performance.now()`. */
    public leasedMs: number,
  ) {}

  get id(): string {
    return this.hold.id
  }

  get held(): Estimate {
    return this.hold.estimate
  }
}

/** A call that waits for its answer. */
export abstract class Call<Result = unknown> extends Later<Result> {
  /** It has been written to a connection. */
  isSent = false
  /** It has waited too long; its answer means nothing any more. */
  isGivenUp = false
  readonly sinceMs = performance.now()
  readonly waitMs: number = WAIT_MS

  constructor(readonly seq: number) {
    super()
  }

  abstract write(link: OwnerLink): void

  /** The owner cannot carry it out. */
  failed(message: string): void {
    this.reject(new Error(`The owner of the ledger cannot carry out a call: ${message}`))
  }

  /** The owner is away, or does not answer. */
  giveUp(): void {
    this.isGivenUp = true
    this.reject(unreachable())
  }
}

export class ReserveCall extends Call<Granted> {
  constructor(
    seq: number,
    readonly account: Account,
    readonly hold: Hold,
    /** The reservation of the turn before, which it replaces. */
    readonly before: Reservation | undefined,
  ) {
    super(seq)
  }

  write(link: OwnerLink): void {
    link.calls.reserve(this.seq, link.numberOf(this.account), this.hold)
  }

  granted(admittedMs: number, rates: RateStatuses): Granted {
    return new Granted(this.account, this.hold, admittedMs, rates, this.sinceMs)
  }

  notGranted(reply: NotGranted): void {
    try {
      if (reply.outcome === 'full') throw fullError()
      reservationOf(this.account, this.hold, reply, Date.now())
    } catch (error) {
      this.reject(error)
    }
  }
}

export class ExtendCall extends Call<boolean> {
  constructor(
    seq: number,
    private readonly reservation: Granted,
    private readonly soFar: Estimate,
    private readonly wanted: Estimate,
  ) {
    super(seq)
  }

  write(link: OwnerLink): void {
    const { account, id } = this.reservation
    link.calls.extend(this.seq, link.numberOf(account), id, this.soFar, this.wanted)
  }

  extended(reply: ExtendReply): void {
    try {
      const held = isHeld(reply)
      const { reservation } = this
      reservation.leasedMs = this.sinceMs
      reservation.soFar = this.soFar
      if (held) reservation.hold = { ...reservation.hold, estimate: this.wanted }
      this.resolve(held)
    } catch (error) {
      this.reject(error)
    }
  }
}

export class HealthCall extends Call<LedgerHealth | undefined> {
  override readonly waitMs = HEALTH_WAIT_MS

  write(link: OwnerLink): void {
    link.calls.health(this.seq)
  }

  override giveUp(): void {
    this.isGivenUp = true
    this.resolve(undefined)
  }
}

/** A call that ends a reservation. No caller awaits its answer. */
export interface EndingCall {
  readonly seq: number
  write(link: OwnerLink): void
}

export class SettleEnding implements EndingCall {
  constructor(
    readonly seq: number,
    private readonly reservation: Granted,
    private readonly charge: Charge,
    private readonly isDirect: boolean,
  ) {}

  write(link: OwnerLink): void {
    const { account, id, admittedMs } = this.reservation
    link.calls.settle(this.seq, link.numberOf(account), id, admittedMs, this.charge, this.isDirect)
  }
}

/** Cancels a reservation that was asked for in vain: the owner may have granted it, or be about to. */
export class CancelEnding implements EndingCall {
  constructor(
    readonly seq: number,
    private readonly asked: ReserveCall,
  ) {}

  write(link: OwnerLink): void {
    link.calls.cancel(this.seq, link.numberOf(this.asked.account), this.asked.hold.id)
  }
}

/** The error of a request that gets no answer of the ledger. */
export function unreachable(): CallerError {
  return new CallerError('ledger_unavailable', 'The ledger cannot be reached at the moment. Try again in 5 s.', {
    retryAfterSeconds: 5,
  })
}

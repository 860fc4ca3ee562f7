/** The calls of a worker to the owner of the ledger: what is sent, and what the answer means. */

import { CallerError } from '../../../core/caller-error.ts'
import type { Member } from '../../../core/member-list.ts'
import type { Account, Estimate, Hold, LedgerHealth, RateStatuses, Reservation } from '../../ledger.ts'
import { fullError, isHeld, reservationOf } from '../../refusal.ts'
import type { FromOwner, ToOwner } from './owner-messages.ts'

/** How long a call waits for an owner that is away, or for its answer. */
export const WAIT_MS = 2000
/** The same for a health check, which a load balancer waits for. */
const HEALTH_WAIT_MS = 250

const NOTHING: Estimate = { inputTokens: 0, outputTokens: 0, costMicroUsd: 0 }

export type Answer = Extract<FromOwner, { seq: number }>
type Message<Type extends ToOwner['type']> = Extract<ToOwner, { type: Type }>

/** A reservation that the owner has granted. */
export class Granted implements Reservation, Member {
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
export interface Call {
  readonly message: Extract<ToOwner, { seq: number }>
  readonly sinceMs: number
  readonly waitMs: number
  /** It has been written to a connection. */
  isSent: boolean
  /** It has waited too long; its answer means nothing any more. */
  isGivenUp: boolean
  answer(answer: Answer): void
  /** The owner is away, or does not answer. */
  giveUp(): void
}

abstract class Asked<Type extends Call['message']['type'], Result> implements Call {
  isSent = false
  isGivenUp = false
  readonly sinceMs = performance.now()
  readonly waitMs: number = WAIT_MS
  readonly result: Promise<Result>
  protected resolve: (result: Result) => void = () => {}
  protected reject: (error: unknown) => void = () => {}

  constructor(readonly message: Message<Type>) {
    this.result = new Promise((resolve, reject) => {
      this.resolve = resolve
      this.reject = reject
    })
  }

  answer(answer: Answer): void {
    try {
      if (answer.type === 'failed')
        throw new Error(`The owner of the ledger cannot carry out a call: ${answer.message}`)
      this.resolve(this.resultOf(answer))
    } catch (error) {
      this.reject(error)
    }
  }

  giveUp(): void {
    this.isGivenUp = true
    this.reject(unreachable())
  }

  /** Throws the error of an answer that is one. */
  protected abstract resultOf(answer: Answer): Result
}

export class ReserveCall extends Asked<'reserve', Granted> {
  /** Set by an answer that grants it. */
  granted: Granted | undefined

  constructor(
    message: Message<'reserve'>,
    readonly account: Account,
  ) {
    super(message)
  }

  protected resultOf(answer: Answer): Granted {
    if (answer.type !== 'reserved') throw unexpected(answer)
    const { reply } = answer
    const { account } = this
    const { hold } = this.message
    if (reply.outcome === 'full') throw fullError()
    // JSON has null where a rate has no limit.
    const read = reply.outcome === 'ended' ? reply : { ...reply, rates: reply.rates.map((rate) => rate ?? undefined) }
    const { admittedMs, rates } = reservationOf(account, hold, read, Date.now())
    this.granted = new Granted(account, hold, admittedMs, rates, this.sinceMs)
    return this.granted
  }
}

export class ExtendCall extends Asked<'extend', boolean> {
  constructor(
    message: Message<'extend'>,
    private readonly reservation: Granted,
  ) {
    super(message)
  }

  protected resultOf(answer: Answer): boolean {
    if (answer.type !== 'extended') throw unexpected(answer)
    const held = isHeld(answer.reply)
    const { reservation, message } = this
    reservation.leasedMs = this.sinceMs
    reservation.soFar = message.soFar
    if (held) reservation.hold = { ...reservation.hold, estimate: message.wanted }
    return held
  }
}

export class HealthCall extends Asked<'health', LedgerHealth | undefined> {
  override readonly waitMs = HEALTH_WAIT_MS

  override giveUp(): void {
    this.isGivenUp = true
    this.resolve(undefined)
  }

  protected resultOf(answer: Answer): LedgerHealth {
    if (answer.type !== 'health') throw unexpected(answer)
    return answer.health
  }
}

/** The error of a request that gets no answer of the ledger. */
export function unreachable(): CallerError {
  return new CallerError('ledger_unavailable', 'The ledger cannot be reached at the moment. Try again in 5 s.', {
    retryAfterSeconds: 5,
  })
}

function unexpected({ type }: Answer): Error {
  return new Error(`The owner of the ledger answered with '${type}'.`)
}

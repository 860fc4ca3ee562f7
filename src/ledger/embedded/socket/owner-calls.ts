/** The calls of a worker to the owner of the ledger: what is sent, and what the answer means. */

import { CallerError } from '../../../core/caller-error.ts'
import type { Account, Estimate, Hold, LedgerHealth, Reservation } from '../../ledger.ts'
import { fullError, isHeld, reservationOf } from '../../refusal.ts'
import type { FromOwner, ToOwner } from './owner-messages.ts'

/** How long a call waits for an owner that is away, or for its answer. */
export const WAIT_MS = 2000
/** The same for a health check, which a load balancer waits for. */
const HEALTH_WAIT_MS = 250

export type Answer = Extract<FromOwner, { seq: number }>
type Message<Type extends ToOwner['type']> = Extract<ToOwner, { type: Type }>

/** A call that waits for its answer. */
export interface Call {
  readonly message: Extract<ToOwner, { seq: number }>
  readonly sinceMs: number
  readonly waitMs: number
  /** It has been written to a connection. */
  isSent: boolean
  answer(answer: Answer): void
  /** The owner is away, or does not answer. */
  giveUp(): void
}

abstract class Asked<Type extends Call['message']['type'], Result> implements Call {
  isSent = false
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
    this.reject(unreachable())
  }

  /** Throws the error of an answer that is one. */
  protected abstract resultOf(answer: Answer): Result
}

export class ReserveCall extends Asked<'reserve', Reservation> {
  constructor(
    message: Message<'reserve'>,
    readonly account: Account,
  ) {
    super(message)
  }

  get hold(): Hold {
    return this.message.hold
  }

  protected resultOf(answer: Answer): Reservation {
    if (answer.type !== 'reserved') throw unexpected(answer)
    const { reply } = answer
    if (reply.outcome === 'full') throw fullError()
    if (reply.outcome === 'ended') return reservationOf(this.account, this.hold, reply, Date.now())
    // JSON has null where a rate has no limit.
    const rates = reply.rates.map((rate) => rate ?? undefined)
    return reservationOf(this.account, this.hold, { ...reply, rates }, Date.now())
  }
}

export class ExtendCall extends Asked<'extend', boolean> {
  get soFar(): Estimate {
    return this.message.soFar
  }

  get wanted(): Estimate {
    return this.message.wanted
  }

  protected resultOf(answer: Answer): boolean {
    if (answer.type !== 'extended') throw unexpected(answer)
    return isHeld(answer.reply)
  }
}

/** Resolves although the owner is away: the call is kept for it. */
export class EndCall extends Asked<'settle' | 'cancel', 'settled' | 'already_settled'> {
  override giveUp(): void {
    this.resolve('settled')
  }

  protected resultOf(answer: Answer): 'settled' | 'already_settled' {
    if (answer.type !== 'ended') throw unexpected(answer)
    return answer.reply === 'settled' ? 'settled' : 'already_settled'
  }
}

export class HealthCall extends Asked<'health', LedgerHealth | undefined> {
  override readonly waitMs = HEALTH_WAIT_MS

  override giveUp(): void {
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

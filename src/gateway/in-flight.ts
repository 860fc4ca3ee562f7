/** The requests that a worker is running, and how one is interrupted: because its caller left, or the process ends. */

import { CallerError } from '../core/caller-error.ts'
import { type ListMember, MemberList } from '../core/member-list.ts'
import type { BodyShare } from './body-memory.ts'
import type { RequestReservation } from './reservation.ts'

/** Why a request was ended before its answer was complete. */
export type Interruption = 'caller_left' | 'drained'

/** The error of an interrupted request. A caller that still waits receives it when the process ends. */
export function interruptedError(why: Interruption): CallerError {
  const message =
    why === 'drained' ? 'The gateway is shutting down; try again.' : 'The caller left before there was an answer.'
  return new CallerError('shutting_down', message, { retryAfterSeconds: 1 })
}

/** What an interruption stops: a call to a provider, or a stream to the caller. */
export interface Interruptible {
  interrupt(why: Interruption): void
}

const NO_HEADERS: Readonly<Record<string, string>> = {}

export class RunningRequest implements ListMember {
  place = -1
  /** Set once the ledger has admitted the request. */
  reservation: RequestReservation | undefined
  /** Its caller lets others go first where requests wait. */
  isLowered = false
  /** The memory that its body is counted in, until it ends. */
  body: BodyShare | undefined
  /** Who may leave; known once the body has arrived. */
  caller: { readonly hasLeft: boolean } | undefined
  interrupted: Interruption | undefined
  private work: Interruptible | undefined
  private isStreamed = false

  constructor(private readonly inFlight: InFlight) {}

  /** `x-ratelimit-*` of the answer or the error; none before the ledger has admitted the request. */
  get limitHeaders(): Readonly<Record<string, string>> {
    return this.reservation?.limitHeaders ?? NO_HEADERS
  }

  /** As `interrupted`, and notices a caller that left just now. For failures alone, because asking costs garbage. */
  get interruptedByNow(): Interruption | undefined {
    if (this.interrupted === undefined && this.caller?.hasLeft === true) this.interrupt('caller_left')
    return this.interrupted
  }

  /** What an interruption stops from now on. Stops it at once if the request was interrupted before. */
  runs(work: Interruptible): void {
    this.work = work
    if (this.interrupted !== undefined) work.interrupt(this.interrupted)
  }

  /** Each step of the request should have a turn of the event loop of its own. */
  get isHeavy(): boolean {
    return this.body?.isHeavy === true
  }

  /** A provider has received the request: most of the body's memory is free again. */
  bodySent(): void {
    this.body?.sent()
  }

  /** Its answer has begun, as a stream. */
  streams(): void {
    this.isStreamed = true
    this.inFlight.streams++
  }

  /** Only the first interruption counts, but the end of the process also ends what is read after a caller left. */
  interrupt(why: Interruption): void {
    if (this.interrupted !== undefined && why !== 'drained') return
    this.interrupted ??= why
    this.work?.interrupt(why)
  }

  /** The request is over: answered or not. */
  end(): void {
    this.work = undefined
    this.body?.release()
    if (this.isStreamed) this.inFlight.streams--
    this.isStreamed = false
    this.inFlight.remove(this)
  }
}

export class InFlight {
  /** How many of the requests are streams that have begun. */
  streams = 0
  private readonly requests = new MemberList<RunningRequest>()
  private waiting: (() => void)[] = []

  get size(): number {
    return this.requests.size
  }

  add(): RunningRequest {
    const request = new RunningRequest(this)
    this.requests.add(request)
    return request
  }

  /** Resolves once no request is running. */
  idle(): Promise<void> {
    return this.requests.size === 0 ? Promise.resolve() : new Promise((resolve) => this.waiting.push(resolve))
  }

  /** Interrupts every running request. */
  cut(why: 'drained'): void {
    for (const request of this.requests.snapshot()) request.interrupt(why)
  }

  remove(request: RunningRequest): void {
    this.requests.remove(request)
    if (this.requests.size > 0) return
    const { waiting } = this
    this.waiting = []
    for (const resolve of waiting) resolve()
  }
}

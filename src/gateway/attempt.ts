/** One attempt of a request: the candidate that is called, its permit, its call and its trace. */

import type { Grant } from '../capacity/grant.ts'
import type { Candidate } from '../catalog/resolve.ts'
import type { ProviderError } from '../core/provider-error.ts'
import type { Learned } from '../providers/provider.ts'
import type { Interruption } from './in-flight.ts'
import type { Permit } from './permit.ts'
import type { ProviderCall } from './provider-call.ts'
import { usedOf } from './quote.ts'
import { type AttemptLine, failureOf } from './request-line.ts'
import type { CallTrace } from './request-trace.ts'

export class Attempt {
  startedMs = 0
  /** Absent before the request for the provider is made. */
  call: ProviderCall | undefined
  /** Absent unless the request is traced. */
  trace: CallTrace | undefined

  constructor(
    readonly candidate: Candidate,
    readonly permit: Permit,
    readonly isFirst: boolean,
    /** Present if the candidate was called before and rejected how the request was written. */
    readonly learned?: Learned,
    /** What it took of the limits of its provider and target; absent if there are none. */
    readonly grant?: Grant,
  ) {}

  /** It is not called. */
  release(): void {
    this.permit.release()
    this.grant?.ended(undefined)
  }

  /** It has a whole answer. */
  completed(call: ProviderCall): void {
    this.permit.completed(false)
    this.grant?.ended(usedOf(call.bill(true)))
  }

  /**
   * What the call took of the limits of its provider is known. `isCharged`: one that failed is not, and costs nothing
   * of the money; its tokens count.
   */
  endGrant(isComplete: boolean, isCharged = true): void {
    const { grant, call } = this
    if (grant === undefined) return
    if (call?.wasSent() !== true) return grant.ended(undefined)
    const used = usedOf(call.bill(isComplete))
    grant.ended(isCharged ? used : { ...used, microUsd: 0 })
  }

  /** The attempt in the log line of its request; `nowMs` is its end. Without an error it has answered. */
  line(nowMs: number, interrupted: Interruption | undefined, error: ProviderError | undefined): AttemptLine {
    const { provider, model } = this.candidate.target
    const ms = Math.round((nowMs - this.startedMs) * 10) / 10
    const status = statusOf(error)
    if (interrupted !== undefined) return { provider, model, status, error: interrupted, ms }
    return error === undefined ? { provider, model, status, ms } : { provider, model, status, ...failureOf(error), ms }
  }

  /** A stream that has begun is traced further. */
  endTrace(interrupted: Interruption | undefined, error: ProviderError | undefined): void {
    if (error === undefined) this.trace?.began()
    if (interrupted !== undefined) this.trace?.ended({ outcome: interrupted })
    else if (error !== undefined) this.trace?.ended({ error: error.kind, status: statusOf(error) })
  }
}

function statusOf(error: ProviderError | undefined): number | undefined {
  return error === undefined ? 200 : error.detail.status
}

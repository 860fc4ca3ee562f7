/** Candidates in order until one answers. Nothing is tried again once its first event was sent on. */

import type { Candidate } from '../catalog/resolve.ts'
import { Failure } from '../core/error.ts'
import { Fault, type FaultKind } from '../core/fault.ts'
import type { Gateway } from './gateway.ts'
import type { Flight } from './in-flight.ts'
import type { Trace } from './trace.ts'

/** Whose attempts they are. */
interface Asking {
  readonly flight: Pick<Flight, 'interrupted'>
  readonly trace: Pick<Trace, 'attempts'>
}

/** What a candidate gave, and how many were passed over before it. */
export interface Answered<T> {
  readonly value: T
  readonly candidate: Candidate
  readonly fallbacks: number
}

/** `retry-after` where no provider gave a figure. */
const RETRY_SECONDS = 1

/**
 * Tries the candidates one after the other; `ask` throws a `Fault` for one that failed. A fault that is the caller's mistake is told
 * to the caller at once, and one that comes of our own interruption is none of the candidate's. Throws the `Failure` that sums up what
 * the candidates did.
 */
export async function attempt<T>(
  gateway: Gateway,
  candidates: readonly Candidate[],
  { flight, trace }: Asking,
  ask: (candidate: Candidate) => Promise<T>,
): Promise<Answered<T>> {
  const faults: Fault[] = []
  for (const [passed, candidate] of candidates.entries()) {
    if (candidate.resting) continue
    if (faults.length >= gateway.routing.maxAttempts) break
    const startedMs = performance.now()
    const { provider, model } = candidate.target
    const note = (fault?: Fault) => {
      const ms = Math.round((performance.now() - startedMs) * 10) / 10
      const status = fault === undefined ? 200 : fault.detail.status
      trace.attempts.push({ provider, model, status, error: flight.interrupted ?? fault?.kind, ms })
    }
    try {
      const value = await ask(candidate)
      note()
      return { value, candidate, fallbacks: passed }
    } catch (error) {
      if (!(error instanceof Fault)) throw error
      note(error)
      if (flight.interrupted !== undefined) throw error
      if (error.kind === 'credential') gateway.alarm('a provider rejects our credential', { provider, model })
      refuseCallersMistake(error)
      faults.push(error)
    }
  }
  throw summary(faults)
}

function refuseCallersMistake(fault: Fault): void {
  if (fault.kind === 'rejected')
    throw new Failure('upstream_rejected', fault.message, { code: fault.detail.code, cause: fault })
  if (fault.kind === 'too_large') throw new Failure('upstream_too_large', fault.message, { cause: fault })
}

/** One failure for all that was tried: what all have in common, else what the last one said. */
function summary(faults: readonly Fault[]): Failure {
  const last = faults.at(-1)
  const all = (...kinds: readonly FaultKind[]) => faults.every((fault) => kinds.includes(fault.kind))
  if (last === undefined)
    return overloaded('Every provider of this model is resting after failures; try again shortly.', faults)
  if (all('rate_limited')) {
    const retryAfterSeconds = retrySeconds(faults)
    return new Failure('upstream_rate_limited', 'Every provider of this model is rate limited; try again later.', {
      retryAfterSeconds,
      cause: last,
    })
  }
  if (all('overloaded', 'rate_limited'))
    return overloaded('Every provider of this model is overloaded; try again shortly.', faults)
  if (all('timeout') || last.kind === 'timeout') {
    return new Failure('upstream_timeout', 'No provider of this model answered in time.', { cause: last })
  }
  if (last.kind === 'overloaded' || last.kind === 'rate_limited') {
    return overloaded('No provider of this model can answer now; try again shortly.', faults)
  }
  return new Failure('upstream_failed', 'The provider of this model failed to give a valid answer.', { cause: last })
}

function overloaded(message: string, faults: readonly Fault[]): Failure {
  return new Failure('overloaded', message, { retryAfterSeconds: retrySeconds(faults), cause: faults.at(-1) })
}

/** The shortest wait that a provider asked for, in whole seconds. */
function retrySeconds(faults: readonly Fault[]): number {
  const waits = faults.flatMap((fault) => fault.detail.retryAfterMs ?? [])
  return waits.length === 0 ? RETRY_SECONDS : Math.ceil(Math.min(...waits) / 1000)
}

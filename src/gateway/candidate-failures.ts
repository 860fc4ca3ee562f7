/** The failures of one request's candidates, and the one error that its caller gets if no candidate answers. */

import { CallerError } from '../core/caller-error.ts'
import type { ProviderError, ProviderErrorKind } from '../core/provider-error.ts'
import type { Rest } from './breaker.ts'

/** `retry-after` if no provider gave a figure. */
const RETRY_SECONDS = 1
/** The lowest status with which a provider reports that it broke down. */
const BROKEN_DOWN = 500

export class CandidateFailures {
  private readonly errors: ProviderError[] = []
  private readonly rests: Rest[] = []
  private unsent: ProviderError | undefined

  /** A candidate was called and failed. */
  failed(error: ProviderError): void {
    this.errors.push(error)
  }

  /** A candidate was not called because the circuit breaker rests it. */
  rested(rest: Rest): void {
    this.rests.push(rest)
  }

  /**
   * A candidate cannot take this request: nothing was sent. The caller gets this error if no candidate could be called.
   */
  cannotTake(error: ProviderError): void {
    this.unsent = error
  }

  /** True if the last candidate that was called answered with a status of 500 or more. */
  get hasBrokenDown(): boolean {
    return (this.errors.at(-1)?.detail.status ?? 0) >= BROKEN_DOWN
  }

  /** `isAutomatic`: the candidates are those of automatic selection. `called`: how many were called. */
  toCallerError(isAutomatic: boolean, called: number): CallerError {
    const { errors, rests, unsent } = this
    const mistake = unsent !== undefined && errors.length === 0 ? callersMistake(unsent) : undefined
    if (mistake !== undefined) return mistake
    if (isAutomatic && called === 0 && errors.length === 0) {
      const message = 'Every candidate of automatic selection is resting after failures; try again shortly.'
      return new CallerError('overloaded', message, { retryAfterSeconds: retrySeconds([], rests) })
    }
    return summary(errors, rests)
  }
}

/**
 * The error for a request that the provider rejects because of the caller's mistake; undefined for any other failure.
 */
export function callersMistake(error: ProviderError): CallerError | undefined {
  if (error.kind === 'rejected')
    return new CallerError('upstream_rejected', error.message, { code: error.detail.code, cause: error })
  if (error.kind === 'too_large') return new CallerError('upstream_too_large', error.message, { cause: error })
  return undefined
}

/** One error for all candidates: what they have in common, else what the last one that was called did. */
function summary(errors: readonly ProviderError[], rests: readonly Rest[]): CallerError {
  const last = errors.at(-1)
  const retryAfterSeconds = retrySeconds(errors, rests)
  const all = (...kinds: readonly ProviderErrorKind[]) => errors.every(({ kind }) => kinds.includes(kind))
  const overloaded = (message: string) => new CallerError('overloaded', message, { retryAfterSeconds, cause: last })
  if (all('rate_limited') && rests.every(({ asked }) => asked) && errors.length + rests.length > 0) {
    return new CallerError('upstream_rate_limited', 'Every provider of this model is rate limited; try again later.', {
      retryAfterSeconds,
      cause: last,
    })
  }
  if (last === undefined)
    return overloaded('Every provider of this model is resting after failures; try again shortly.')
  if (all('overloaded', 'rate_limited'))
    return overloaded('Every provider of this model is overloaded; try again shortly.')
  if (last.kind === 'timeout') {
    return new CallerError('upstream_timeout', 'No provider of this model answered in time.', { cause: last })
  }
  if (last.kind === 'overloaded' || last.kind === 'rate_limited') {
    return overloaded('No provider of this model can answer now; try again shortly.')
  }
  return new CallerError('upstream_failed', 'The provider of this model failed to give a valid answer.', {
    cause: last,
  })
}

/** The shortest wait after which some provider may be called again, in whole seconds. */
function retrySeconds(errors: readonly ProviderError[], rests: readonly Rest[]): number {
  const waits = [...errors.flatMap(({ detail }) => detail.retryAfterMs ?? []), ...rests.map(({ restMs }) => restMs)]
  return waits.length === 0 ? RETRY_SECONDS : Math.max(RETRY_SECONDS, Math.ceil(Math.min(...waits) / 1000))
}

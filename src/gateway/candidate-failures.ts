/** The failures of one request's candidates, and the one error that its caller gets if no candidate answers. */

import type { Candidate } from '../catalog/resolve.ts'
import { CallerError, type CallerErrorKind } from '../core/caller-error.ts'
import type { Compatibility } from '../core/compatibility.ts'
import type { ProviderError, ProviderErrorKind } from '../core/provider-error.ts'
import type { Rest } from './breaker.ts'

/** `retry-after` if no provider gave a figure. */
const RETRY_SECONDS = 1
/** The lowest status with which a provider reports that it broke down. */
const BROKEN_DOWN = 500

export class CandidateFailures {
  private readonly errors: ProviderError[] = []
  private readonly rests = new Map<Candidate, Rest>()
  /**
   * Why each candidate does not answer, in the order of the candidates: its error, or why it rests. One that is called
   * in spite of its rest keeps its place. So a cause has one answer, whether its candidate rests or is called.
   */
  private readonly kinds = new Map<Candidate, ProviderErrorKind>()
  private unsent: ProviderError | undefined

  /** A candidate was called and failed. */
  failed(candidate: Candidate, error: ProviderError): void {
    this.errors.push(error)
    this.kinds.set(candidate, error.kind)
  }

  /** A candidate was not called because the circuit breaker rests it. */
  rested(candidate: Candidate, rest: Rest): void {
    this.rests.set(candidate, rest)
    this.kinds.set(candidate, rest.reason)
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
    const { errors, unsent } = this
    const mistake = unsent !== undefined && errors.length === 0 ? callersMistake(unsent) : undefined
    if (mistake !== undefined) return mistake
    // Without credit a wait does not help, so the answer is that of a request for the model itself.
    if (isAutomatic && called === 0 && errors.length === 0 && !this.all('credit_exhausted'))
      return this.overloaded('Every candidate of automatic selection is resting after failures; try again shortly.')
    return this.summary()
  }

  /** One error for all candidates: what they have in common, else what the last of them did. */
  private summary(): CallerError {
    const last = [...this.kinds.values()].at(-1)
    const cause = this.errors.at(-1)
    if (this.all('rate_limited')) {
      const message = 'Every provider of this model is rate limited; try again later.'
      return new CallerError('upstream_rate_limited', message, { retryAfterSeconds: this.retrySeconds(), cause })
    }
    if (last === undefined)
      return this.overloaded('Every provider of this model is resting after failures; try again shortly.')
    if (this.all('overloaded', 'rate_limited'))
      return this.overloaded('Every provider of this model is overloaded; try again shortly.')
    if (last === 'timeout')
      return new CallerError('upstream_timeout', 'No provider of this model answered in time.', { cause })
    if (last === 'overloaded' || last === 'rate_limited')
      return this.overloaded('No provider of this model can answer now; try again shortly.')
    const message =
      cause?.detail.unusable === true ? cause.message : 'The provider of this model failed to give a valid answer.'
    return new CallerError('upstream_failed', message, { cause })
  }

  private overloaded(message: string): CallerError {
    return new CallerError('overloaded', message, {
      retryAfterSeconds: this.retrySeconds(),
      cause: this.errors.at(-1),
    })
  }

  /** Whether there are candidates, and all have failed in one of these ways. */
  private all(...kinds: readonly ProviderErrorKind[]): boolean {
    return this.kinds.size > 0 && [...this.kinds.values()].every((kind) => kinds.includes(kind))
  }

  /** The shortest wait after which some provider may be called again, in whole seconds. */
  private retrySeconds(): number {
    const asked = this.errors.flatMap(({ detail }) => detail.retryAfterMs ?? [])
    const waits = [...asked, ...Array.from(this.rests.values(), ({ restMs }) => restMs)]
    return waits.length === 0 ? RETRY_SECONDS : Math.max(RETRY_SECONDS, Math.ceil(Math.min(...waits) / 1000))
  }
}

/**
 * The error for a request that the provider rejects because of the caller's mistake; undefined for any other failure.
 * `pass`: as the provider worded it, without secrets.
 */
export function callersMistake(
  error: ProviderError,
  errors: Compatibility['provider_errors'] = 'rewritten',
): CallerError | undefined {
  if (errors === 'pass') {
    const passed = passedError(error)
    if (passed !== undefined) return passed
  }
  if (error.kind === 'rejected')
    return new CallerError('upstream_rejected', error.message, { code: error.detail.code, cause: error })
  if (error.kind === 'too_large') return new CallerError('upstream_too_large', error.message, { cause: error })
  return undefined
}

/** Undefined if there is nothing of the provider's to pass on: it names no status of a mistake, or no message. */
function passedError(error: ProviderError): CallerError | undefined {
  const {
    status = 0,
    providerMessage: message,
    ownType: type,
    ownCode: code = null,
    hasNumericCode,
    param,
  } = error.detail
  if (!PASSED_STATUSES.has(status) || message === undefined) return undefined
  if (error.kind !== 'rejected' && error.kind !== 'too_large') return undefined
  const kind = error.kind === 'rejected' ? 'upstream_rejected' : 'upstream_too_large'
  return new CallerError(kind, message, { passed: { status, type, code, hasNumericCode }, param, cause: error })
}

/** With these, providers speak about the request. */
const PASSED_STATUSES: ReadonlySet<number> = new Set([400, 413, 422])

/** The code of the log line if the answer breaks off with this error: the one that a caller without content gets. */
export function cutCode({ kind }: ProviderError): CallerErrorKind {
  if (kind === 'timeout') return 'upstream_timeout'
  if (kind === 'rate_limited') return 'upstream_rate_limited'
  return kind === 'overloaded' ? 'overloaded' : 'upstream_failed'
}

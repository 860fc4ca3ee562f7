/** Candidates in order until one answers. Nothing is tried again once its first event was sent on. */

import type { Candidate } from '../catalog/resolve.ts'
import { CallerError } from '../core/caller-error.ts'
import { ProviderError, type ProviderErrorKind } from '../core/provider-error.ts'
import { conceal } from '../providers/scrub.ts'
import type { RequestLog } from './access-log.ts'
import type { Permit, Rest } from './breaker.ts'
import type { Gateway } from './gateway.ts'
import type { Flight } from './in-flight.ts'
import type { Route } from './route-header.ts'

/** Whose attempts they are, and how long they may go on. */
interface Asking {
  /** No attempt begins after this (`performance.now()`), save for the first. */
  readonly dueMs: number
  readonly flight: Pick<Flight, 'interrupted'>
  readonly trace: Pick<RequestLog, 'attempts'>
  /** False where the limits of the caller do not allow what this candidate may cost: then it is passed over. */
  readonly affords: (candidate: Candidate) => boolean | Promise<boolean>
  readonly route?: Route | undefined
  /** True where the candidates are those of automatic selection: if all rest, none is asked. */
  readonly isAutomatic: boolean
  /** The candidate that was asked last has failed: what is still open of it ends, and nothing is charged for it. */
  readonly drop: () => void
}

type AttemptParts = Pick<Gateway, 'breaker' | 'routing' | 'random' | 'logEvent' | 'upstreams'>

/** What a candidate gave. */
export interface Answered<T> {
  readonly value: T
  readonly candidate: Candidate
  /** Takes a failure that comes after the first event, when there is no other candidate any more. */
  readonly permit: Permit
}

/** `retry-after` where no provider gave a figure. */
const RETRY_SECONDS = 1
/**
 * A provider that breaks down answers 5xx to everybody at once. Each request goes on to the next after a time of its own, up to so much,
 * so that they do not fall upon it in the same instant.
 */
const JITTER_MS_MAX = 100
/** From this status on. */
const BROKEN_DOWN = 500

/**
 * Tries the candidates one after the other; `ask` throws a `ProviderError` for one that failed. A fault that is the caller's mistake is told
 * to the caller at once, and one that comes of our own interruption is none of the candidate's. Throws the `CallerError` that sums up what
 * the candidates did.
 */
export function attempt<T>(
  gateway: AttemptParts,
  candidates: readonly Candidate[],
  asking: Asking,
  ask: (candidate: Candidate) => Promise<T>,
): Promise<Answered<T>> {
  return new Attempts(gateway, asking, ask).run(candidates)
}

class Attempts<T> {
  private made = 0
  private readonly faults: ProviderError[] = []
  private readonly rests: Rest[] = []
  /** What keeps a candidate from being asked at all: told to the caller where nobody could be. */
  private unsent: ProviderError | undefined

  constructor(
    private readonly gateway: AttemptParts,
    private readonly asking: Asking,
    private readonly ask: (candidate: Candidate) => Promise<T>,
  ) {}

  async run(candidates: readonly Candidate[]): Promise<Answered<T>> {
    const { breaker, routing } = this.gateway
    for (const candidate of candidates) {
      if (this.made >= routing.maxAttempts || (this.made > 0 && performance.now() >= this.asking.dueMs)) break
      const permit = breaker.enter(candidate.target) ?? (await breaker.enterByClaim(candidate.target))
      if (permit === undefined) {
        this.rest(candidate)
        continue
      }
      const answered = await this.attempt(candidate, permit)
      if (answered !== undefined) return answered
    }
    const answered = this.made === 0 ? await this.wake(candidates) : undefined
    if (answered !== undefined) return answered
    if (this.unsent !== undefined && this.faults.length === 0) refuseCallersMistake(this.unsent)
    if (this.asking.isAutomatic && this.made === 0 && this.faults.length === 0) throw allRest(this.rests)
    throw summary(this.faults, this.rests)
  }

  private rest(candidate: Candidate): void {
    this.asking.route?.add(candidate, 'resting')
    const rest = this.gateway.breaker.restOf(candidate.target)
    if (rest !== undefined) this.rests.push(rest)
  }

  /**
   * All of them rest: the one whose rest ends first is asked rather than nobody, unless its provider said not to be. Of automatic selection
   * only one whose rest is over, and which another request is probing.
   */
  private async wake(candidates: readonly Candidate[]): Promise<Answered<T> | undefined> {
    const { breaker } = this.gateway
    const resting = candidates.flatMap((candidate) => {
      const rest = breaker.restOf(candidate.target)
      if (rest === undefined || (rest.restMs > 0 && this.asking.isAutomatic)) return []
      return rest.asked && rest.restMs > 0 && !rest.probing ? [] : [{ candidate, rest }]
    })
    resting.sort((one, other) => one.rest.restMs - other.rest.restMs)
    for (const { candidate } of resting) {
      const answered = await this.attempt(candidate, breaker.enterAnyway(candidate.target))
      if (answered !== undefined || this.made > 0) return answered
    }
    return undefined
  }

  /** Undefined where the candidate failed and the next one is to be tried. */
  private async attempt(candidate: Candidate, permit: Permit): Promise<Answered<T> | undefined> {
    try {
      const affords = this.asking.affords(candidate)
      if (!(typeof affords === 'boolean' ? affords : await affords)) {
        this.asking.route?.add(candidate, 'over the limit')
        return undefined
      }
      await this.pause()
      const value = await this.try(candidate, permit)
      return value === undefined ? undefined : { ...value, candidate, permit }
    } finally {
      permit.release()
    }
  }

  /** Before the next candidate, where the last one broke down. */
  private async pause(): Promise<void> {
    const status = this.faults.at(-1)?.detail.status ?? 0
    if (status < BROKEN_DOWN) return
    const ms = this.gateway.random() * JITTER_MS_MAX
    if (performance.now() + ms < this.asking.dueMs) await Bun.sleep(ms)
  }

  private async try(candidate: Candidate, permit: Permit): Promise<{ readonly value: T } | undefined> {
    const startedMs = performance.now()
    const first = this.made++ === 0
    try {
      const value = await this.ask(candidate)
      permit.succeeded()
      this.note(candidate, startedMs)
      return { value }
    } catch (thrown) {
      // What was interrupted is charged.
      if (this.asking.flight.interrupted === undefined) this.asking.drop()
      if (!(thrown instanceof ProviderError)) throw thrown
      const error = this.shown(candidate, thrown)
      this.note(candidate, startedMs, error)
      if (error.detail.unsent === true) {
        this.made--
        this.unsent = error
        return undefined
      }
      if (this.asking.flight.interrupted !== undefined) throw error
      // Whoever had no more than what the others left of the time has not failed.
      const rests = (first || error.detail.hurried !== true) && permit.failed(error)
      const { provider, model } = candidate.target
      // Once a rest, not once a request.
      if (rests && error.kind === 'credential')
        this.gateway.logEvent('provider.credential_rejected', { provider, model })
      refuseCallersMistake(error)
      this.faults.push(error)
      return undefined
    }
  }

  /** Its words may reach the caller, wherever in an answer they stood. */
  private shown({ target }: Candidate, fault: ProviderError): ProviderError {
    const upstream = this.gateway.upstreams.get(target.provider)
    return upstream === undefined ? fault : conceal(fault, upstream.endpoint)
  }

  private note(candidate: Candidate, startedMs: number, fault?: ProviderError): void {
    const { flight, trace, route } = this.asking
    const { provider, model } = candidate.target
    const ms = Math.round((performance.now() - startedMs) * 10) / 10
    const status = fault === undefined ? 200 : fault.detail.status
    trace.attempts.push({ provider, model, status, error: flight.interrupted ?? fault?.kind, ms })
    route?.add(candidate, fault?.kind ?? 'answered')
  }
}

function refuseCallersMistake(fault: ProviderError): void {
  if (fault.kind === 'rejected')
    throw new CallerError('upstream_rejected', fault.message, { code: fault.detail.code, cause: fault })
  if (fault.kind === 'too_large') throw new CallerError('upstream_too_large', fault.message, { cause: fault })
}

function allRest(rests: readonly Rest[]): CallerError {
  const message = 'Every candidate of automatic selection is resting after failures; try again shortly.'
  return new CallerError('overloaded', message, { retryAfterSeconds: retrySeconds([], rests) })
}

/** One failure for all that was tried or rests: what all have in common, else what the last one that was tried said. */
function summary(faults: readonly ProviderError[], rests: readonly Rest[]): CallerError {
  const last = faults.at(-1)
  const retryAfterSeconds = retrySeconds(faults, rests)
  const all = (...kinds: readonly ProviderErrorKind[]) => faults.every((fault) => kinds.includes(fault.kind))
  const overloaded = (message: string) => new CallerError('overloaded', message, { retryAfterSeconds, cause: last })
  if (all('rate_limited') && rests.every(({ asked }) => asked) && faults.length + rests.length > 0) {
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

/** The shortest wait after which there is somebody to ask again, in whole seconds. */
function retrySeconds(faults: readonly ProviderError[], rests: readonly Rest[]): number {
  const waits = [...faults.flatMap((fault) => fault.detail.retryAfterMs ?? []), ...rests.map(({ restMs }) => restMs)]
  return waits.length === 0 ? RETRY_SECONDS : Math.max(RETRY_SECONDS, Math.ceil(Math.min(...waits) / 1000))
}

/**
 * The attempts of one request: how many failed and why, what they teach about their targets, and what the log line, the
 * trace and the route header show of them.
 */

import type { Candidate, Resolution } from '../catalog/resolve.ts'
import type { CallerError } from '../core/caller-error.ts'
import { MINUTE_MS } from '../core/durations.ts'
import type { ProviderError } from '../core/provider-error.ts'
import type { Learned } from '../providers/provider.ts'
import { conceal } from '../providers/scrub.ts'
import type { Attempt } from './attempt.ts'
import { CandidateFailures, callersMistake } from './candidate-failures.ts'
import type { RestListener } from './candidate-turns.ts'
import { type Upstream, upstreamOf } from './gateway.ts'
import { failureOf } from './request-line.ts'
import type { RunningWork } from './work.ts'

/**
 * A provider that breaks down answers 5xx to all requests at once. Each waits for a random time of up to this long
 * before it goes on, so that they do not reach the next candidate in the same instant.
 */
const JITTER_MS_MAX = 100

export class AttemptRecord implements RestListener {
  readonly route: RouteHeader | undefined
  /** A call that has not begun to answer ends then, and no further candidate is called (`performance.now()`). */
  dueMs: number
  /**
   * Failed calls, as `routing.max_attempts` counts them. One that was not sent is none of them, nor one whose
   * rejection shows how else to write the request.
   */
  private failed = 0
  /** Made at the first failure: few requests have one. */
  private madeFailures: CandidateFailures | undefined

  constructor(private readonly of: RunningWork) {
    const { gateway, log } = of
    this.dueMs = log.receivedMs + gateway.routing.totalTimeoutMs
    this.route = gateway.explainRoute ? new RouteHeader() : undefined
  }

  /** No call has failed. */
  get isFirst(): boolean {
    return this.failed === 0
  }

  /** No further candidate may be called. */
  get isOver(): boolean {
    const { failed } = this
    return failed >= this.of.gateway.routing.maxAttempts || (failed > 0 && performance.now() >= this.dueMs)
  }

  /** The last candidate that was called answered that it broke down. */
  get hasBrokenDown(): boolean {
    return this.madeFailures?.hasBrokenDown === true
  }

  /** Before the next candidate, if the last one broke down. */
  async pause(): Promise<void> {
    const ms = this.of.gateway.random() * JITTER_MS_MAX
    if (performance.now() + ms < this.dueMs) await Bun.sleep(ms)
  }

  private get failures(): CandidateFailures {
    this.madeFailures ??= new CandidateFailures()
    return this.madeFailures
  }

  rests(candidate: Candidate): void {
    this.route?.add(candidate, 'resting')
    const rest = this.of.gateway.breaker.restOf(candidate.target)
    if (rest !== undefined) this.failures.rested(candidate, rest)
  }

  /** It has no room for the request for so long. */
  lacksRoom(candidate: Candidate, waitMs: number): void {
    this.route?.add(candidate, 'full')
    this.stillLacksRoom(candidate, waitMs)
  }

  /** The same after it was waited for. */
  stillLacksRoom(candidate: Candidate, waitMs: number): void {
    const restMs = Math.min(waitMs, MINUTE_MS)
    const rest = { restMs, rests: 1, asked: true, reason: 'rate_limited', probing: false } as const
    this.failures.rested(candidate, { ...candidate.target, ...rest })
  }

  /** The time in which it waited for room is not the providers'. */
  waited(ms: number): void {
    this.dueMs += ms
  }

  /** The error of a request that no candidate answers. `isAutomatic`: its model was `auto`. */
  toCallerError(isAutomatic: boolean): CallerError {
    return this.failures.toCallerError(isAutomatic, this.failed)
  }

  /**
   * One attempt for the log line and the route header, which have none that is made again in another form; and the end
   * of its call for the trace.
   */
  note(attempt: Attempt, error?: ProviderError, learned?: Learned): void {
    const { log, running } = this.of
    attempt.endTrace(running.interrupted, error)
    if (learned !== undefined) return
    log.attempts.push(attempt.line(log.heardMs, running.interrupted, error))
    this.route?.add(attempt.candidate, error?.kind ?? 'answered')
  }

  /**
   * Another way to write the request, if the provider may have rejected how it was written: which name it has for a
   * limit, for example, shows only in its answer. Twice a candidate, for a server that rejects two things: a third
   * rejection is the caller's.
   */
  learn(attempt: Attempt, error: ProviderError): Learned | undefined {
    const { candidate, learned, startedMs } = attempt
    if (learned?.first !== undefined || performance.now() >= this.dueMs) return undefined
    return this.of.work.learn?.(candidate, this.upstreamOf(attempt), error, startedMs)
  }

  /** The provider of an attempt, which writes the request as the target has taught. */
  upstreamOf({ candidate, learned }: Attempt): Upstream {
    const usual = upstreamOf(this.of.gateway, candidate)
    return learned === undefined ? usual : { ...usual, provider: learned.provider }
  }

  /** The target has accepted what was learned. */
  keep({ field, seen, first, ...learned }: Learned, candidate: Candidate): void {
    if (first !== undefined) this.keep(first, candidate)
    const kept = learned.keep()
    if (kept !== undefined) this.of.gateway.logEvent('target.form_learned', { ...candidate.target, field, kept, seen })
  }

  /** What a failure means for the target and for the request. Throws if no other candidate is to be called. */
  fail({ candidate, permit, isFirst }: Attempt, error: ProviderError): void {
    const { gateway, key } = this.of
    // Nothing was sent, so this shows nothing about the target.
    if (error.detail.unsent === true) return this.failures.cannotTake(error)
    this.failed++
    // A later candidate that ran out of the request's time had less time than its own deadlines allow: it did not fail.
    const restBegins = (isFirst || error.detail.hurried !== true) && permit.failed(error)
    // Logged once per rest, not per request.
    if (restBegins && error.kind === 'credential') {
      // Without a status weir had no credential to send.
      const why = error.detail.status === undefined && { why: error.message }
      gateway.logEvent('provider.credential_rejected', { ...candidate.target, ...why })
    }
    if (restBegins && error.kind === 'credit_exhausted')
      gateway.logEvent('provider.credit_exhausted', { ...candidate.target, ...failureOf(error) })
    const mistake = callersMistake(error, key.compatibility.provider_errors)
    if (mistake !== undefined) throw mistake
    this.failures.failed(candidate, error)
  }

  /** The error without the operator's credentials and addresses, because its message may reach the caller. */
  conceal({ target }: Candidate, error: ProviderError): ProviderError {
    const upstream = this.of.gateway.upstreams.get(target.provider)
    return upstream === undefined ? error : conceal(error, upstream.endpoint)
  }
}

/** Proxies and SDKs take headers of a few KiB. A dozen candidates fit into this. */
const CHARS_MAX = 1024

/** `X-Gateway-Route`: how the model of an answer was chosen, for callers whose operator lets them see it. */
export class RouteHeader {
  private readonly steps: string[] = []

  /** `outcome` of a candidate: `answered`, `resting`, `over the limit`, or the kind of its error. */
  add({ model, target }: Candidate, outcome: string): void {
    this.steps.push(`${model.name}@${target.provider}=${outcome}`)
  }

  /**
   * `gpt-5-mini@openai=rate_limited, claude-sonnet@anthropic=answered; excluded: qwen (takes no images)`. Printable
   * ASCII.
   */
  text(excluded: Resolution['excluded']): string {
    const others = excluded.map(({ model, reason }) => `${model.name} (${reason})`)
    const called = this.steps.join(', ')
    const line = others.length === 0 ? called : `${called}; excluded: ${others.join(', ')}`
    const ascii = line.replace(/[^\x20-\x7e]/g, '?')
    return ascii.length <= CHARS_MAX ? ascii : `${ascii.slice(0, CHARS_MAX - 3)}...`
  }
}

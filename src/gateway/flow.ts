/**
 * One request, top to bottom: resolve the model, reserve what it may cost, ask one candidate after the other until one
 * answers, relay a stream or return a whole answer, settle.
 */

import { AUTO, type Key } from '../catalog/catalog.ts'
import { type Candidate, candidatesOf, type Resolution, selectModel } from '../catalog/resolve.ts'
import { CallerError } from '../core/caller-error.ts'
import { ProviderError } from '../core/provider-error.ts'
import { conceal } from '../providers/scrub.ts'
import { COMPLETED_AT_ONCE, type RequestEnd, type RequestLog } from './access-log.ts'
import type { Permit } from './breaker.ts'
import { CandidateFailures, callersMistake } from './candidate-failures.ts'
import { type Gateway, upstreamOf } from './gateway.ts'
import type { Interruption, RunningRequest } from './in-flight.ts'
import type { ProviderCall } from './provider-call.ts'
import { Pump } from './pump.ts'
import { accountOf, RequestReservation } from './reservation.ts'
import { RouteHeader } from './route-header.ts'
import type { Work } from './work.ts'

/**
 * A provider that breaks down answers 5xx to all requests at once. Each waits for a random time of up to this long
 * before it goes on, so that they do not reach the next candidate in the same instant.
 */
const JITTER_MS_MAX = 100

const UNRESOLVED: Resolution = { candidates: [], excluded: [] }

export interface Answer {
  /** The caller's body of a whole answer, or a stream that has begun and of which nothing was written yet. */
  readonly content: string | Pump
  readonly requestedModel: string
  readonly servedModel: string
  readonly fallbacks: number
  /** How the model was chosen; absent unless the operator lets callers see it. */
  readonly route: string | undefined
  /** Resolves, and never rejects: for a whole answer at once, for a stream after it has ended and is settled. */
  readonly end: Promise<RequestEnd>
}

/** One a request; `run` is called once. */
export class Flow {
  /** A call that has not begun to answer ends now, and no further candidate is called. */
  private readonly dueMs: number
  private readonly route: RouteHeader | undefined
  private resolution = UNRESOLVED
  /** Those of the resolution in the order in which they are called. */
  private candidates = UNRESOLVED.candidates
  private calls = 0
  private readonly failures = new CandidateFailures()

  constructor(
    private readonly gateway: Gateway,
    private readonly key: Key,
    private readonly work: Work,
    private readonly running: RunningRequest,
    private readonly log: RequestLog,
  ) {
    this.dueMs = performance.now() + gateway.routing.totalTimeoutMs
    this.route = gateway.explainRoute ? new RouteHeader() : undefined
  }

  /**
   * Throws the `CallerError` that the caller gets. What the answer cost is being settled when this returns; a stream is
   * settled before its `end` resolves.
   */
  async run(): Promise<Answer> {
    this.resolve()
    const reservation = await this.reserve()
    try {
      for (const candidate of this.candidates) {
        if (this.isOver) break
        const { breaker } = this.gateway
        // Only a target whose rest is over has to ask the other workers, of which one may probe it.
        const permit = breaker.enter(candidate.target) ?? (await breaker.enterByClaim(candidate.target))
        if (permit === undefined) {
          this.noteResting(candidate)
          continue
        }
        const answer = await this.attempt(candidate, permit, reservation)
        if (answer !== undefined) return answer
      }
      const answer = this.calls === 0 ? await this.attemptResting(reservation) : undefined
      if (answer !== undefined) return answer
      throw this.failures.toCallerError(this.work.model === AUTO, this.calls)
    } catch (error) {
      const { interrupted } = this.running
      // In the audit trail, `refused` also stands for a request that no candidate answered.
      reservation.settleInBackground(interrupted ?? 'refused', undefined, this.report)
      throw interrupted === undefined ? error : interruptedError(interrupted)
    }
  }

  private resolve(): void {
    const { work, key } = this
    const { catalog } = this.gateway
    const selected = selectModel(catalog, key, work.model, work.kind)
    // The candidates depend on the estimate; a model that does not exist needs none.
    work.estimate()
    this.resolution = candidatesOf(catalog, key, selected, work)
    this.candidates = work.order(this.resolution.candidates)
  }

  private async reserve(): Promise<RequestReservation> {
    const [first] = this.candidates
    if (first === undefined) throw new Error('a resolution without candidates')
    const quote = this.work.quote(first.model)
    const reservation = await RequestReservation.open(this.gateway.ledger, accountOf(this.key), quote, this.log)
    this.running.reservation = reservation
    return reservation
  }

  private get isOver(): boolean {
    return this.calls >= this.gateway.routing.maxAttempts || (this.calls > 0 && performance.now() >= this.dueMs)
  }

  private noteResting(candidate: Candidate): void {
    this.route?.add(candidate, 'resting')
    const rest = this.gateway.breaker.restOf(candidate.target)
    if (rest !== undefined) this.failures.rested(rest)
  }

  /**
   * Calls one candidate although all of them rest: the one whose rest ends first. During a rest that its provider asked
   * for, and with automatic selection during any rest, a candidate is not called. If the rest is over and another
   * request is still probing the target, it is.
   */
  private async attemptResting(reservation: RequestReservation): Promise<Answer | undefined> {
    const { breaker } = this.gateway
    const isAutomatic = this.work.model === AUTO
    const resting = this.candidates.flatMap((candidate) => {
      const rest = breaker.restOf(candidate.target)
      if (rest === undefined) return []
      // While another worker probes a target, its rest is over; `restMs` is the time for the probe.
      const isAsked = rest.asked && !rest.probing
      return rest.restMs > 0 && (isAutomatic || isAsked) ? [] : [{ candidate, rest }]
    })
    resting.sort((one, other) => one.rest.restMs - other.rest.restMs)
    for (const { candidate } of resting) {
      const answer = await this.attempt(candidate, breaker.enterAnyway(candidate.target), reservation)
      if (answer !== undefined || this.calls > 0) return answer
    }
    return undefined
  }

  /** Undefined if the candidate failed and the next one is to be called. */
  private async attempt(
    candidate: Candidate,
    permit: Permit,
    reservation: RequestReservation,
  ): Promise<Answer | undefined> {
    let call: ProviderCall | undefined
    let startedMs = 0
    const isFirst = this.calls === 0
    try {
      if (!(await reservation.requote(this.work.quote(candidate.model)))) {
        this.route?.add(candidate, 'over the limit')
        return undefined
      }
      if (this.failures.hasBrokenDown) await this.pause()
      startedMs = performance.now()
      this.calls++
      call = this.ask(candidate, reservation)
      await call.open()
      this.running.bodySent()
      const answer = await call.answer(reservation)
      permit.succeeded()
      this.note(candidate, startedMs)
      return this.answerOf(call, answer, permit, reservation)
    } catch (thrown) {
      const error = thrown instanceof ProviderError ? this.concealed(candidate, thrown) : undefined
      if (error !== undefined) this.note(candidate, startedMs, error)
      if (this.running.interrupted !== undefined) {
        permit.release()
        await this.chargeInterrupted(call, reservation)
      } else if (call !== undefined) {
        // A call that failed costs nothing: its usage is no longer reported to the ledger.
        call.abort()
        reservation.follow(undefined)
      }
      if (error === undefined) throw thrown
      this.recordFailure(candidate, permit, error, isFirst)
      return undefined
    } finally {
      // No effect on a permit that has reported. A stream that breaks off later still reports its failure with it.
      permit.release()
    }
  }

  /** Before the next candidate, if the last one broke down. */
  private async pause(): Promise<void> {
    const ms = this.gateway.random() * JITTER_MS_MAX
    if (performance.now() + ms < this.dueMs) await Bun.sleep(ms)
  }

  /** The call of a candidate, not sent yet. From now on an interruption stops it, and the ledger follows its usage. */
  private ask(candidate: Candidate, reservation: RequestReservation): ProviderCall {
    const call = this.work.ask(candidate, upstreamOf(this.gateway, candidate), this.dueMs)
    const { interrupted } = this.running
    if (interrupted !== undefined) throw interruptedError(interrupted)
    this.running.runs(call)
    reservation.follow(call)
    return call
  }

  private answerOf(
    call: ProviderCall,
    content: string | Pump,
    permit: Permit,
    reservation: RequestReservation,
  ): Answer {
    const { candidate } = call
    this.work.served(candidate)
    // A conversation that stays with a later candidate has skipped those that the configuration has before it, too.
    const fallbacks = Math.max(this.candidates.indexOf(candidate), this.resolution.candidates.indexOf(candidate))
    this.log.servedBy(candidate, fallbacks)
    this.log.status = 200
    return {
      content,
      requestedModel: this.work.model,
      servedModel: candidate.model.name,
      fallbacks,
      route: this.route?.text(this.resolution.excluded),
      end:
        content instanceof Pump ? this.relay(content, call, permit, reservation) : this.settleWhole(call, reservation),
    }
  }

  private settleWhole(call: ProviderCall, reservation: RequestReservation): Promise<RequestEnd> {
    reservation.settleInBackground('completed', call.bill(true), this.report)
    return COMPLETED_AT_ONCE
  }

  /** Follows a stream that has begun, and settles it when it has ended. */
  private async relay(
    pump: Pump,
    call: ProviderCall,
    permit: Permit,
    reservation: RequestReservation,
  ): Promise<RequestEnd> {
    const { gateway, key, log } = this
    call.endSearch()
    log.streamed = true
    log.markFirstByte()
    reservation.guard(pump, () => gateway.isRevoked(key))
    pump.growWith(reservation)
    this.running.runs(pump)
    const { outcome, error, bug } = await pump.ended
    if (error !== undefined && (outcome === 'provider_cut' || error.kind === 'timeout')) permit.failed(error)
    if (bug !== undefined) this.report(bug)
    try {
      await reservation.settle(outcome, call.bill(outcome === 'completed'))
    } catch (settling) {
      this.report(settling)
    }
    return { outcome, cutFor: outcome === 'refused' ? reservation.cutFor : undefined }
  }

  /**
   * The caller left, or the process ends, during a call: it is charged if the provider may have received the request.
   */
  private async chargeInterrupted(call: ProviderCall | undefined, reservation: RequestReservation): Promise<void> {
    const { interrupted } = this.running
    if (call === undefined || interrupted === undefined) return
    this.log.servedBy(call.candidate, undefined)
    if (await call.wasSent()) reservation.settleInBackground(interrupted, call.bill(false), this.report)
  }

  /** What a failure means for the target and for the request. Throws if no other candidate is to be called. */
  private recordFailure(candidate: Candidate, permit: Permit, error: ProviderError, isFirst: boolean): void {
    // Nothing was sent, so this is no attempt, and shows nothing about the target.
    if (error.detail.unsent === true) {
      this.calls--
      this.failures.cannotTake(error)
      return
    }
    if (this.running.interrupted !== undefined) throw error
    // A later candidate that ran out of the request's time had less time than its own deadlines allow: it did not fail.
    const restBegins = (isFirst || error.detail.hurried !== true) && permit.failed(error)
    // Logged once a rest, not once a request.
    if (restBegins && error.kind === 'credential')
      this.gateway.logEvent('provider.credential_rejected', { ...candidate.target })
    const mistake = callersMistake(error)
    if (mistake !== undefined) throw mistake
    this.failures.failed(error)
  }

  /** The error without the operator's credentials and addresses, because its message may reach the caller. */
  private concealed({ target }: Candidate, error: ProviderError): ProviderError {
    const upstream = this.gateway.upstreams.get(target.provider)
    return upstream === undefined ? error : conceal(error, upstream.endpoint)
  }

  /** One attempt for the log line and the route header. */
  private note(candidate: Candidate, startedMs: number, error?: ProviderError): void {
    const { provider, model } = candidate.target
    const ms = Math.round((performance.now() - startedMs) * 10) / 10
    const status = error === undefined ? 200 : error.detail.status
    this.log.attempts.push({ provider, model, status, error: this.running.interrupted ?? error?.kind, ms })
    this.route?.add(candidate, error?.kind ?? 'answered')
  }

  private readonly report = (error: unknown): void => this.gateway.report(error, this.log.requestId)
}

/** The error of an interrupted request. A caller that still waits receives it when the process ends. */
function interruptedError(why: Interruption): CallerError {
  const message =
    why === 'drained' ? 'The gateway is shutting down; try again.' : 'The caller left before there was an answer.'
  return new CallerError('shutting_down', message, { retryAfterSeconds: 1 })
}

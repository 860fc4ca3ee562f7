/**
 * One request, top to bottom: resolve the model, reserve what it may cost, ask one candidate after the other until one
 * answers, relay a stream or return a whole answer, settle.
 */

import { AUTO, type Key, publicName } from '../catalog/catalog.ts'
import type { Candidate, Exclusion } from '../catalog/resolve.ts'
import { CallerError } from '../core/caller-error.ts'
import { turn } from '../core/event-loop.ts'
import { Later, type LaterListener } from '../core/later.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { Learned } from '../providers/provider.ts'
import { COMPLETED, type RequestEnd, type RequestLog } from './access-log.ts'
import type { Answer, FlowListener } from './answer.ts'
import { Attempt } from './attempt.ts'
import { AttemptRecord } from './attempt-record.ts'
import { cutCode } from './candidate-failures.ts'
import { allows, downgrade, mayDowngrade, reserve } from './candidate-reserving.ts'
import { CandidateTurns } from './candidate-turns.ts'
import type { Gateway } from './gateway.ts'
import { type Interruption, interruptedError, type RunningRequest } from './in-flight.ts'
import type { Content, ProviderCall, ProviderCallListener } from './provider-call.ts'
import { Pump, type PumpListener, type StreamEnd } from './pump.ts'
import { failureOf } from './request-line.ts'
import { type Capacity, type Lacking, RequestRoom } from './request-room.ts'
import type { ErrorReporter, RequestReservation } from './reservation.ts'
import { spread } from './spread.ts'
import { type RunningWork, resolveWork, type Work } from './work.ts'

/** The request no longer waits, and its call has not begun: an interruption is seen before that. */
const NOTHING = { interrupt: () => undefined }

/**
 * One per request; `run` is called once. Each step calls the next one, and only a step that must wait is asynchronous:
 * most requests wait for nothing but the provider, and a promise for each step would be a third of their garbage.
 */
export class Flow
  implements RunningWork, ProviderCallListener, ErrorReporter, PumpListener, LaterListener<RequestReservation>
{
  private readonly excluded: readonly Exclusion[]
  private readonly turns: CandidateTurns
  /** Absent if no provider has limits. */
  private readonly room: RequestRoom | undefined
  /** Known once the ledger has admitted the request. */
  private reservation: RequestReservation | undefined
  private readonly attempts: AttemptRecord
  /** The last one. */
  private attempt: Attempt | undefined

  /** Resolves the model. Throws the `CallerError` of one that cannot be used. */
  constructor(
    readonly gateway: Gateway,
    readonly key: Key,
    readonly work: Work,
    readonly running: RunningRequest,
    readonly log: RequestLog,
    private readonly listener: FlowListener,
  ) {
    const { breaker, capacity, catalog } = gateway
    const { candidates, excluded } = resolveWork(catalog, key, work)
    const listed = spread(candidates, work)
    this.excluded = excluded
    this.attempts = new AttemptRecord(this)
    this.room = capacity && this.requestRoom(capacity)
    this.turns = new CandidateTurns(listed, work.order(listed), breaker, this.attempts, this.room)
  }

  run(): void {
    try {
      const opening = reserve(this, this.turns.candidates[0])
      if (opening instanceof Later) opening.listen(this)
      else this.resolved(opening)
    } catch (error) {
      this.rejected(error)
    }
  }

  private requestRoom(capacity: Capacity): RequestRoom {
    const quoteOf = (candidate: Candidate) => this.work.quote(candidate, this.key)
    return new RequestRoom(capacity, this.gateway.breaker, this.key, this.running.isLowered, quoteOf, this)
  }

  /** The ledger has admitted the request. */
  resolved(reservation: RequestReservation): void {
    this.reservation = reservation
    this.running.reservation = reservation
    const { fetching } = this.work
    if (fetching === undefined) this.next()
    else void this.fetch(fetching)
  }

  /** What the call needs is fetched while the ledger reserves. */
  private async fetch(fetching: NonNullable<Work['fetching']>): Promise<void> {
    this.turns.candidates = await fetching
    this.next()
  }

  /** The ledger has not admitted it. */
  rejected(error: unknown): void {
    if (mayDowngrade(this, error, this.turns.candidates[0])) void this.downgrade(error)
    else this.listener.failed(error)
  }

  private async downgrade(refusal: unknown): Promise<void> {
    try {
      this.resolved(await downgrade(this, refusal, this.turns, this.attempts.route))
    } catch (error) {
      this.listener.failed(error)
    }
  }

  /** Calls the next candidate; fails the request if there is none. */
  private next(): void {
    try {
      const { turns } = this
      const isAutomatic = this.work.model === AUTO
      const { isFirst, isOver } = this.attempts
      const next = isOver ? undefined : turns.next(isFirst)
      if (next instanceof Later) return void this.tryLater(next)
      if (next === undefined && !isOver && this.waits()) return
      const attempt = next ?? (isFirst ? turns.nextAtRest(isAutomatic) : undefined)
      if (attempt instanceof Later) return void this.tryLater(attempt)
      if (attempt !== undefined) return this.try(attempt)
      if (isOver || !this.waits()) throw this.attempts.toCallerError(isAutomatic)
    } catch (error) {
      this.endWithError(error)
    }
  }

  /** Lets the request wait for room, if a candidate lacks nothing else. */
  private waits(): boolean {
    const wait = this.room?.wait()
    if (wait === undefined) return false
    this.log.markWaiting(true)
    this.running.runs({
      interrupt: (why) => {
        wait.leave()
        this.log.markWaiting(false)
        this.endWithError(interruptedError(why))
      },
    })
    return true
  }

  lacksRoom(candidate: Candidate, waitMs: number): void {
    this.attempts.lacksRoom(candidate, waitMs)
  }

  entered(attempt: Attempt, waitedMs: number): void {
    this.running.runs(NOTHING)
    this.log.markWaiting(false)
    this.attempts.waited(waitedMs)
    if (!this.isRevoked()) return this.try(attempt)
    attempt.release()
    this.endWithError(
      new CallerError(
        'unauthenticated',
        'Incorrect API key provided. It ended while the request waited; send another.',
      ),
    )
  }

  gaveUp(lacking: readonly Lacking[]): void {
    this.running.runs(NOTHING)
    this.log.markWaiting(false)
    for (const { candidate, waitMs } of lacking) this.attempts.stillLacksRoom(candidate, waitMs)
    this.next()
  }

  private async tryLater(claiming: Later<Attempt | undefined>): Promise<void> {
    try {
      const attempt = await claiming
      if (attempt === undefined) this.next()
      else this.try(attempt)
    } catch (error) {
      this.endWithError(error)
    }
  }

  /** No answer: the request ends with an error. */
  private endWithError(error: unknown): void {
    const { interruptedByNow: interrupted } = this.running
    // In the audit trail, `refused` also stands for a request that no candidate answered.
    this.reservation?.settleInBackground(interrupted ?? 'refused', undefined, this)
    this.listener.failed(interrupted === undefined ? error : interruptedError(interrupted))
  }

  /** Calls one candidate, or the next one if it costs more than the limits allow. */
  private try(attempt: Attempt): void {
    this.attempt = attempt
    try {
      const isAllowed = allows(this, attempt.candidate, this.requireReservation())
      const isReady = !this.attempts.hasBrokenDown && !this.running.isHeavy
      if (isAllowed === true && isReady) this.call(attempt)
      else void this.callLater(attempt, isAllowed)
    } catch (error) {
      this.failed(error)
    }
  }

  private async callLater(attempt: Attempt, allowing: boolean | Later<boolean>): Promise<void> {
    try {
      if (!(await allowing)) {
        this.attempts.route?.add(attempt.candidate, 'over the limit')
        attempt.release()
        return this.next()
      }
      if (this.attempts.hasBrokenDown) await this.attempts.pause()
      if (this.running.isHeavy) await turn()
      this.call(attempt)
    } catch (error) {
      this.failed(error)
    }
  }

  /** From now on an interruption stops the call, and the ledger follows its usage. */
  protected call(attempt: Attempt): void {
    const { candidate } = attempt
    const reservation = this.requireReservation()
    attempt.startedMs = performance.now()
    this.log.markAsked(attempt.startedMs)
    const call = this.work.ask(candidate, this.attempts.upstreamOf(attempt), this.attempts.dueMs)
    const { interrupted } = this.running
    if (interrupted !== undefined) throw interruptedError(interrupted)
    attempt.call = call
    this.running.runs(call)
    reservation.follow(call)
    const { trace } = this.log
    if (trace !== undefined) {
      attempt.trace = trace.call(candidate)
      call.connection.addHeaders(attempt.trace.headers)
    }
    call.send(this, reservation)
  }

  accepted(): void {
    this.running.bodySent()
  }

  began(content: Content): void {
    const { attempt } = this
    const call = attempt?.call
    if (attempt === undefined || call === undefined) throw new Error('an answer without a call')
    try {
      this.succeeded(attempt, call)
      if (!(content instanceof Pump)) attempt.completed(call)
      this.attempts.note(attempt)
      const { interrupted } = this.running
      if (interrupted !== undefined && !(content instanceof Pump)) {
        this.chargeInterrupted(attempt, interrupted, true)
        return this.endWithError(interruptedError(interrupted))
      }
      const answer = this.answerOf(attempt.candidate, content)
      if (content instanceof Pump) return this.relay(answer, content, call)
      this.requireReservation().settleInBackground('completed', call.bill(true), this)
      this.listener.answered(answer)
    } catch (error) {
      return this.failed(error)
    }
    this.listener.ended(COMPLETED)
  }

  /** A target with nothing left of its rate limit rests, if there is another one and no room to be kept. */
  private succeeded(attempt: Attempt, call: ProviderCall): void {
    const { candidate, permit, learned } = attempt
    if (learned !== undefined) this.attempts.keep(learned, candidate)
    const isKept = this.room?.hear(attempt, call.connection.reportedLimits, false) === true
    permit.succeeded(isKept || this.turns.isOnly ? 0 : call.connection.exhaustedMs)
  }

  private answerOf(candidate: Candidate, content: Content): Answer {
    this.work.served?.(candidate)
    const fallbacks = this.turns.before(candidate)
    const isStream = content instanceof Pump || this.work.answersInEvents === true
    this.log.servedBy(candidate, fallbacks)
    this.log.status = 200
    this.log.streamed = isStream
    return {
      content,
      isStream,
      requestedModel: this.work.model,
      servedModel: publicName(candidate.model),
      fallbacks,
      route: this.attempts.route?.text(this.excluded),
    }
  }

  /** Follows a stream that has begun. */
  private relay(answer: Answer, pump: Pump, call: ProviderCall): void {
    const { log } = this
    const reservation = this.requireReservation()
    call.connection.endSearch()
    this.work.streams?.()
    log.markFirstByte()
    this.running.streams()
    reservation.guard(pump, this)
    pump.relay(reservation, this)
    this.listener.answered(answer)
    this.running.runs(pump)
  }

  isRevoked(): boolean {
    return this.gateway.isRevoked(this.key)
  }

  /** Settles a stream. */
  streamEnded({ outcome, error, bug }: StreamEnd): void {
    const { attempt } = this
    const reservation = this.requireReservation()
    this.log.markAnswered()
    const isFailure = error !== undefined && (outcome === 'provider_cut' || error.kind === 'timeout')
    if (isFailure && attempt !== undefined) {
      this.log.streamFailure = failureOf(this.attempts.conceal(attempt.candidate, error))
      attempt.permit.failed(error)
    } else if (outcome === 'completed') attempt?.permit.completed(true)
    else attempt?.permit.release()
    attempt?.endGrant(outcome === 'completed')
    attempt?.trace?.ended(isFailure ? { error: error.kind } : { outcome })
    if (bug !== undefined) this.report(bug)
    let settling: Later<unknown> | undefined
    try {
      settling = reservation.settle(outcome, attempt?.call?.bill(outcome === 'completed'))
    } catch (thrown) {
      this.report(thrown)
    }
    const failure = isFailure ? cutCode(error) : bug === undefined ? undefined : 'internal_error'
    const cutFor = outcome === 'refused' ? reservation.cutFor : outcome === 'drained' ? 'shutting_down' : failure
    const end = { outcome, cutFor }
    if (settling === undefined) this.listener.ended(end)
    else this.endAfter(settling, end)
  }

  private endAfter(settling: Later<unknown>, end: RequestEnd): void {
    settling.listen({
      resolved: () => this.listener.ended(end),
      rejected: (thrown) => {
        this.report(thrown)
        this.listener.ended(end)
      },
    })
  }

  /** The call failed: the next candidate is called, or the request ends. */
  failed(thrown: unknown): void {
    const { attempt, reservation } = this
    if (attempt === undefined || reservation === undefined) return this.listener.failed(thrown)
    try {
      const isRefused = thrown instanceof ProviderError && thrown.kind === 'rate_limited'
      if (isRefused) this.room?.hear(attempt, attempt.call?.connection.reportedLimits ?? [], true)
      const learned = this.judge(attempt, reservation, thrown)
      if (learned !== undefined) return this.callAgain(attempt, learned)
      attempt.endGrant(false, false)
      if (isRefused) this.room?.refused(attempt.candidate)
      this.next()
    } catch (error) {
      attempt.endGrant(false, this.running.interrupted !== undefined)
      this.endWithError(error)
    }
  }

  /**
   * Records a failed call. Returns another way to write the request, for the same candidate; undefined if the next
   * candidate is to be called. Throws the error that ends the request.
   */
  private judge(attempt: Attempt, reservation: RequestReservation, thrown: unknown): Learned | undefined {
    const { candidate, permit, call } = attempt
    try {
      const error = thrown instanceof ProviderError ? this.attempts.conceal(candidate, thrown) : undefined
      const { interruptedByNow: interrupted } = this.running
      const learned = error && interrupted === undefined ? this.attempts.learn(attempt, error) : undefined
      if (error !== undefined) this.attempts.note(attempt, error, learned)
      if (interrupted !== undefined) {
        this.chargeInterrupted(attempt, interrupted)
        throw error ?? thrown
      }
      // A call that failed costs nothing: its usage is no longer reported to the ledger.
      call?.abort()
      if (call !== undefined) reservation.follow(undefined)
      if (error === undefined) throw thrown
      if (learned === undefined) this.attempts.fail(attempt, error)
      return learned
    } finally {
      // No effect on a permit that has reported. A stream that breaks off later still reports its failure with it.
      permit.release()
    }
  }

  private callAgain({ candidate, grant }: Attempt, learned: Learned): void {
    const permit = this.gateway.breaker.enterAnyway(candidate.target)
    grant?.again()
    this.try(new Attempt(candidate, permit, this.attempts.isFirst, learned, grant))
  }

  /**
   * The caller left, or the process ends, during a call: it is charged if the provider may have received the request.
   * `isAnswered`: a whole answer still came.
   */
  private chargeInterrupted({ call }: Attempt, interrupted: Interruption, isAnswered = false): void {
    if (call === undefined) return
    call.abort()
    this.log.servedBy(call.candidate, undefined)
    if (call.wasSent()) this.reservation?.settleInBackground(interrupted, call.bill(isAnswered), this)
  }

  private requireReservation(): RequestReservation {
    if (this.reservation === undefined) throw new Error('the request has no reservation yet')
    return this.reservation
  }

  report(error: unknown): void {
    this.gateway.report(error, this.log.requestId)
  }
}

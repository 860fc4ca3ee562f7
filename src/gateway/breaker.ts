/**
 * Which targets rest after failures, and until when: one circuit breaker per target. It has no timer, reads the time
 * from the clock that it is given, and never calls a provider.
 */

import { type TargetRef, targetKey } from '../core/model-config.ts'
import { ProviderError, type ProviderErrorKind } from '../core/provider-error.ts'
import { StreamRecord, type StreamTimes } from './stream-cuts.ts'
import { type Failure, failureOfError } from './target-failure.ts'

/** A target rests after this many failures in a row, or if half of its last 20 calls failed. */
export const FAILURES_IN_A_ROW = 3
const RECENT_MAX = 20
/** The first rest; each further one without a success in between is twice as long, up to the maximum. */
export const REST_MS_MIN = 1000
const REST_MS_MAX = 30_000
/** An account gets credit by hand, not within seconds. */
const CREDIT_REST_MS = 60_000
/** The longest rest that a 429 can ask for. */
const ASKED_MS_MAX = 60_000
/** From so many streams on that broke off in a row, the first content of the next one is no sign of health. */
const CUTS_IN_A_ROW = 2
/** While one worker probes a target, the others do not call it for this long: should that worker die, they go on. */
const PROBE_MS = 5000

/** A caller's mistake is no sign of the target's health. */
const CALLERS_MISTAKES: ReadonlySet<ProviderErrorKind> = new Set(['rejected', 'too_large'])

/** When calls of a target answered and failed, in Unix milliseconds; 0: never. For the operator, not for routing. */
export interface TargetTimes extends TargetRef {
  readonly answeredMs: number
  readonly failedMs: number
  /** The first failure since it last answered; 0 if there is none. */
  readonly failingSinceMs: number
  /** The last failure. */
  readonly failure: Failure
  /** The newest failures since it last answered, at most three. Absent from a worker of an earlier version. */
  readonly failuresMs?: readonly number[]
  /** How its streams went. Absent from a worker of an earlier version. */
  readonly streams?: StreamTimes
}

/**
 * An unhealthy target: it rests, or its rest is over and no call has succeeded since. Other processes get a duration,
 * because their clocks differ.
 */
export interface Rest extends TargetRef, Failure {
  /** How much longer it rests, or is left to a probe of another worker. 0: the rest is over. */
  readonly restMs: number
  /** How many rests it had without a success in between. 0: it is healthy again. */
  readonly rests: number
  /** True if the provider asked for the rest: then it is never called before its end. */
  readonly asked: boolean
  /** How many calls have failed since it last answered. Absent from a worker of an earlier version. */
  readonly failures?: number | undefined
  /** One request, perhaps of another worker, is finding out whether it is healthy again. */
  readonly probing: boolean
  /** How many streams in a row broke off after their first content. Absent from a worker of an earlier version. */
  readonly cuts?: number | undefined
}

class Health {
  /** Since the last success, or the last rest. */
  failuresInARow = 0
  /** Since the last success. */
  failures = 0
  /**
   * Streams in a row that broke off after their first content, without a whole answer in between. Those that a restart
   * of the provider breaks off together are one: a stream counts if its call began after the one before had counted.
   */
  cutsInARow = 0
  /** All that have counted. */
  cuts = 0
  readonly streams = new StreamRecord()
  /** The newest outcomes as bits, the newest lowest: 1 = failed. */
  recent = 0
  /** How many of them there are, up to `RECENT_MAX`. */
  seen = 0
  rests = 0
  untilMs = 0
  asked = false
  failure: Failure = { reason: 'failed' }
  answeredMs = 0
  failedMs = 0
  failingSinceMs = 0
  failuresMs: readonly number[] = []
  /** One of the times has changed since they were last taken. */
  isChanged = false
  probing = false
  /** Another worker was probing it, by its last message. */
  probedElsewhere = false
  /** This worker is asking whether it may probe. */
  claiming = false
  /** Counts the rests: a call that began before a rest is no sign of the target's health after it. */
  generation = 0

  constructor(readonly target: TargetRef) {}

  record(failed: 0 | 1): void {
    this.recent = ((this.recent << 1) | failed) & ((1 << RECENT_MAX) - 1)
    this.seen = Math.min(this.seen + 1, RECENT_MAX)
  }

  forget(): void {
    this.failuresInARow = 0
    this.recent = 0
    this.seen = 0
  }

  /** Its streams break off, so only a whole answer shows that it is healthy. */
  get breaksOff(): boolean {
    return this.cutsInARow >= CUTS_IN_A_ROW
  }

  /** How many of the newest outcomes are failures. */
  get recentFailures(): number {
    let count = 0
    for (let bits = this.recent; bits !== 0; bits &= bits - 1) count++
    return count
  }
}

/** What a permit reports to the breaker. */
interface Reports {
  succeeded(health: Health): void
  failed(health: Health, error: ProviderError, isCurrent: boolean): boolean
  exhausted(health: Health, ms: number): void
  cameWhole(health: Health, streamed: boolean): void
  brokeOff(health: Health, beganMs: number, error: ProviderError): void
  probeReleased(health: Health): void
}

/** Permission for one call to a target. Its holder reports how the call ended, or releases the permit. */
export class Permit {
  private isOpen = true
  private hasAnswered = false
  private readonly generation: number
  private readonly cuts: number

  constructor(
    private readonly breaker: Reports,
    private readonly health: Health,
    private readonly isProbe: boolean,
    private readonly beganMs: number,
  ) {
    this.generation = health.generation
    this.cuts = health.cuts
  }

  /** The target answers. A stream may still fail afterwards: if those before did, this shows nothing yet. */
  succeeded(): void {
    this.hasAnswered = true
    if (this.health.breaksOff) return
    this.isOpen = false
    if (this.isCurrent) this.breaker.succeeded(this.health)
  }

  /**
   * The target answers, and reports that its rate limit has nothing left for this long: it rests, so that the next
   * request does not have to be refused first.
   */
  exhausted(ms: number): void {
    this.hasAnswered = true
    if (this.health.breaksOff) return
    this.isOpen = false
    if (this.isCurrent) this.breaker.exhausted(this.health, ms)
  }

  /** After `succeeded` or `exhausted`: the answer came whole. */
  completed(streamed: boolean): void {
    const { breaksOff } = this.health
    this.breaker.cameWhole(this.health, streamed)
    this.health.cutsInARow = 0
    if (breaksOff) this.succeeded()
  }

  /** The target failed; a caller's mistake only ends a probe. True if a rest begins with this failure. */
  failed(error: ProviderError): boolean {
    if (CALLERS_MISTAKES.has(error.kind)) {
      this.release()
      return false
    }
    this.isOpen = false
    const { isCurrent, health } = this
    if (this.isProbe && isCurrent) health.probing = false
    if (this.hasAnswered && this.cuts === health.cuts) {
      health.cuts++
      health.cutsInARow++
      this.breaker.brokeOff(health, this.beganMs, error)
    }
    return this.breaker.failed(health, error, isCurrent)
  }

  /**
   * The call shows nothing about the target: its caller left, or the time of the request was up. No effect after
   * `failed`, nor after a `succeeded` that counted.
   */
  release(): void {
    if (!this.isOpen) return
    this.isOpen = false
    if (!this.isProbe || !this.isCurrent || !this.health.probing) return
    this.health.probing = false
    this.breaker.probeReleased(this.health)
  }

  /** The target has not begun a rest since this call began. */
  private get isCurrent(): boolean {
    return this.health.generation === this.generation
  }
}

export class Breaker {
  private readonly healths = new Map<string, Health>()
  private changed: Health[] = []

  private readonly reports: Reports = {
    succeeded: (health) => this.succeed(health),
    exhausted: (health, ms) => this.exhaust(health, ms),
    failed: (health, error, isCurrent) => this.fail(health, error, isCurrent),
    cameWhole: (health, streamed) => {
      health.streams.cameWhole(streamed, this.wallMs())
      this.noteChange(health, false)
    },
    brokeOff: (health, beganMs, error) =>
      health.streams.brokeOff({ beganMs, ms: this.wallMs() }, failureOfError(error)),
    probeReleased: (health) => this.send(this.restOfHealth(health)),
  }

  constructor(
    /** Monotonic milliseconds. */
    private readonly now: () => number = () => performance.now(),
    /** Receives every change that other workers should know. */
    private readonly send: (rest: Rest) => void = () => {},
    /** With other workers: whether this one may probe a target whose rest is over. One worker at a time may. */
    private readonly claim?: (target: TargetRef) => Promise<boolean>,
    /** Hears that a target answers for the first time or again, or begins to fail. */
    private readonly turned: () => void = () => {},
    private readonly wallMs: () => number = Date.now,
  ) {}

  /**
   * A permit to call the target; undefined if the target rests or is being probed. The first call after a rest is the
   * probe; with other workers, `enterByClaim` gives the permit for that.
   */
  enter(target: TargetRef): Permit | undefined {
    const health = this.of(target)
    if (health.rests === 0) return this.permit(health)
    return this.claim === undefined && this.mayProbe(health) ? this.probe(health) : undefined
  }

  /** True if `enterByClaim` may give a permit for a target that `enter` gave none for. */
  mustClaim(target: TargetRef): boolean {
    return this.claim !== undefined && this.mayProbe(this.of(target))
  }

  /** A permit to probe a target that `enter` gave none for, if this worker may. */
  async enterByClaim(target: TargetRef): Promise<Permit | undefined> {
    const health = this.of(target)
    if (this.claim === undefined || !this.mayProbe(health)) return undefined
    health.claiming = true
    const isGranted = await this.claim(health.target)
    health.claiming = false
    // Another worker's probe may have succeeded in the meantime.
    if (health.rests === 0) return this.permit(health)
    return isGranted && this.mayProbe(health) ? this.probe(health) : undefined
  }

  /** A permit in spite of a rest, if there is no other target to call. */
  enterAnyway(target: TargetRef): Permit {
    return this.enter(target) ?? this.permit(this.of(target))
  }

  /** True if the target neither rests nor waits for its probe. */
  isHealthy(target: TargetRef): boolean {
    const health = this.healths.get(targetKey(target))
    return health === undefined || health.rests === 0
  }

  /** The rest of a target; undefined if it is healthy. */
  restOf(target: TargetRef): Rest | undefined {
    const health = this.healths.get(targetKey(target))
    return health === undefined || health.rests === 0 ? undefined : this.restOfHealth(health)
  }

  /** Every target that is not healthy. */
  rests(): readonly Rest[] {
    return [...this.healths.values()].filter(({ rests }) => rests > 0).map((health) => this.restOfHealth(health))
  }

  /**
   * What a free request to an idle target has shown: that it answers, or `error`. False if the target rests again, is
   * probed or has answered meanwhile: then this changes nothing. The request was weir's own, so a rest that the
   * provider asks for is not longer than others.
   */
  probed({ provider, model, rests }: Rest, error?: ProviderError): boolean {
    const health = this.of({ provider, model })
    if (health.rests === 0 || health.rests !== rests || !this.mayProbe(health)) return false
    if (error === undefined) {
      health.cutsInARow = 0
      health.streams.cameWhole(true, this.wallMs())
      this.succeed(health)
    } else this.fail(health, new ProviderError(error.kind, error.message, { ...error.detail, retryAfterMs: 0 }), true)
    return true
  }

  /** The times of the targets that were called since this was last called. */
  takeTimes(): readonly TargetTimes[] {
    const { changed } = this
    if (changed.length === 0) return []
    this.changed = []
    return changed.map((health) => {
      health.isChanged = false
      const { target, answeredMs, failedMs, failingSinceMs, failure, failuresMs } = health
      const streams = health.streams.times()
      return { ...target, answeredMs, failedMs, failingSinceMs, failure, failuresMs, streams }
    })
  }

  /** Drops the targets that are not in a new configuration. */
  keep(remains: (target: TargetRef) => boolean): void {
    for (const [key, { target }] of this.healths) if (!remains(target)) this.healths.delete(key)
  }

  /** Takes over what another worker found out. The newest message counts. */
  receive(rest: Rest): void {
    if (rest.rests === 0 && this.isHealthy(rest)) return
    const health = this.of(rest)
    if (rest.rests === 0) {
      health.cutsInARow = rest.cuts ?? 0
      return this.recover(health)
    }
    // Two workers probe at the same time: each keeps its own probe.
    if (rest.probing && health.probing) return
    health.rests = rest.rests
    health.untilMs = this.now() + rest.restMs
    health.asked = rest.asked
    health.failure = { reason: rest.reason, status: rest.status, cause: rest.cause }
    health.failures = Math.max(health.failures, rest.failures ?? 0)
    health.cutsInARow = Math.max(health.cutsInARow, rest.cuts ?? 0)
    health.probedElsewhere = rest.probing
    if (rest.probing || rest.restMs === 0) return
    health.probing = false
    health.generation++
  }

  private permit(health: Health, isProbe = false): Permit {
    return new Permit(this.reports, health, isProbe, this.wallMs())
  }

  private mayProbe({ probing, claiming, untilMs }: Health): boolean {
    return !probing && !claiming && this.now() >= untilMs
  }

  private probe(health: Health): Permit {
    health.probing = true
    this.send(this.restOfHealth(health, PROBE_MS))
    return this.permit(health, true)
  }

  private succeed(health: Health): void {
    this.noteAnswer(health)
    health.failuresInARow = 0
    health.failures = 0
    if (health.rests === 0) return health.record(0)
    this.recover(health)
    this.send(this.restOfHealth(health))
  }

  private recover(health: Health): void {
    health.rests = 0
    health.untilMs = 0
    health.asked = false
    health.probing = false
    health.probedElsewhere = false
    health.failures = 0
    health.forget()
  }

  private noteAnswer(health: Health): void {
    const isTurn = health.answeredMs <= health.failedMs
    health.answeredMs = isTurn ? Math.max(this.wallMs(), health.failedMs + 1) : this.wallMs()
    health.failingSinceMs = 0
    health.failuresMs = []
    this.noteChange(health, isTurn)
  }

  private noteFailure(health: Health, failure: Failure): void {
    const isTurn = health.failingSinceMs === 0
    health.failedMs = Math.max(this.wallMs(), health.answeredMs + 1)
    if (isTurn) health.failingSinceMs = health.failedMs
    health.failures++
    health.failure = failure
    this.noteChange(health, isTurn)
  }

  private noteChange(health: Health, isTurn: boolean): void {
    if (!health.isChanged) {
      health.isChanged = true
      this.changed.push(health)
    }
    if (isTurn) this.turned()
  }

  /** `isCurrent`: the call began after the last rest. The failures of older calls are why the target rests already. */
  private fail(health: Health, error: ProviderError, isCurrent: boolean): boolean {
    const { kind, detail } = error
    const failure = failureOfError(error)
    this.noteFailure(health, failure)
    if (isCurrent) health.failuresMs = [...health.failuresMs.slice(1 - FAILURES_IN_A_ROW), health.failedMs]
    const askedMs = kind === 'rate_limited' ? Math.min(detail.retryAfterMs ?? 0, ASKED_MS_MAX) : 0
    const restMs = Math.max(askedMs, isCurrent ? this.restAfter(health, kind) : 0)
    if (restMs === 0 || restMs <= health.untilMs - this.now()) return false
    this.rest(health, failure, restMs, askedMs > 0)
    return true
  }

  /** It is no failure: the target is still called if there is no other. */
  private exhaust(health: Health, ms: number): void {
    this.noteAnswer(health)
    health.failures = 0
    health.rests = 0
    this.rest(health, { reason: 'rate_limited' }, Math.min(ms, ASKED_MS_MAX), false)
  }

  private rest(health: Health, failure: Failure, ms: number, asked: boolean): void {
    health.failure = failure
    health.asked = asked
    health.untilMs = this.now() + ms
    health.rests++
    health.probing = false
    health.probedElsewhere = false
    health.generation++
    health.forget()
    // What the rest shows of the target depends on the calls of all workers.
    this.turned()
    this.send(this.restOfHealth(health))
  }

  /** How many milliseconds a target rests after one more failure; 0 if it does not. */
  private restAfter(health: Health, kind: ProviderErrorKind): number {
    // It was called in spite of its rest, because there was no other: another failure shows nothing new.
    if (this.now() < health.untilMs) return 0
    health.record(1)
    health.failuresInARow++
    // Only the operator can repair these.
    if (kind === 'credential') return REST_MS_MAX
    if (kind === 'credit_exhausted') return CREDIT_REST_MS
    const isHalf = health.seen === RECENT_MAX && 2 * health.recentFailures >= RECENT_MAX
    const begins = health.rests > 0 || health.failuresInARow >= FAILURES_IN_A_ROW || isHalf
    return begins ? Math.min(REST_MS_MIN * 2 ** health.rests, REST_MS_MAX) : 0
  }

  private of({ provider, model }: TargetRef): Health {
    const key = targetKey({ provider, model })
    let health = this.healths.get(key)
    if (health === undefined) {
      health = new Health({ provider, model })
      this.healths.set(key, health)
    }
    return health
  }

  private restOfHealth(health: Health, restMs = Math.max(0, health.untilMs - this.now())): Rest {
    const { target, rests, asked, failure, failures, cutsInARow } = health
    const probing = health.probing || (health.probedElsewhere && restMs > 0)
    return { ...target, restMs: Math.ceil(restMs), rests, asked, ...failure, failures, probing, cuts: cutsInARow }
  }
}

/**
 * Which targets rest after failures, and until when: one circuit breaker per target. It has no timer, reads the time
 * from the clock that it is given, and never calls a provider.
 */

import { type TargetRef, targetKey } from '../core/model-config.ts'
import { ProviderError, type ProviderErrorKind } from '../core/provider-error.ts'
import { Permit, type Reports } from './permit.ts'
import type { StreamTimes } from './stream-cuts.ts'
import { type Failure, failureOfError } from './target-failure.ts'
import { RECENT_MAX, TargetHealth } from './target-health.ts'

/** A target rests after this many failures in a row, or if half of its last `RECENT_MAX` calls failed. */
export const FAILURES_IN_A_ROW = 3
/** The first rest; each further one without a success in between is twice as long, up to the maximum. */
export const REST_MS_MIN = 1000
const REST_MS_MAX = 30_000
/** An account gets credit by hand, not within seconds. */
const CREDIT_REST_MS = 60_000
/** The longest rest that a 429 can ask for. */
const ASKED_MS_MAX = 60_000
/** While one worker probes a target, the others do not call it for this long: should that worker die, they go on. */
export const PROBE_MS = 5000

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

export class Breaker implements Reports {
  private readonly healths = new Map<string, TargetHealth>()
  /** The same by the objects of the configuration: making a key and finding it takes 0.2 µs of a request. */
  private healthsOf = new WeakMap<TargetRef, TargetHealth>()
  private changed: TargetHealth[] = []

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
      this.succeeded(health)
    } else this.failed(health, new ProviderError(error.kind, error.message, { ...error.detail, retryAfterMs: 0 }), true)
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
    this.healthsOf = new WeakMap()
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

  private permit(health: TargetHealth, isProbe = false): Permit {
    return new Permit(this, health, isProbe, this.wallMs())
  }

  private mayProbe({ probing, claiming, untilMs }: TargetHealth): boolean {
    return !probing && !claiming && this.now() >= untilMs
  }

  private probe(health: TargetHealth): Permit {
    health.probing = true
    this.send(this.restOfHealth(health, PROBE_MS))
    return this.permit(health, true)
  }

  // What follows up to `recover` is for permits.

  succeeded(health: TargetHealth): void {
    this.noteAnswer(health)
    health.failuresInARow = 0
    health.failures = 0
    if (health.rests === 0) return health.record(0)
    this.recover(health)
    this.send(this.restOfHealth(health))
  }

  /** `isCurrent`: the call began after the last rest. The failures of older calls are why the target rests already. */
  failed(health: TargetHealth, error: ProviderError, isCurrent: boolean): boolean {
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
  exhausted(health: TargetHealth, ms: number): void {
    this.noteAnswer(health)
    health.failures = 0
    health.rests = 0
    this.rest(health, { reason: 'rate_limited' }, Math.min(ms, ASKED_MS_MAX), false)
  }

  cameWhole(health: TargetHealth, streamed: boolean): void {
    health.streams.cameWhole(streamed, this.wallMs())
    this.noteChange(health, false)
  }

  brokeOff({ streams }: TargetHealth, beganMs: number, error: ProviderError): void {
    streams.brokeOff({ beganMs, ms: this.wallMs() }, failureOfError(error))
  }

  probeReleased(health: TargetHealth): void {
    this.send(this.restOfHealth(health))
  }

  private recover(health: TargetHealth): void {
    health.rests = 0
    health.untilMs = 0
    health.asked = false
    health.probing = false
    health.probedElsewhere = false
    health.failures = 0
    health.forget()
  }

  private noteAnswer(health: TargetHealth): void {
    const isTurn = health.answeredMs <= health.failedMs
    health.answeredMs = isTurn ? Math.max(this.wallMs(), health.failedMs + 1) : this.wallMs()
    health.failingSinceMs = 0
    if (health.failuresMs.length > 0) health.failuresMs = []
    this.noteChange(health, isTurn)
  }

  private noteFailure(health: TargetHealth, failure: Failure): void {
    const isTurn = health.failingSinceMs === 0
    health.failedMs = Math.max(this.wallMs(), health.answeredMs + 1)
    if (isTurn) health.failingSinceMs = health.failedMs
    health.failures++
    health.failure = failure
    this.noteChange(health, isTurn)
  }

  private noteChange(health: TargetHealth, isTurn: boolean): void {
    if (!health.isChanged) {
      health.isChanged = true
      this.changed.push(health)
    }
    if (isTurn) this.turned()
  }

  private rest(health: TargetHealth, failure: Failure, ms: number, asked: boolean): void {
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
  private restAfter(health: TargetHealth, kind: ProviderErrorKind): number {
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

  private of(target: TargetRef): TargetHealth {
    const known = this.healthsOf.get(target)
    if (known !== undefined) return known
    const { provider, model } = target
    const key = targetKey(target)
    let health = this.healths.get(key)
    if (health === undefined) {
      health = new TargetHealth({ provider, model })
      this.healths.set(key, health)
    }
    this.healthsOf.set(target, health)
    return health
  }

  private restOfHealth(health: TargetHealth, restMs = Math.max(0, health.untilMs - this.now())): Rest {
    const { target, rests, asked, failure, failures, cutsInARow } = health
    const probing = health.probing || (health.probedElsewhere && restMs > 0)
    return { ...target, restMs: Math.ceil(restMs), rests, asked, ...failure, failures, probing, cuts: cutsInARow }
  }
}

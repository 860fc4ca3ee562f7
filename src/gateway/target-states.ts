/**
 * The state of each target as the operator sees it: what happened to it last, over all workers of the machine. It is
 * made of the times that the workers report, and of the rests that they agree on.
 */

import { type TargetRef, targetKey } from '../core/model-config.ts'
import { type Breaker, FAILURES_IN_A_ROW, REST_MS_MIN, type Rest, type TargetTimes } from './breaker.ts'
import { StreamOutage } from './stream-cuts.ts'
import type { Failure } from './target-failure.ts'

/**
 * - `unknown`: never called since the start, or since its provider's entry changed
 * - `healthy`: answered since it last failed
 * - `failing`: its last calls failed, and it does not rest yet
 * - `resting`: it is skipped
 * - `probing`: its rest is over, and it gets one request at a time until one succeeds
 */
export const TARGET_STATES = ['unknown', 'healthy', 'failing', 'resting', 'probing'] as const
type TargetStateName = (typeof TARGET_STATES)[number]

interface Failing extends Failure {
  readonly sinceMs: number
  readonly lastMs: number
  /** All its streams break off, although whole answers still come. */
  readonly isOfStreams: boolean
}

export interface TargetState {
  readonly state: TargetStateName
  /** Present if it rests or is to be probed. */
  readonly rest: Rest | undefined
  /** Since when its calls fail, until when they failed, and how the last one did. Absent if it answered since. */
  readonly failing: Failing | undefined
  /** When it last answered, in Unix milliseconds; 0: never. */
  readonly answeredMs: number
  /** It cannot answer: one failure is none, and a limit for some seconds neither. */
  readonly isDown: boolean
}

interface Known {
  readonly target: TargetRef
  answeredMs: number
  failedMs: number
  sinceMs: number
  failure: Failure
  /** The newest failures over all workers, at most as many as make a target rest. */
  failures: readonly { readonly worker: number; readonly ms: number }[]
  /** The first and the last of as many failures in a row, when there were; absent if it answered since the first. */
  outage: { readonly fromMs: number; readonly toMs: number } | undefined
  readonly streams: StreamOutage
}

export class TargetStates {
  private readonly known = new Map<string, Known>()

  constructor(
    private readonly health: Pick<Breaker, 'restOf'>,
    private readonly nowMs: () => number = Date.now,
    /** How late a worker may report an answer: only after that it is known that failures were in a row. */
    private readonly lateMs: () => number = () => 0,
  ) {}

  /** Takes what a worker reports. `worker` is another one for each process. */
  hear(times: TargetTimes, worker: number): void {
    const known = this.of(times)
    const { answeredMs, failedMs, failingSinceMs, failuresMs = [failedMs] } = times
    if (times.streams !== undefined) known.streams.hear(times.streams, worker)
    known.failures = [
      ...known.failures.filter((one) => one.worker !== worker),
      ...failuresMs.map((ms) => ({ worker, ms })),
    ]
      .sort((one, other) => other.ms - one.ms)
      .slice(0, FAILURES_IN_A_ROW)
    known.answeredMs = Math.max(known.answeredMs, answeredMs)
    known.outage = outageOf(known)
    if (failedMs > known.failedMs) {
      known.failedMs = failedMs
      known.failure = times.failure
    }
    // The first failure after the last answer, as far as it is known.
    const begins = [known.sinceMs, failingSinceMs].filter((ms) => ms > known.answeredMs)
    known.sinceMs = begins.length === 0 ? known.failedMs : Math.min(...begins)
  }

  /** Takes a rest, which comes before the times. */
  hearRest(rest: Rest): void {
    const known = this.of(rest)
    if (rest.rests === 0) {
      known.answeredMs = Math.max(this.nowMs(), known.failedMs + 1)
    } else if (rest.restMs > 0 && !rest.probing && rest.failures !== 0) {
      const wasFailing = isFailing(known)
      known.failedMs = Math.max(this.nowMs(), known.answeredMs + 1)
      if (!wasFailing) known.sinceMs = known.failedMs
      known.failure = { reason: rest.reason, status: rest.status, cause: rest.cause }
    }
  }

  stateOf(target: TargetRef): TargetState {
    const rest = this.health.restOf(target)
    const known = this.known.get(targetKey(target))
    const isDown = this.isDown(known, rest)
    const failing = known === undefined ? undefined : this.failingOf(known, isDown)
    const state = nameOf(rest, known, failing)
    return { state, rest, failing, answeredMs: known?.answeredMs ?? 0, isDown: isDown || failing?.isOfStreams === true }
  }

  /** `isDown`: its calls fail in a row, so its streams are no case of their own. */
  private failingOf(known: Known, isDown: boolean): Failing | undefined {
    const streams = isDown ? undefined : known.streams.found(this.nowMs() - this.lateMs())
    if (streams !== undefined) return { ...streams, isOfStreams: true }
    if (!isFailing(known)) return undefined
    return { ...known.failure, sinceMs: known.sinceMs, lastMs: known.failedMs, isOfStreams: false }
  }

  /** The rests that failures in a row call for although no worker had enough of them: each sees only its own calls. */
  dueRests(): readonly Rest[] {
    return [...this.known.values()].flatMap((known): readonly Rest[] => {
      const { target, failure } = known
      if (this.health.restOf(target) !== undefined || !this.isOut(known)) return []
      const rest = { restMs: REST_MS_MIN, rests: 1, asked: false, failures: FAILURES_IN_A_ROW, probing: false }
      return [{ ...target, ...failure, ...rest }]
    })
  }

  /** Drops the targets that are not in a new configuration, and those whose provider's entry has changed. */
  keep(remains: (target: TargetRef) => boolean): void {
    for (const [key, { target }] of this.known) if (!remains(target)) this.known.delete(key)
  }

  /**
   * Three failures in a row over all workers; two with one after a rest; or what only the operator can repair. A
   * provider's limit for some seconds makes a target rest as well: it is down if it still answers so after the rest.
   */
  private isDown(known: Known | undefined, rest: Rest | undefined): boolean {
    if (rest?.reason === 'credential' || rest?.reason === 'credit_exhausted') return true
    if (known === undefined) return false
    if (rest !== undefined && rest.rests > 1 && failuresOf(known).length > 1) return true
    return known.failure.reason !== 'rate_limited' && this.isOut(known)
  }

  private isOut({ outage, answeredMs }: Known): boolean {
    const lateMs = this.lateMs()
    return outage !== undefined && outage.fromMs > answeredMs && (lateMs === 0 || outage.toMs <= this.nowMs() - lateMs)
  }

  private of({ provider, model }: TargetRef): Known {
    const target = { provider, model }
    return this.known.getOrInsertComputed(targetKey(target), () => ({
      ...{ target, answeredMs: 0, failedMs: 0, sinceMs: 0, failure: { reason: 'failed' } },
      ...{ failures: [], outage: undefined, streams: new StreamOutage() },
    }))
  }
}

/** It has answered since it last failed. It may rest all the same, if a limit of its provider is used up. */
export function hasAnswered({ answeredMs, failing }: TargetState): boolean {
  return answeredMs > 0 && failing === undefined
}

/** Those since the last answer that any worker got, the newest first. */
function failuresOf({ failures, answeredMs }: Known): Known['failures'] {
  return failures.filter(({ ms }) => ms > answeredMs)
}

function outageOf(known: Known): Known['outage'] {
  if (known.outage !== undefined && known.outage.fromMs > known.answeredMs) return known.outage
  const [last, , first] = failuresOf(known)
  return last === undefined || first === undefined ? undefined : { fromMs: first.ms, toMs: last.ms }
}

function isFailing({ answeredMs, failedMs }: Known): boolean {
  return failedMs > answeredMs
}

function nameOf(rest: Rest | undefined, known: Known | undefined, failing: Failing | undefined): TargetStateName {
  if (rest !== undefined) return rest.probing || rest.restMs === 0 ? 'probing' : 'resting'
  if (failing !== undefined) return 'failing'
  return known === undefined || known.answeredMs === 0 ? 'unknown' : 'healthy'
}

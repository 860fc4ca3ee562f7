/**
 * The state of each target as the operator sees it: what happened to it last, over all workers of the machine. It is
 * made of the times that the workers report, and of the rests that they agree on.
 */

import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { Breaker, Failure, Rest, TargetTimes } from './breaker.ts'

/**
 * - `unknown`: never called since the start, or since its provider's entry changed
 * - `healthy`: answered since it last failed
 * - `failing`: its last calls failed, and it does not rest yet
 * - `resting`: it is skipped
 * - `probing`: its rest is over, and it gets one request at a time until one succeeds
 */
export const TARGET_STATES = ['unknown', 'healthy', 'failing', 'resting', 'probing'] as const
type TargetStateName = (typeof TARGET_STATES)[number]

export interface TargetState {
  readonly state: TargetStateName
  /** Present if it rests or is to be probed. */
  readonly rest: Rest | undefined
  /** Since when its calls fail, until when they failed, and how the last one did. Absent if it answered since. */
  readonly failing: (Failure & { readonly sinceMs: number; readonly lastMs: number }) | undefined
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
}

/** As many failures in a row make a target rest. */
const FAILURES_MIN = 3

export class TargetStates {
  private readonly known = new Map<string, Known>()

  constructor(
    private readonly health: Pick<Breaker, 'restOf'>,
    private readonly nowMs: () => number = Date.now,
  ) {}

  /** Takes what a worker reports. */
  hear(times: TargetTimes): void {
    const known = this.of(times)
    const { answeredMs, failedMs, failingSinceMs } = times
    known.answeredMs = Math.max(known.answeredMs, answeredMs)
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
    const failing =
      known === undefined || !isFailing(known)
        ? undefined
        : { ...known.failure, sinceMs: known.sinceMs, lastMs: known.failedMs }
    const answeredMs = known?.answeredMs ?? 0
    return { state: nameOf(rest, known), rest, failing, answeredMs, isDown: rest !== undefined && isDown(rest) }
  }

  /** Drops the targets that are not in a new configuration, and those whose provider's entry has changed. */
  keep(remains: (target: TargetRef) => boolean): void {
    for (const [key, { target }] of this.known) if (!remains(target)) this.known.delete(key)
  }

  private of({ provider, model }: TargetRef): Known {
    const target = { provider, model }
    const found = this.known.get(targetKey(target))
    if (found !== undefined) return found
    const made: Known = { target, answeredMs: 0, failedMs: 0, sinceMs: 0, failure: { reason: 'failed' } }
    this.known.set(targetKey(target), made)
    return made
  }
}

/** It has answered since it last failed. It may rest all the same, if a limit of its provider is used up. */
export function hasAnswered({ answeredMs, failing }: TargetState): boolean {
  return answeredMs > 0 && failing === undefined
}

function isFailing({ answeredMs, failedMs }: Known): boolean {
  return failedMs > answeredMs
}

function nameOf(rest: Rest | undefined, known: Known | undefined): TargetStateName {
  if (rest !== undefined) return rest.probing || rest.restMs === 0 ? 'probing' : 'resting'
  if (known === undefined || (known.answeredMs === 0 && known.failedMs === 0)) return 'unknown'
  return isFailing(known) ? 'failing' : 'healthy'
}

/**
 * Three failures in a row, one after a rest, or what only the operator can repair. A provider's limit for some seconds
 * makes a target rest as well: it is down if it still answers so after the rest.
 */
function isDown({ rests, failures = rests > 1 ? FAILURES_MIN : 0, reason }: Rest): boolean {
  if (reason === 'credential' || reason === 'credit_exhausted') return true
  if (rests > 1 && failures > 1) return true
  return reason !== 'rate_limited' && failures >= FAILURES_MIN
}

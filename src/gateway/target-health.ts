/** What a worker knows of the health of one target, by the calls of its own and by what other workers report. */

import type { TargetRef } from '../core/model-config.ts'
import { StreamRecord } from './stream-cuts.ts'
import type { Failure } from './target-failure.ts'

/** By how many of the newest calls a target is judged. */
export const RECENT_MAX = 20
/** From so many streams on that broke off in a row, the first content of the next one is no sign of health. */
const CUTS_IN_A_ROW = 2

export class TargetHealth {
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

/**
 * Whether a target breaks off all its streams while its whole answers work. Those keep it from resting, so that its
 * streams alone would never be reported. Workers note what happened, the supervisor joins it.
 */

import type { Failure } from './target-failure.ts'

/** So many streams in a row, over all workers, and a whole answer since the first of them. */
const CUTS_MIN = 3

interface Cut {
  /** When its call began and when it broke off, in Unix milliseconds. */
  readonly beganMs: number
  readonly ms: number
}

/** What one worker knows, in Unix milliseconds; 0: never. */
export interface StreamTimes {
  /** When a stream last came whole. */
  readonly streamMs: number
  /** When an answer that was not streamed last came whole. */
  readonly answerMs: number
  /** The newest streams that broke off since one came whole, at most as many as are reported. */
  readonly cuts: readonly Cut[]
  /** How the last one broke off. */
  readonly failure: Failure
}

export class StreamRecord {
  private streamMs = 0
  private answerMs = 0
  private cuts: readonly Cut[] = []
  private failure: Failure = { reason: 'cut' }

  cameWhole(streamed: boolean, ms: number): void {
    if (!streamed) this.answerMs = ms
    else {
      this.streamMs = ms
      this.cuts = []
    }
  }

  brokeOff(cut: Cut, failure: Failure): void {
    this.cuts = [...this.cuts.slice(1 - CUTS_MIN), cut]
    this.failure = failure
  }

  times(): StreamTimes {
    const { streamMs, answerMs, cuts, failure } = this
    return { streamMs, answerMs, cuts, failure }
  }
}

/** The streams of one target over all workers. */
export class StreamOutage {
  private readonly workers = new Map<number, StreamTimes>()
  private streamMs = 0
  private answerMs = 0
  private last: Cut = { beganMs: 0, ms: 0 }
  private failure: Failure = { reason: 'cut' }
  /** The first and the last of the cuts in a row when there were enough of them. */
  private row = { fromMs: 0, toMs: 0 }

  /** `worker` is another one for each process. */
  hear(times: StreamTimes, worker: number): void {
    this.streamMs = Math.max(this.streamMs, times.streamMs)
    this.answerMs = Math.max(this.answerMs, times.answerMs)
    this.workers.set(worker, times)
    for (const [known, { cuts }] of this.workers) {
      // Workers are replaced: one without a cut that counts has nothing to say any more.
      if (!cuts.some(({ ms }) => ms > this.streamMs)) this.workers.delete(known)
    }
    const newest = times.cuts.at(-1)
    if (newest !== undefined && newest.ms > this.last.ms) {
      this.last = newest
      this.failure = times.failure
    }
    if (this.row.fromMs <= this.streamMs) this.row = this.findRow()
  }

  /** `untilMs`: the cuts must have been in a row by then, because a worker reports a whole stream a little later. */
  found(untilMs: number): (Failure & { readonly sinceMs: number; readonly lastMs: number }) | undefined {
    const { fromMs, toMs } = this.row
    if (fromMs <= this.streamMs || toMs > untilMs || this.answerMs <= fromMs) return undefined
    return { ...this.failure, sinceMs: fromMs, lastMs: this.last.ms }
  }

  /** Streams that a restart of the provider breaks off together are one: the next one must have begun after it. */
  private findRow(): { readonly fromMs: number; readonly toMs: number } {
    const cuts = [...this.workers.values()].flatMap((times) => times.cuts).filter(({ ms }) => ms > this.streamMs)
    const row: Cut[] = []
    for (const cut of cuts.sort((one, other) => one.ms - other.ms)) {
      const before = row.at(-1)
      if (before === undefined || cut.beganMs >= before.ms) row.push(cut)
    }
    const [first] = row
    const last = row[CUTS_MIN - 1]
    return first === undefined || last === undefined ? { fromMs: 0, toMs: 0 } : { fromMs: first.ms, toMs: last.ms }
  }
}

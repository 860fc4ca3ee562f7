/** What each target did in the last 15 minutes: the sums since the start, minus those of a reading 15 minutes ago. */

import { MINUTE_MS } from '../core/durations.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { MergedFigures } from '../metrics/merged-figures.ts'
import type { TargetFigures } from './target-rows.ts'

type Counted = ReturnType<MergedFigures['targets']>[number]

interface TargetsReading {
  readonly atMs: number
  readonly targets: ReadonlyMap<string, Counted>
}

const SPAN_MS = 15 * MINUTE_MS

/** Results of attempts by which a target is not judged: the attempt was interrupted, or the request was wrong. */
const NOT_JUDGED: readonly string[] = ['caller_left', 'drained', 'rejected', 'too_large']

export class TargetHistory {
  private readings: TargetsReading[] = []

  constructor(
    private readonly read: () => readonly Counted[],
    private readonly clock: () => number = Date.now,
  ) {
    this.step()
  }

  /** To be called every minute: keeps a reading, and the last one that is at least 15 minutes old. */
  step(): void {
    const reading = this.reading()
    const first = this.readings.findLastIndex(({ atMs }) => atMs <= reading.atMs - SPAN_MS)
    this.readings = [...this.readings.slice(Math.max(0, first)), reading]
  }

  /** Returns the figures of a target; undefined if it was never called. */
  figures(): (target: TargetRef) => TargetFigures | undefined {
    const now = this.reading()
    const before = this.readings.findLast(({ atMs }) => atMs <= now.atMs - SPAN_MS) ?? this.readings[0]
    return (target) => {
      const counted = now.targets.get(targetKey(target))
      return counted === undefined ? undefined : between(before?.targets.get(targetKey(target)), counted)
    }
  }

  private reading(): TargetsReading {
    const targets = this.read().map((counted) => [targetKey(counted), counted] as const)
    return { atMs: this.clock(), targets: new Map(targets) }
  }
}

function between(before: Counted | undefined, now: Counted): TargetFigures {
  let [attempts, answered, notJudged] = [0, 0, 0]
  for (const [result, count] of now.attempts) {
    const added = count - (before?.attempts.get(result) ?? 0)
    attempts += added
    if (result === 'answered') answered += added
    if (NOT_JUDGED.includes(result)) notJudged += added
  }
  const firstByte = before === undefined ? now.firstByte : now.firstByte.minus(before.firstByte)
  return {
    ...{ attempts, judged: attempts - notJudged, answered, lastError: now.lastError },
    firstByteP50: firstByte.quantileSeconds(0.5),
    firstByteP95: firstByte.quantileSeconds(0.95),
  }
}

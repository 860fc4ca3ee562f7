/** The rows of `GET /api/targets`: each target of the configuration with its health, and what it did in 15 minutes. */

import type { Config } from '../config/config.ts'
import { MINUTE_MS } from '../core/durations.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { TargetState } from '../gateway/target-states.ts'
import type { TargetError } from '../metrics/figures-post.ts'
import type { MergedFigures } from '../metrics/merged-figures.ts'
import type { LearnedForm } from '../providers/form-store.ts'
import type { TargetRow } from './api-shapes.ts'
import { milliseconds } from './figures-history.ts'

/** What was counted of one target in the last 15 minutes. */
interface TargetFigures {
  readonly attempts: number
  /** Attempts that show whether the target works. */
  readonly judged: number
  /** Attempts that were answered. */
  readonly answered: number
  /** Seconds. */
  readonly firstByteP50: number | undefined
  readonly firstByteP95: number | undefined
  readonly lastError: TargetError | undefined
}

interface TargetKnowledge {
  readonly config: Config
  readonly stateOf: (target: TargetRef) => TargetState
  readonly figuresOf: (target: TargetRef) => TargetFigures | undefined
  readonly formsOf: (target: TargetRef) => readonly LearnedForm[]
  /** What is left of limits of providers and targets, from 0 to 1, by their names. */
  readonly left: Readonly<Record<string, number>>
}

interface ConfiguredTarget {
  readonly ref: TargetRef
  readonly serves: string[]
  /** In the first model that spreads conversations by weight. */
  weight: number | undefined
}

/** In the order of the configuration; each target once, also if several models share it. */
export function targetRows({ config, stateOf, figuresOf, formsOf, left }: TargetKnowledge): TargetRow[] {
  const targets = configuredTargets(config)
  const figures = targets.map(({ ref }) => figuresOf(ref))
  const allAnswered = figures.reduce((sum, each) => sum + (each?.answered ?? 0), 0)
  return targets.map(({ ref, serves, weight }, index) => {
    const { attempts = 0, judged = 0, answered = 0, firstByteP50, firstByteP95, lastError } = figures[index] ?? {}
    return {
      provider: ref.provider,
      model: ref.model,
      serves,
      ...shownState(stateOf(ref)),
      attempts,
      success_share: judged === 0 ? null : answered / judged,
      first_byte_p50_ms: milliseconds(firstByteP50),
      first_byte_p95_ms: milliseconds(firstByteP95),
      traffic_share: allAnswered === 0 ? null : answered / allAnswered,
      weight: weight ?? null,
      room: roomOf(ref, left),
      learned: formsOf(ref).map(formJson),
      last_error: lastError === undefined ? null : errorJson(lastError),
    }
  })
}

function errorJson({ atMs, error, status, cause }: TargetError): TargetRow['last_error'] {
  return { at: new Date(atMs).toISOString(), error, status: status ?? null, cause: cause ?? null }
}

/** What is left of the limits of a target and of its provider, the scarcest first. */
function roomOf(target: TargetRef, left: TargetKnowledge['left']): TargetRow['room'] {
  const scopes = [
    { of: 'target', prefix: `${targetKey(target)}/` },
    { of: 'provider', prefix: `${target.provider}/` },
  ] as const
  const found = Object.entries(left).flatMap(([name, part]) =>
    scopes.flatMap(({ of, prefix }) => {
      const limit = name.slice(prefix.length)
      return name.startsWith(prefix) && !limit.includes('/') ? [{ limit, of, left: part }] : []
    }),
  )
  return found.sort((one, other) => one.left - other.left)
}

/** As the admin API shows what was learned. */
export function formJson({ field, model, learnedMs, untilMs, seen }: LearnedForm): TargetRow['learned'][number] {
  const until = untilMs === null ? null : new Date(untilMs).toISOString()
  return { field, model, since: new Date(learnedMs).toISOString(), until, seen }
}

function configuredTargets({ models }: Config): readonly ConfiguredTarget[] {
  const found = new Map<string, ConfiguredTarget>()
  for (const { name, targets, weights } of models) {
    for (const [index, ref] of targets.entries()) {
      const target = found.get(targetKey(ref)) ?? { ref, serves: [], weight: undefined }
      found.set(targetKey(ref), target)
      if (!target.serves.includes(name)) target.serves.push(name)
      target.weight ??= weights?.[index]
    }
  }
  return [...found.values()]
}

function shownState({ state, rest, failing }: TargetState) {
  const isResting = state === 'resting' && rest !== undefined
  return {
    state,
    reason: rest?.reason ?? failing?.reason ?? null,
    since: failing === undefined ? null : new Date(failing.sinceMs).toISOString(),
    rest_seconds: isResting ? Math.ceil(rest.restMs / 100) / 10 : null,
  }
}

type Counted = ReturnType<MergedFigures['targets']>[number]

interface TargetsReading {
  readonly atMs: number
  readonly targets: ReadonlyMap<string, Counted>
}

const SPAN_MS = 15 * MINUTE_MS

/** Results of attempts by which a target is not judged: the attempt was interrupted, or the request was wrong. */
const NOT_JUDGED: readonly string[] = ['caller_left', 'drained', 'rejected', 'too_large']

/** The sums since the start, minus those of a reading 15 minutes ago. */
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

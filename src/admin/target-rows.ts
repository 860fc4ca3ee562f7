/** The rows of `GET /api/targets`: each target of the configuration with its health and its figures. */

import type { Config } from '../config/config.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { TargetState } from '../gateway/target-states.ts'
import type { TargetError } from '../metrics/figures-post.ts'
import type { LearnedForm } from '../providers/form-store.ts'
import type { TargetRow } from './api-shapes.ts'
import { milliseconds } from './figures-history.ts'

/** What was counted of one target in the last 15 minutes. */
export interface TargetFigures {
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

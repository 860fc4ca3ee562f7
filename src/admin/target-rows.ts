/** The rows of `GET /api/targets`: each target of the configuration with its health and its figures. */

import type { Config } from '../config/config.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import type { Rest } from '../gateway/breaker.ts'
import type { TargetRow } from './api-shapes.ts'

/** What was counted of one target in the last 15 minutes. */
interface TargetFigures {
  readonly attempts: number
  /** Attempts that were answered. */
  readonly answered: number
  readonly firstByteP50Ms: number | undefined
  readonly firstByteP95Ms: number | undefined
}

/** The last failure of a target. */
interface TargetFailure {
  readonly atMs: number
  readonly error: string
  readonly status: number | undefined
}

interface TargetKnowledge {
  readonly config: Config
  readonly restOf: (target: TargetRef) => Rest | undefined
  readonly figuresOf: (target: TargetRef) => TargetFigures | undefined
  readonly failureOf: (target: TargetRef) => TargetFailure | undefined
}

interface ConfiguredTarget {
  readonly ref: TargetRef
  readonly serves: string[]
}

/** In the order of the configuration; each target once, also if several models share it. */
export function targetRows({ config, restOf, figuresOf, failureOf }: TargetKnowledge): readonly TargetRow[] {
  const targets = configuredTargets(config)
  const figures = targets.map(({ ref }) => figuresOf(ref))
  const allAnswered = figures.reduce((sum, each) => sum + (each?.answered ?? 0), 0)
  return targets.map(({ ref, serves }, index) => {
    const { attempts = 0, answered = 0, firstByteP50Ms, firstByteP95Ms } = figures[index] ?? {}
    const failure = failureOf(ref)
    return {
      provider: ref.provider,
      model: ref.model,
      serves,
      ...stateOf(restOf(ref)),
      attempts,
      success_share: attempts === 0 ? null : answered / attempts,
      first_byte_p50_ms: firstByteP50Ms ?? null,
      first_byte_p95_ms: firstByteP95Ms ?? null,
      traffic_share: allAnswered === 0 ? null : answered / allAnswered,
      weight: null,
      last_error:
        failure === undefined
          ? null
          : { at: new Date(failure.atMs).toISOString(), error: failure.error, status: failure.status ?? null },
    }
  })
}

function configuredTargets({ models }: Config): readonly ConfiguredTarget[] {
  const found = new Map<string, ConfiguredTarget>()
  for (const { name, targets } of models) {
    for (const ref of targets) {
      const known = found.get(targetKey(ref))
      if (known === undefined) found.set(targetKey(ref), { ref, serves: [name] })
      else if (!known.serves.includes(name)) known.serves.push(name)
    }
  }
  return [...found.values()]
}

/** A target whose rest is over and that was not called since is probed by its next request. */
function stateOf(rest: Rest | undefined): Pick<TargetRow, 'state' | 'reason' | 'rest_seconds'> {
  if (rest === undefined) return { state: 'healthy', reason: null, rest_seconds: null }
  const isProbing = rest.probing || rest.restMs === 0
  return {
    state: isProbing ? 'probing' : 'resting',
    reason: rest.reason,
    rest_seconds: isProbing ? null : Math.ceil(rest.restMs / 100) / 10,
  }
}

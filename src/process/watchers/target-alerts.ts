/** Which states of targets and models are worth an alert, and which of those that were reported have not ended. */

import { downModels } from '../../admin/down-models.ts'
import type { Occurrence } from '../../alerts/alert.ts'
import { targetsOf } from '../../assembly/targets.ts'
import type { Config } from '../../config/config.ts'
import { MINUTE_MS } from '../../core/durations.ts'
import { type JsonObject, stringOf } from '../../core/json.ts'
import { type TargetRef, targetKey } from '../../core/model-config.ts'
import { hasAnswered, type TargetState } from '../../gateway/target-states.ts'

/** The calls of a target fail for so long. Time in which nothing calls it does not count. */
const OPEN_MS = MINUTE_MS

interface Found {
  readonly type: Occurrence['type']
  readonly found: readonly Occurrence[]
  /** Whether an alert that is not found has not ended: nothing has answered since, as after a restart. */
  readonly isOpen: (fields: JsonObject) => boolean
}

export function targetAlerts(
  config: Config,
  stateOf: (target: TargetRef) => TargetState,
  nowMs: number,
): readonly Found[] {
  const targets = targetsOf(config).map((ref) => ({ ref, ...stateOf(ref) }))
  const known = new Map(targets.map((target) => [targetKey(target.ref), target]))
  const targetOf = ({ provider, model }: JsonObject) =>
    known.get(targetKey({ provider: stringOf(provider) ?? '', model: stringOf(model) ?? '' }))
  const isTargetOpen = (fields: JsonObject) => {
    const target = targetOf(fields)
    return target !== undefined && !hasAnswered(target)
  }
  return [
    { type: 'provider.credential_rejected', found: rejected(targets), isOpen: isTargetOpen },
    {
      type: 'provider.credit_exhausted',
      found: exhausted(targets),
      isOpen: (fields) => {
        const target = targetOf(fields)
        return target !== undefined && !hasAnswered(target) && !hasProviderAnswered(target, targets)
      },
    },
    { type: 'target.open', found: open(targets), isOpen: isTargetOpen },
    {
      type: 'model.down',
      found: downModels(config, stateOf, nowMs).map(({ model, reason, sinceMs }) => ({
        type: 'model.down',
        fields: { model, reason, since: timeText(sinceMs) },
      })),
      isOpen: ({ model }) => {
        const found = config.models.find(({ name }) => name === model)
        return found?.targets.every((target) => !hasAnswered(stateOf(target))) === true
      },
    },
  ]
}

interface Target extends TargetState {
  readonly ref: TargetRef
}

function rejected(targets: readonly Target[]): readonly Occurrence[] {
  return targets.flatMap(({ ref, failing }) =>
    failing?.reason === 'credential' ? [{ type: 'provider.credential_rejected', fields: { ...ref } }] : [],
  )
}

/** One for each provider, until any of its targets answers. */
function exhausted(targets: readonly Target[]): readonly Occurrence[] {
  const found = new Map<string, Occurrence>()
  for (const target of targets) {
    const { ref, failing } = target
    if (failing?.reason !== 'credit_exhausted' || found.has(ref.provider)) continue
    if (hasProviderAnswered(target, targets)) continue
    found.set(ref.provider, { type: 'provider.credit_exhausted', fields: { ...ref } })
  }
  return [...found.values()]
}

/** Whether a target of its provider has answered since it last failed. */
function hasProviderAnswered({ ref, failing }: Target, targets: readonly Target[]): boolean {
  const failedMs = failing?.lastMs ?? 0
  return targets.some((other) => other.ref.provider === ref.provider && other.answeredMs > failedMs)
}

function open(targets: readonly Target[]): readonly Occurrence[] {
  return targets.flatMap(({ ref, rest, failing }) => {
    if (failing === undefined || (rest === undefined && !failing.isOfStreams)) return []
    if (failing.lastMs - failing.sinceMs < OPEN_MS) return []
    const { reason, cause, sinceMs } = failing
    const why = cause === undefined ? { reason } : { reason, cause }
    return [{ type: 'target.open', fields: { ...ref, ...why, since: timeText(sinceMs) } }]
  })
}

function timeText(ms: number): string {
  return new Date(ms).toISOString()
}

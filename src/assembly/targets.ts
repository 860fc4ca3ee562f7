/** The targets of a configuration, and which of them are the same in the next: what is known of their health holds on for these alone. */

import type { Config } from '../config/config.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'

/**
 * True for a target that `next` has, too, at a provider that is configured as before: a new key or address may be what mends it, so
 * what the old one did is forgotten.
 */
export function remaining(current: Config, next: Config): (target: TargetRef) => boolean {
  const unchanged = new Set(
    next.providers
      .filter((provider) =>
        Bun.deepEquals(
          provider,
          current.providers.find(({ name }) => name === provider.name),
        ),
      )
      .map(({ name }) => name),
  )
  const targets = byKey(next)
  return (target) => unchanged.has(target.provider) && targets.has(targetKey(target))
}

/** Each target once, in the order of the file, whichever models share it. */
export function targetsOf(config: Config): readonly TargetRef[] {
  return [...byKey(config).values()]
}

function byKey(config: Config): ReadonlyMap<string, TargetRef> {
  return new Map(config.models.flatMap(({ targets }) => targets.map((target) => [targetKey(target), target] as const)))
}

/**
 * The targets of a configuration, and which of them a reload leaves unchanged: only for these does the known health
 * stay valid.
 */

import type { Config } from '../config/config.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'

/**
 * Returns a test for targets that `next` has, too, at a provider whose entry is unchanged. A new key or address may
 * have repaired the provider, so its earlier failures no longer count.
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

/** Each target once, in the order of the file, also if several models share it. */
export function targetsOf(config: Config): readonly TargetRef[] {
  return [...byKey(config).values()]
}

function byKey(config: Config): ReadonlyMap<string, TargetRef> {
  return new Map(config.models.flatMap(({ targets }) => targets.map((target) => [targetKey(target), target] as const)))
}

/** Which targets of one configuration are the same in the next: what is known of their health holds on for these alone. */

import type { TargetRef } from '../catalog/catalog.ts'
import type { Config } from '../config/config.ts'

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
  const targets = new Set(
    next.models.flatMap((model) => model.targets.map((target) => `${target.provider}/${target.model}`)),
  )
  return ({ provider, model }) => unchanged.has(provider) && targets.has(`${provider}/${model}`)
}

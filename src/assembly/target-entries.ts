/**
 * Which entry of the configuration a target has, as a short text that changes with the entry: what was learned of a
 * target holds for the entry that it was learned with.
 */

import { createHash } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { prefixOf, type TargetRef } from '../core/model-config.ts'
import type { LearningTarget } from '../providers/form-store.ts'

/** 96 bits: the entry has a credential, which must not be found by trying. */
const CHARS = 16

export class TargetEntries {
  private readonly providers = new Map<string, readonly Entry[]>()

  constructor({ providers, models }: Pick<Config, 'providers' | 'models'>) {
    const targets = models.flatMap((model) => model.targets)
    for (const provider of providers) {
      const refs = targets.filter((target) => target.provider === provider.name)
      const names = [...new Set(refs.map(({ model }) => model))]
      const entries = names.map((model): Entry => {
        const own = refs.filter((target) => target.model === model).map((target) => JSON.stringify(target))
        const text = JSON.stringify([provider, [...new Set(own)].sort()])
        const digest = createHash('sha256').update(`target entry ${text}`).digest('base64url').slice(0, CHARS)
        return { model, prefix: prefixOf(model), digest }
      })
      // Of two patterns the longer one comes first.
      this.providers.set(
        provider.name,
        entries.sort((one, other) => other.model.length - one.model.length),
      )
    }
  }

  /** The entry of a model, as the provider is asked for it; '' if no target has it. */
  of(provider: string, model: string): string {
    const entries = this.providers.get(provider) ?? []
    const exact = entries.find((entry) => entry.model === model)
    const found = exact ?? entries.find(({ prefix }) => prefix !== undefined && model.startsWith(prefix))
    return found?.digest ?? ''
  }

  /** Whether the target is in the configuration as it was when something was learned of it. */
  has({ provider, model, entry }: LearningTarget): boolean {
    return entry !== '' && this.of(provider, model) === entry
  }

  /** Whether something that was learned is about a target of the configuration. */
  isAbout(target: TargetRef, learned: LearningTarget): boolean {
    if (learned.provider !== target.provider || !this.has(learned)) return false
    const prefix = target.concrete === undefined ? prefixOf(target.model) : undefined
    return (
      learned.model === (target.concrete ?? target.model) || (prefix !== undefined && learned.model.startsWith(prefix))
    )
  }
}

interface Entry {
  readonly model: string
  readonly prefix: string | undefined
  readonly digest: string
}

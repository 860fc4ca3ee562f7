/**
 * What the complete answers of a target have shown of how it reports usage. Each worker measures for itself, of the
 * targets that it was configured with; only what is warned of once is known to all of them.
 */

import { HOUR_MS } from '../core/durations.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'

/** A newer answer counts more: each one leaves this much of those before. */
const KEPT_SHARE = 0.9

class Reports {
  /** Hidden tokens, and the time before the first content in which they were written: sums with fading weights. */
  hiddenTokens = 0
  hiddenMs = 0

  constructor(readonly target: TargetRef) {}
}

export class TargetUsage {
  private readonly reports = new Map<string, Reports>()
  /** When an answer of a model last named a tier without a price, by the model's public name. */
  private readonly unknownTiers = new Map<string, number>()

  /** `publish` reports to the other workers that this one warns of a tier without a price, by the model's name. */
  constructor(private readonly publish: (model: string) => void = () => {}) {}

  /** Whether this is the first answer of a model within an hour that names a tier without a price. */
  isNewTier(model: string, nowMs = performance.now()): boolean {
    const lastMs = this.unknownTiers.get(model)
    if (lastMs !== undefined && nowMs - lastMs < HOUR_MS) return false
    this.unknownTiers.set(model, nowMs)
    this.publish(model)
    return true
  }

  /** Another worker has warned of a tier of this model. */
  receiveTier(model: string, nowMs = performance.now()): void {
    this.unknownTiers.set(model, nowMs)
  }

  /** A stream reported so many tokens of thoughts that it did not send; its first content came after `ms`. */
  thoughtHidden(target: TargetRef, tokens: number, ms: number): void {
    const known = this.reports.get(targetKey(target))
    // A target that never hides any needs no measure.
    if (tokens === 0 && (known === undefined || known.hiddenTokens === 0)) return
    const reports = this.of(target)
    reports.hiddenTokens = KEPT_SHARE * reports.hiddenTokens + tokens
    reports.hiddenMs = KEPT_SHARE * reports.hiddenMs + Math.max(1, ms)
  }

  /** What the target has written in that time without sending it, by its measured rate. */
  hiddenIn(target: TargetRef, ms: number): number {
    const reports = this.reports.get(targetKey(target))
    return reports === undefined || reports.hiddenTokens === 0
      ? 0
      : Math.round((reports.hiddenTokens / reports.hiddenMs) * ms)
  }

  /** Forgets the targets that are no longer configured. */
  keep(remains: (target: TargetRef) => boolean): void {
    for (const [key, { target }] of this.reports) if (!remains(target)) this.reports.delete(key)
  }

  private of(target: TargetRef): Reports {
    return this.reports.getOrInsertComputed(targetKey(target), () => new Reports(target))
  }
}

/**
 * One limit of a provider or target: what it counts, how much of it there is, and what a request takes of it. A rate is
 * a bucket of a sixth of a minute's limit that refills evenly, so that any 60 s have at most 7/6 of the limit.
 */

import type { CapacityConfig, CapacityLimits } from '../core/capacity-limits.ts'
import type { TargetRef } from '../core/model-config.ts'

/** A bucket holds this part of a minute's limit. */
const BUCKET_SHARE = 6
const MINUTE_MS = 60_000

type MeterKind = 'rate' | 'concurrency' | 'day' | 'month' | 'total'
export type CapacityUnit = 'requests' | 'tokens' | 'concurrent_requests' | 'micro_usd'

/** Plain data: it is sent between processes. */
export interface Meter {
  /** `openai/requests`, `openai/gpt-5/tokens`, `openai/spend.month`: the same on all nodes. */
  readonly name: string
  readonly kind: MeterKind
  readonly unit: CapacityUnit
  readonly limit: number
}

/** What one request takes. */
export interface Demand {
  readonly tokens: number
  readonly microUsd: number
}

/** The meters of a provider, or of a target if `model` is given. */
export function metersOf(limits: CapacityLimits, provider: string, model?: string): readonly Meter[] {
  const scope = model === undefined ? provider : `${provider}/${model}`
  const { requestsPerMinute, tokensPerMinute, concurrentRequests, spend = {} } = limits
  const rows: readonly (readonly [string, MeterKind, CapacityUnit, number | undefined])[] = [
    ['requests', 'rate', 'requests', requestsPerMinute],
    ['tokens', 'rate', 'tokens', tokensPerMinute],
    ['concurrent_requests', 'concurrency', 'concurrent_requests', concurrentRequests],
    ['spend.day', 'day', 'micro_usd', spend.day],
    ['spend.month', 'month', 'micro_usd', spend.month],
    ['spend.total', 'total', 'micro_usd', spend.total],
  ]
  return rows.flatMap(([name, kind, unit, limit]) =>
    limit === undefined ? [] : [{ name: `${scope}/${name}`, kind, unit, limit }],
  )
}

/** Those of the target, then those of its provider. */
export function metersOfTarget(target: TargetRef, config: CapacityConfig | undefined): readonly Meter[] {
  const { provider, model } = target
  const own = config?.targets.find((one) => one.provider === provider && one.model === model)
  return [...metersOf(own?.limits ?? {}, provider, model), ...metersOf(config?.providers[provider] ?? {}, provider)]
}

export function amountOf(meter: Meter, { tokens, microUsd }: Demand): number {
  if (meter.unit === 'tokens') return tokens
  return meter.unit === 'micro_usd' ? microUsd : 1
}

/** The most that a bucket holds, and what comes to it in a millisecond. */
export function bucketOf({ limit }: Pick<Meter, 'limit'>): { readonly most: number; readonly perMs: number } {
  return { most: Math.max(1, limit / BUCKET_SHARE), perMs: limit / MINUTE_MS }
}

/** How much of a meter's limit one process may hold for requests to come, if `processes` of a node share 2 %. */
export function sliceOf(meter: Meter, processes: number): number {
  return Math.floor((meter.limit * (isMoney(meter) ? 0.001 : 0.02)) / processes)
}

export function isMoney({ unit }: Meter): boolean {
  return unit === 'micro_usd'
}

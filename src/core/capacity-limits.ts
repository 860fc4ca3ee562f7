/** What the operator lets weir ask of providers and targets, and how requests wait if that is used up. Plain data. */

import type { TargetRef } from './model-config.ts'

/** Limits of a provider or target over all organisations, workers and nodes; absent: none. Money in micro-dollars. */
export interface CapacityLimits {
  readonly requestsPerMinute?: number | undefined
  readonly tokensPerMinute?: number | undefined
  readonly concurrentRequests?: number | undefined
  readonly spend?: SpendCapacity | undefined
}

interface SpendCapacity {
  readonly day?: number | undefined
  readonly month?: number | undefined
  readonly total?: number | undefined
}

/** What a provider reports of one of its limits with an answer, or with a 429. */
export interface ReportedLimit {
  readonly unit: 'requests' | 'tokens'
  /** Of all who use the provider's account. */
  readonly remaining: number
  /** A minute's limit; undefined if it is not reported. */
  readonly limit: number | undefined
  /** When all of it is there again. */
  readonly resetMs: number | undefined
}

export interface CapacityConfig {
  /** By the name of the provider. */
  readonly providers: Readonly<Record<string, CapacityLimits>>
  readonly targets: readonly (TargetRef & { readonly limits: CapacityLimits })[]
  /** Absent: requests wait for the limits above alone. */
  readonly queue?: QueueConfig | undefined
}

/** Without `queue` in a configuration with limits. */
export const DEFAULT_QUEUE: QueueConfig = { maxWaitMs: 30_000, maxWaiting: 10_000 }

interface QueueConfig {
  /** 0: requests do not wait. */
  readonly maxWaitMs: number
  /** In one worker. */
  readonly maxWaiting: number
}

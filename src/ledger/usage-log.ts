/** What was used and what it cost, by day, organisation, key and model: what `weir usage` reads. */

import type { Admission, Charge } from './ledger.ts'
import { bucketOf, dayOf } from './window.ts'

/** Sums over requests that reached a provider. `inputTokens` includes the cached ones. */
export interface UsageFigures {
  readonly requests: number
  /** Those whose tokens are, in whole or in part, our own count. */
  readonly estimatedRequests: number
  readonly inputTokens: number
  readonly cachedInputTokens: number
  readonly outputTokens: number
  readonly images: number
  readonly costMicroUsd: number
}

/** Where a request is counted: under the UTC day on which it was admitted. */
export interface UsagePlace {
  /** Of `dayOf`. */
  readonly day: number
  readonly organization: string
  readonly key: string
  /** The public name of the model; '' where the gateway died before it could say. */
  readonly model: string
}

export type UsageRow = UsagePlace & UsageFigures

/** A name for a place within its organisation. */
export function placeName({ day, key, model }: UsagePlace): string {
  return `${day}\0${key}\0${model}`
}

export interface UsageQuery {
  /** Days of `dayOf`; the first that is in, and the first that is not. */
  readonly sinceDay: number
  readonly untilDay: number
  readonly organization?: string | undefined
  readonly key?: string | undefined
}

export interface UsageLog {
  /** One row a day, organisation, key and model, in no particular order. */
  read(query: UsageQuery): Promise<readonly UsageRow[]>
  close(): Promise<void>
}

export const noUsage: UsageFigures = {
  requests: 0,
  estimatedRequests: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  images: 0,
  costMicroUsd: 0,
}

/** Figures stop growing at the largest number that is exact, as in Redis. */
function sum(a: number, b: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, a + b)
}

/** The sum of two sets of figures. */
export function addUsage(a: UsageFigures, b: UsageFigures): UsageFigures {
  return {
    requests: sum(a.requests, b.requests),
    estimatedRequests: sum(a.estimatedRequests, b.estimatedRequests),
    inputTokens: sum(a.inputTokens, b.inputTokens),
    cachedInputTokens: sum(a.cachedInputTokens, b.cachedInputTokens),
    outputTokens: sum(a.outputTokens, b.outputTokens),
    images: sum(a.images, b.images),
    costMicroUsd: sum(a.costMicroUsd, b.costMicroUsd),
  }
}

/** The figures of one reservation taken back: the other half of a correction. */
export function minusUsage(a: UsageFigures): UsageFigures {
  return {
    requests: -a.requests,
    estimatedRequests: -a.estimatedRequests,
    inputTokens: -a.inputTokens,
    cachedInputTokens: -a.cachedInputTokens,
    outputTokens: -a.outputTokens,
    images: -a.images,
    costMicroUsd: -a.costMicroUsd,
  }
}

/** The figures of a settled request; undefined if no provider was called. */
export function usageOf(charge: Charge): UsageFigures | undefined {
  if (charge.model === '') return undefined
  return {
    requests: 1,
    estimatedRequests: charge.estimated ? 1 : 0,
    inputTokens: charge.inputTokens,
    cachedInputTokens: charge.cachedInputTokens,
    outputTokens: charge.outputTokens,
    images: charge.images,
    costMicroUsd: charge.costMicroUsd,
  }
}

/** Where and what a settled request counts; undefined if no provider was called. */
export function usageRowOf({
  account,
  admittedMs,
  charge,
}: Admission & { readonly charge: Charge }): UsageRow | undefined {
  const usage = usageOf(charge)
  if (usage === undefined) return undefined
  const { organization, key } = account
  return { day: dayOf(admittedMs), organization, key, model: charge.model, ...usage }
}

/** The figures of a reservation that nobody settled: its progress, with the input estimate at least. */
export function usageOfLost(inputTokens: number, outputTokens: number, costMicroUsd: number): UsageFigures {
  return { ...noUsage, requests: 1, estimatedRequests: 1, inputTokens, outputTokens, costMicroUsd }
}

/** Rows added up by `placeName`, those of days before another by month. */
export function foldUsageRows(rows: Iterable<UsageRow>, foldedBefore: number): ReadonlyMap<string, UsageRow> {
  const folded = new Map<string, UsageRow>()
  for (const row of rows) {
    const place = { ...row, day: bucketOf(row.day, foldedBefore) }
    const name = placeName(place)
    const known = folded.get(name)
    folded.set(name, known === undefined ? place : { ...known, ...addUsage(known, row) })
  }
  return folded
}

export type UsageBy = 'model' | 'key' | 'organization' | 'day'

/** Rows added up under the name of one of their columns, in the order of those names. Days are given as `dayOf` numbers. */
export function groupUsage(rows: readonly UsageRow[], by: UsageBy): ReadonlyMap<string | number, UsageFigures> {
  const groups = new Map<string | number, UsageFigures>()
  for (const row of rows) groups.set(row[by], addUsage(groups.get(row[by]) ?? noUsage, row))
  return new Map([...groups].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
}

/**
 * Which shares of spend limits an amount has reached, and which limits refuse requests: how each is reported once. It
 * reads no ledger.
 */

import { DAY_MS } from '../core/durations.ts'
import { thresholdOf } from '../core/limit-amounts.ts'
import type { Occurrence, ReportedOnce } from './alert.ts'

/** What an organisation or a key has spent of one limit. */
export interface LimitSpend {
  readonly organization: string
  /** Null for a limit of the organisation. */
  readonly key: string | null
  /** The budget of the organisation, and the value that its counter is for; null and absent for other limits. */
  readonly budget?: { readonly name: string; readonly value: string | null } | undefined
  readonly window: 'hour' | 'day' | 'week' | 'month' | 'total'
  readonly limitMicroUsd: number
  readonly spentMicroUsd: number
  /** The end of the window, in Unix milliseconds; undefined for `total`. */
  readonly endMs: number | undefined
}

/** Two windows more. */
const KEPT_MS = { hour: DAY_MS, day: 2 * DAY_MS, week: 14 * DAY_MS, month: 62 * DAY_MS } as const
/** For the window that never ends. */
const FOREVER_MS = 3650 * DAY_MS

/**
 * Every share of `shares` that the spend has reached. The parts do not have the limit: a raised one begins no new
 * window. A limit of 0 has no shares.
 */
export function reachedThresholds(
  spend: LimitSpend,
  shares: readonly number[],
  nowMs: number,
): readonly ReportedOnce[] {
  const { limitMicroUsd, spentMicroUsd } = spend
  if (limitMicroUsd <= 0) return []
  const fields = fieldsOf(spend)
  return shares
    .filter((share) => spentMicroUsd >= thresholdOf(limitMicroUsd, share))
    .map((share) => once(spend, { type: 'spend.threshold', fields: { ...fields, share } }, [share], nowMs))
}

/** A limit has refused a request because of what is spent. Once a window, as the shares are. */
export function refusingLimit(spend: LimitSpend, nowMs: number): ReportedOnce {
  return once(spend, { type: 'spend.refusing', fields: fieldsOf(spend) }, [], nowMs)
}

function once(spend: LimitSpend, occurrence: Occurrence, share: readonly number[], nowMs: number): ReportedOnce {
  const { organization, key, budget, window, endMs } = spend
  // None for a limit of an organisation or a key, whose alerts keep the identity that they have had.
  const ofBudget = budget === undefined ? [] : [budget.name, budget.value]
  const parts = [occurrence.type, organization, key, window, endMs ?? null, ...share, ...ofBudget]
  return { parts, organization, forgetMs: forgetMs(spend, nowMs), occurrence }
}

function fieldsOf({ organization, key, budget, window, limitMicroUsd, spentMicroUsd }: LimitSpend) {
  const amounts = { limit_usd: limitMicroUsd / 1_000_000, spent_usd: spentMicroUsd / 1_000_000 }
  if (budget === undefined) return { organization, key, window, ...amounts }
  return { organization, key, name: budget.name, value: budget.value, window, ...amounts }
}

function forgetMs({ window, endMs }: LimitSpend, nowMs: number): number {
  return window === 'total' || endMs === undefined ? nowMs + FOREVER_MS : endMs + KEPT_MS[window]
}

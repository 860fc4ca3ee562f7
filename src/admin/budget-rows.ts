/** The rows of `GET /api/budgets`: what is used and held of each limit. */

import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { configuredName } from '../core/limits.ts'
import type { LimitUsage } from '../reports/limit-usage.ts'
import type { BudgetRow } from './api-shapes.ts'

export function budgetRow({ organization, key, limit, amount, used, held, renewsAtMs }: LimitUsage): BudgetRow {
  return {
    organization,
    key,
    limit: configuredName(limit),
    unit: limit.unit,
    amount,
    used,
    held,
    renews_at: renewsAtMs === undefined ? null : new Date(renewsAtMs).toISOString(),
    used_up_at: null,
  }
}

/** A budget that lasts longer than this at the present rate is not shown to end. */
const FAR_MS = 10 * 365 * DAY_MS

/** When a budget of money is used up if every hour is as the last one; null if it renews before, or lasts for years. */
export function usedUpAt(
  { unit, amount, used, held, renews_at: renewsAt }: BudgetRow,
  lastHourMicroUsd: number,
  nowMs: number,
): string | null {
  if (unit !== 'micro_usd') return null
  const left = amount - used - held
  if (left > 0 && lastHourMicroUsd <= 0) return null
  const atMs = left <= 0 ? nowMs : nowMs + (left / lastHourMicroUsd) * HOUR_MS
  if (atMs - nowMs > FAR_MS || (renewsAt !== null && atMs >= Date.parse(renewsAt))) return null
  return new Date(atMs).toISOString()
}

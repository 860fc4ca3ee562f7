/** The rows of `GET /api/budgets`: what is used and held of each limit. */

import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { thresholdOf } from '../core/limit-amounts.ts'
import { configuredName } from '../core/limits.ts'
import type { CounterLimitUsage } from '../reports/counter-usage.ts'
import { hasWords, type LimitUsage } from '../reports/limit-usage.ts'
import type { BudgetRow } from './api-shapes.ts'

/** The share from which a spend limit is `near`, if no alerts of spend are configured. */
const NEAR_SHARE = 0.8

/** `shares`: those of which alerts are sent. */
export function budgetRow(usage: LimitUsage, shares: readonly number[] = []): BudgetRow {
  const { organization, key, limit, amount, used, held, renewsAtMs } = usage
  return {
    ...{ organization, key, limit: configuredName(limit), unit: limit.unit, amount, used, held },
    state: stateOf(usage, shares),
    renews_at: renewsAtMs === undefined ? null : new Date(renewsAtMs).toISOString(),
    used_up_at: null,
  }
}

/** The same for a limit of a counter. */
export function counterRow(usage: CounterLimitUsage, shares?: readonly number[]): BudgetRow {
  const { name, value, raise } = usage
  return {
    ...budgetRow(usage, shares),
    budget: name,
    value: value === '' ? null : value,
    raise: raise ? { id: raise.id, until: new Date(raise.untilMs).toISOString(), reason: raise.reason } : null,
  }
}

function stateOf({ limit, amount, used, isRefusing }: LimitUsage, shares: readonly number[]): BudgetRow['state'] {
  if (isRefusing) return 'refusing'
  // Rates are full again and again, and a limit of 0 has no shares.
  if (limit.unit !== 'micro_usd' || amount === 0) return 'ok'
  return used >= thresholdOf(amount, Math.min(1, ...(shares.length > 0 ? shares : [NEAR_SHARE]))) ? 'near' : 'ok'
}

/** The rows that have every word of a search. */
export function matchingBudgets(rows: readonly BudgetRow[], words: readonly string[]): readonly BudgetRow[] {
  if (words.length === 0) return rows
  return rows.filter(({ organization, key, budget, value, limit }) =>
    hasWords(words, [organization, key, budget, value].filter(Boolean).join(' '), limit),
  )
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

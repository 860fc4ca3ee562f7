/** What the admin API reads of the ledger's sums: spend of today and of the last hour. */

import { openUsageLog } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { HOUR_MS } from '../core/durations.ts'
import type { UsageRow } from '../ledger/usage-log.ts'
import { partsOf } from '../ledger/usage-series.ts'
import { dayOf } from '../ledger/window.ts'
import { withLedger } from '../reports/ledger-part.ts'

export interface Spend {
  readonly todayMicroUsd: number
  /** Micro-dollars of the last hour, of an organisation (without a key) or a key. */
  readonly lastHour: (organization: string, key: string | null) => number
}

/** Throws `LedgerProblem`. */
export async function readSpend(config: Config, nowMs = Date.now()): Promise<Spend> {
  const today = dayOf(nowMs)
  const sinceDay = dayOf(nowMs - HOUR_MS)
  const rows = await withLedger(openUsageLog, config, (log) => log.read({ sinceDay, untilDay: today + 1 }))
  const hours = hourlySpend(rows, nowMs)
  return {
    todayMicroUsd: rows.reduce((sum, { day, costMicroUsd }) => (day === today ? sum + costMicroUsd : sum), 0),
    lastHour: (organization, key) => hours.get(scopeName(organization, key)) ?? 0,
  }
}

/**
 * The sums are of whole hours: what was spent in the running hour, and the part of the hour before that is less than an
 * hour ago, as if it had been spent evenly.
 */
function hourlySpend(rows: readonly UsageRow[], nowMs: number): ReadonlyMap<string, number> {
  const running = Math.floor(nowMs / HOUR_MS)
  const elapsed = (nowMs % HOUR_MS) / HOUR_MS
  const spent = new Map<string, number>()
  for (const { day, organization, key, series, costMicroUsd } of rows) {
    const { hour } = partsOf(series)
    if (hour === undefined) continue
    const age = running - (day * 24 + hour)
    const part = age === 0 ? 1 : age === 1 ? 1 - elapsed : 0
    if (part === 0) continue
    for (const name of [scopeName(organization, null), scopeName(organization, key)])
      spent.set(name, (spent.get(name) ?? 0) + costMicroUsd * part)
  }
  return spent
}

function scopeName(organization: string, key: string | null): string {
  return key === null ? organization : `${organization}\0${key}`
}

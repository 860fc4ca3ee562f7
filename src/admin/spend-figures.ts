/** What the admin port reads of spend: from the ledger, which a gateway elsewhere may share. */

import { openAccountUsageReader, openUsageLog } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { HOUR_MS } from '../core/durations.ts'
import { ownerSpendLimits, spentBefore } from '../core/limits.ts'
import type { Account } from '../ledger/ledger.ts'
import type { AccountUsage } from '../ledger/reservation-store.ts'
import type { UsageRow } from '../ledger/usage-log.ts'
import { partsOf } from '../ledger/usage-series.ts'
import { dayOf } from '../ledger/window.ts'
import { withLedger } from '../reports/ledger-part.ts'
import { withStoredOrganizations } from '../reports/stored-keys.ts'
import { Refreshed } from './refreshed.ts'

/** Organisations that are read, in the order of the configuration, then those of the store. */
const ORGANIZATIONS_MAX = 1000

export interface SpendRow {
  readonly organization: string
  readonly window: 'day' | 'month' | 'total'
  readonly usedMicroUsd: number
  readonly heldMicroUsd: number
  /** Undefined without a limit. */
  readonly limitMicroUsd: number | undefined
}

/** How old what was read may be, and how long a request for the metrics waits for a read. */
const AGE_MS = 3000
const WAIT_MS = 1000

/**
 * Reads the rows for a request of the metrics. They are undefined while the ledger cannot be read (`weir_ledger_up` and
 * the log show why), and those of the last reading if a new one takes long.
 */
export function spendReader(
  config: () => Config,
  readRows: (config: Config) => Promise<readonly SpendRow[]> = readSpendRows,
): () => Promise<readonly SpendRow[] | undefined> {
  const refreshed = new Refreshed({ read: () => readRows(config()), ageMs: AGE_MS, ageMsMax: AGE_MS, version: () => 0 })
  return () => refreshed.fresh(WAIT_MS)
}

/** Throws `LedgerProblem`. */
async function readSpendRows(config: Config): Promise<readonly SpendRow[]> {
  const { organizations } = await withStoredOrganizations(config)
  const accounts = organizations.slice(0, ORGANIZATIONS_MAX).map(({ id, limits }) => ({
    ...{ organization: id, organizationLimits: limits, key: '', keyLimits: {} },
  }))
  const usages = await withLedger(openAccountUsageReader, config, (reader) => reader.readAll(accounts))
  return accounts.flatMap((account, index) => rowsOf(account, usages[index]))
}

function rowsOf({ organization, organizationLimits }: Account, usage: AccountUsage | undefined): readonly SpendRow[] {
  if (usage === undefined) return []
  return ownerSpendLimits.map((limit) => {
    const { name, window, property } = limit
    const { spent, held } = usage.organization[name]
    const usedMicroUsd = spent + spentBefore(organizationLimits, limit, Date.now())
    const limitMicroUsd = organizationLimits.spend?.[property]
    return { organization, window, usedMicroUsd, heldMicroUsd: held, limitMicroUsd }
  })
}

/** Spend of today and of the last hour. */
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

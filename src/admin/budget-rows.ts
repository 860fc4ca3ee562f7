/** The rows of `GET /api/budgets`: what is used and held of each limit, the fullest first. */

import type { Config } from '../config/config.ts'
import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { configuredName, type Limits } from '../core/limits.ts'
import type { Account } from '../ledger/ledger.ts'
import { type AccountUsageReader, remainingLimits } from '../ledger/remaining.ts'
import type { ScopeUsage } from '../ledger/reservation-store.ts'
import type { BudgetRow } from './api-shapes.ts'

/** Keys with limits that are read at most; there may be any number of them. */
const KEYS_READ_MAX = 5000

const NO_LIMITS: Limits = {}

/** A key with limits of its own. */
export interface LimitedKey {
  readonly id: string
  readonly organization: string
  readonly limits: Limits
}

/** All limits that are set, the fullest first. */
export async function readBudgets(
  reader: Pick<AccountUsageReader, 'readAll'>,
  organizations: Config['organizations'],
  keys: readonly LimitedKey[],
): Promise<readonly BudgetRow[]> {
  const accounts = accountsOf(organizations, keys)
  const usages = await reader.readAll(accounts)
  const rows: BudgetRow[] = []
  let before: string | undefined
  for (const [index, { organization, organizationLimits, key, keyLimits }] of accounts.entries()) {
    const usage = usages[index]
    if (usage === undefined) continue
    // The accounts of an organisation follow each other.
    if (organization !== before)
      rows.push(...rowsOf({ organization, key: null }, organizationLimits, usage.organization))
    before = organization
    const ofKey = rowsOf({ organization, key }, keyLimits, usage.key)
    if (ofKey.some(({ used, held }) => used + held > 0)) rows.push(...ofKey)
  }
  return rows.sort((one, other) => fullness(other) - fullness(one))
}

/** The share of a limit that is used or held; a limit of 0 is full. */
export function fullness({ amount, used, held }: BudgetRow): number {
  return amount === 0 ? 1 : (used + held) / amount
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

/** One account for each key with limits, or one for the organisation alone if it has none. */
function accountsOf(organizations: Config['organizations'], keys: readonly LimitedKey[]): readonly Account[] {
  const keysOf = Map.groupBy(keys.slice(0, KEYS_READ_MAX), ({ organization }) => organization)
  return organizations.flatMap(({ id: organization, limits: organizationLimits }): readonly Account[] => {
    const own = keysOf.get(organization)
    if (own === undefined) return [{ organization, organizationLimits, key: '', keyLimits: NO_LIMITS }]
    return own.map(({ id, limits }) => ({ organization, organizationLimits, key: id, keyLimits: limits }))
  })
}

function rowsOf(
  owner: Pick<BudgetRow, 'organization' | 'key'>,
  limits: Limits,
  figures: ScopeUsage,
): readonly BudgetRow[] {
  return remainingLimits(limits, figures).map(({ limit, most, used, renewsAtMs }) => {
    const held = limit.kind === 'budget' ? figures[limit.name].held : 0
    return {
      ...owner,
      limit: configuredName(limit),
      unit: limit.unit,
      amount: most,
      used: Math.min(used - held, Number.MAX_SAFE_INTEGER),
      held,
      renews_at: renewsAtMs === undefined ? null : new Date(renewsAtMs).toISOString(),
      used_up_at: null,
    }
  })
}

/** What organisations have spent and hold, for the metrics: from the ledger, which a gateway elsewhere may share. */

import { openAccountUsageReader } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { ownerSpendLimits, spentBefore } from '../core/limits.ts'
import type { Account } from '../ledger/ledger.ts'
import type { AccountUsage } from '../ledger/reservation-store.ts'
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

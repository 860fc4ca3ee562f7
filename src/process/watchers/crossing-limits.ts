/** The limits of spend that reached a threshold: the ledger records some crossings without their amounts. */

import type { LimitSpend } from '../../alerts/spend-thresholds.ts'
import { openKeyStore } from '../../assembly/open-ledger.ts'
import type { Config } from '../../config/config.ts'
import { amountOf, type Limits, spendLimits, spentBefore } from '../../core/limits.ts'
import { counterOf } from '../../ledger/ledger.ts'
import type { SpendCrossing } from '../../ledger/spend-crossing.ts'
import { windowEndIn, windowEndMs } from '../../ledger/window.ts'
import { withLedger } from '../../reports/ledger-part.ts'

/**
 * What each crossing is about, in their order; undefined if that is no money. A limit that is not set is 0. Throws
 * `LedgerProblem`.
 */
export async function spendsOfCrossings(
  config: Config,
  crossings: readonly SpendCrossing[],
): Promise<readonly (LimitSpend | undefined)[]> {
  // A step knows a limit without what was spent elsewhere, which only the record of the key has.
  const storedIds = crossings.flatMap(({ organization, key }) =>
    key === undefined || configuredLimits(config, organization, key) ? [] : [key],
  )
  const stored = await storedLimits(config, storedIds)
  return crossings.map(({ organization, key, counter, budget, window, spentMicroUsd, limitMicroUsd }) => {
    const limit = spendLimits.find(({ name }) => name === budget)
    if (limit === undefined) return undefined
    const limits =
      (counter === undefined
        ? configuredLimits(config, organization, key)
        : counterLimits(config, organization, counter)) ??
      stored.get(`${organization}\0${key}`) ??
      {}
    const before = spentBefore(limits, limit, Date.now())
    const spend = {
      ...{ organization, key: key ?? null, window: limit.window, spentMicroUsd: spentMicroUsd + before },
      limitMicroUsd: (before === 0 ? limitMicroUsd : undefined) ?? amountOf(limits, limit) ?? 0,
    }
    if (counter === undefined) return { ...spend, endMs: windowEndMs(limit.window, window) }
    const { timezone = 'UTC' } = config.organizations.find(({ id }) => id === organization) ?? {}
    return { ...spend, budget: budgetFields(counter), endMs: windowEndIn(timezone, limit.window, window) }
  })
}

function budgetFields(counter: string): LimitSpend['budget'] {
  const { name, value } = counterOf(counter)
  return { name, value: value === '' ? null : value }
}

function counterLimits({ organizations }: Config, organization: string, counter: string): Limits | undefined {
  const { name, value } = counterOf(counter)
  const budget = organizations.find(({ id }) => id === organization)?.budgets?.find((one) => one.name === name)
  return budget?.except.get(value) ?? budget?.limits
}

function configuredLimits({ organizations }: Config, organization: string, key?: string): Limits | undefined {
  const found = organizations.find(({ id }) => id === organization)
  return key === undefined ? found?.limits : found?.keys.find(({ id }) => id === key)?.limits
}

/** By organisation and id. */
async function storedLimits(config: Config, ids: readonly string[]): Promise<ReadonlyMap<string, Limits>> {
  if (ids.length === 0) return new Map()
  return await withLedger(openKeyStore, config, async (store) => {
    const limits = new Map<string, Limits>()
    // After an outage of Redis there may be tens of thousands.
    for (const record of await store.records([...new Set(ids)])) {
      if (record.limits !== undefined) limits.set(`${record.organization}\0${record.id}`, record.limits)
    }
    return limits
  })
}

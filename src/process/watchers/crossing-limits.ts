/** The limits of spend that reached a threshold: the ledger records some crossings without them. */

import type { LimitSpend } from '../../alerts/spend-thresholds.ts'
import { openKeyStore } from '../../assembly/open-ledger.ts'
import type { Config } from '../../config/config.ts'
import { amountOf, budgetLimits, type Limits, spentBefore } from '../../core/limits.ts'
import { counterOf } from '../../ledger/ledger.ts'
import type { SpendCrossing } from '../../ledger/spend-crossing.ts'
import { windowEndMs } from '../../ledger/window.ts'
import { withLedger } from '../../reports/ledger-part.ts'

/** What each crossing is about, in their order; a limit that is not set is 0. Throws `LedgerProblem`. */
export async function spendsOfCrossings(
  config: Config,
  crossings: readonly SpendCrossing[],
): Promise<readonly LimitSpend[]> {
  // A step knows a limit without what was spent elsewhere, which only the record of the key has.
  const storedIds = crossings.flatMap(({ organization, key }) =>
    key === undefined || configuredLimits(config, organization, key) ? [] : [key],
  )
  const stored = await storedLimits(config, storedIds)
  return crossings.map(({ organization, key, counter, budget, window, spentMicroUsd, limitMicroUsd }) => {
    const limits =
      (counter === undefined
        ? configuredLimits(config, organization, key)
        : counterLimits(config, organization, counter)) ??
      stored.get(`${organization}\0${key}`) ??
      {}
    const limit = budgetLimits.find(({ name }) => name === budget)
    const before = limit === undefined ? 0 : spentBefore(limits, limit, Date.now())
    return {
      ...{ organization, key: key ?? null, window: budget, spentMicroUsd: spentMicroUsd + before },
      ...(counter === undefined ? {} : { budget: budgetFields(counter) }),
      limitMicroUsd: (before === 0 ? limitMicroUsd : undefined) ?? (limit && amountOf(limits, limit)) ?? 0,
      endMs: windowEndMs(budget, window),
    }
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

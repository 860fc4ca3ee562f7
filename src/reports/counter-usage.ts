/** What is used and held of the counters of budgets, with the raises that hold: for commands and for the admin API. */

import { openAccountUsageReader, openKeyStore } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { batchesOf } from '../core/batches.ts'
import type { BudgetConfig } from '../core/budget-config.ts'
import type { SpentBefore } from '../core/limits.ts'
import { amountOf, spendLimits } from '../core/limits.ts'
import type { OrganizationConfig } from '../core/organization-config.ts'
import { counterAccount } from '../gateway/request-budgets.ts'
import { limitsWith, raisesCounter } from '../keys/budget-overrides.ts'
import { type BudgetChanges, type BudgetRaise, budgetChangesOf, budgetsRecordId } from '../keys/budget-record.ts'
import { type Account, type CounterAccount, counterOf } from '../ledger/ledger.ts'
import { isRefusing } from '../ledger/refusal-mark.ts'
import { type AccountUsageReader, remainingLimits } from '../ledger/remaining.ts'
import type { CounterUsage } from '../ledger/reservation-store.ts'
import { NEVER_MS } from '../ledger/window.ts'
import { withLedger } from './ledger-part.ts'
import { fullness, type LimitUsage } from './limit-usage.ts'

/** Counters of one organisation that are read for a list; a filter finds others. */
export const COUNTERS_READ_MAX = 10_000
/** Counters in one read of the ledger. */
const COUNTERS_A_READ = 50
/** Organisations whose counters are asked for together. */
const ORGANIZATIONS_A_READ = 100

interface CounterFilter {
  readonly organization?: string | undefined
  readonly name?: string | undefined
  readonly value?: string | undefined
  /** Words that the organisation, the budget or the value has, in any letters. */
  readonly search?: string | undefined
  /** Only limits that refuse: there may be 10,000 counters of each organisation, and few of them do. */
  readonly isRefusing?: true
  /** Called for an organisation that has more of them than are read. */
  readonly limited?: (organization: string, count: number) => void
}

/** One limit of a counter. `key` is null. */
export interface CounterLimitUsage extends LimitUsage {
  readonly name: string
  /** '' for the counter of a budget that has one. */
  readonly value: string
  readonly raise: BudgetRaise | undefined
}

interface Counter {
  readonly budget: BudgetConfig
  readonly account: CounterAccount
}

/** Counters of one organisation that are read together. */
interface Part {
  readonly organization: OrganizationConfig
  readonly changes: BudgetChanges
  readonly counters: readonly Counter[]
}

const NO_CHANGES: BudgetChanges = { raises: [], resets: [] }

/** Those that refuse first, then the fullest. Throws `LedgerProblem`. */
export async function counterUsagesOf(config: Config, filter: CounterFilter): Promise<readonly CounterLimitUsage[]> {
  const organizations = config.organizations.filter(
    ({ id, budgets }) => budgets !== undefined && id === (filter.organization ?? id),
  )
  if (organizations.length === 0) return []
  const records = await withLedger(openKeyStore, config, (store) =>
    store.records(organizations.map(({ id }) => budgetsRecordId(id))),
  )
  const changes = new Map(records.map((record) => [record.organization, budgetChangesOf(record)]))
  return await withLedger(openAccountUsageReader, config, async (reader) => {
    const found: CounterLimitUsage[] = []
    for (const some of batchesOf(organizations, ORGANIZATIONS_A_READ)) {
      const names = await reader.counters(
        some.map(({ id }) => id),
        filter.isRefusing === true ? 'refused' : 'all',
      )
      const parts = some.flatMap((organization, at) => {
        const own = changes.get(organization.id) ?? NO_CHANGES
        return partsOf(organization, countersOf(organization, names[at] ?? [], filter, own), own)
      })
      const usages = await usagesOf(reader, parts)
      found.push(...(filter.isRefusing === true ? usages.filter(({ isRefusing }) => isRefusing) : usages))
    }
    return found.sort((a, b) => Number(b.isRefusing) - Number(a.isRefusing) || fullness(b) - fullness(a))
  })
}

/** What a counter has spent now in each of its windows, and when these end. Throws `LedgerProblem`. */
export async function spentOfCounter(
  config: Config,
  organization: OrganizationConfig,
  budget: BudgetConfig,
  value: string,
): Promise<SpentBefore> {
  const account = accountOf(organization, [counterAccount(budget, value)])
  const { budgets } = await withLedger(openAccountUsageReader, config, (reader) => reader.read(account))
  const found = budgets?.[0]
  if (found === undefined) return {}
  return Object.fromEntries(
    spendLimits.map(({ property, name }) => {
      const untilMs = found.endsMs[name]
      return [property, { microUsd: found.usage[name].spent, ...(untilMs === NEVER_MS ? {} : { untilMs }) }]
    }),
  )
}

/** `counters`: the names of those that the organisation has in the ledger. */
function countersOf(
  { id, budgets = [] }: OrganizationConfig,
  counters: readonly string[],
  filter: CounterFilter,
  changes: BudgetChanges,
): readonly Counter[] {
  const words = filter.search?.toLowerCase().split(/\s+/).filter(Boolean) ?? []
  const isWanted = (name: string, value: string) =>
    name === (filter.name ?? name) &&
    value === (filter.value ?? value) &&
    words.every((word) => `${id} ${name} ${value}`.toLowerCase().includes(word))
  const byName = new Map(budgets.map((budget) => [budget.name, budget]))
  const names = new Map<string, Counter>()
  const add = (name: string, value: string) => {
    const budget = byName.get(name)
    if (budget === undefined || !isWanted(name, value)) return
    const field = `${name}\t${value}`
    if ((budget.per === undefined) !== (value === '') || names.has(field)) return
    if (++count > COUNTERS_READ_MAX) return
    const account = counterAccount(budget, value)
    names.set(field, {
      budget,
      account: { ...account, limits: limitsWith(changes, account, account.limits, Date.now()) },
    })
  }
  let count = 0
  // A budget with one counter is listed before its first request, too.
  for (const budget of budgets) if (budget.per === undefined) add(budget.name, '')
  for (const counter of counters) {
    const { name, value } = counterOf(counter)
    add(name, value)
  }
  if (count > COUNTERS_READ_MAX) filter.limited?.(id, count)
  return [...names.values()]
}

function partsOf(organization: OrganizationConfig, counters: readonly Counter[], changes: BudgetChanges): Part[] {
  return Array.from(batchesOf(counters, COUNTERS_A_READ), (some) => ({ organization, changes, counters: some }))
}

async function usagesOf(reader: AccountUsageReader, parts: readonly Part[]): Promise<readonly CounterLimitUsage[]> {
  const usages = await reader.readAll(
    parts.map(({ organization, counters }) =>
      accountOf(
        organization,
        counters.map(({ account }) => account),
      ),
    ),
  )
  return parts.flatMap(({ organization, counters, changes }, i) =>
    counters.flatMap((counter, j) => {
      const usage = usages[i]?.budgets?.[j]
      return usage === undefined ? [] : rowsOf(organization.id, counter, usage, changes)
    }),
  )
}

function rowsOf(
  organization: string,
  { account: { name, value, limits } }: Counter,
  { usage, endsMs }: CounterUsage,
  { raises }: BudgetChanges,
): readonly CounterLimitUsage[] {
  const holding = raises.filter((one) => one.untilMs > Date.now() && raisesCounter(one, name, value))
  return remainingLimits(limits, usage).map(({ limit, most, used: taken }) => {
    const { held, refused } = limit.kind === 'budget' ? usage[limit.name] : { held: 0, refused: 0 }
    const used = Math.max(0, taken - held)
    const raise = holding.findLast((one) => amountOf(one.limits, limit) !== undefined)
    const endMs = limit.kind === 'budget' ? endsMs[limit.name] : NEVER_MS
    return {
      ...{ organization, key: null, name, value, limit, amount: most, used, held, raise },
      isRefusing: isRefusing(most, used, refused),
      renewsAtMs: endMs === NEVER_MS ? undefined : endMs,
    }
  })
}

/** An account of the organisation for counters alone. */
function accountOf({ id, timezone }: OrganizationConfig, budgets: readonly CounterAccount[]): Account {
  return { organization: id, organizationLimits: {}, key: '', keyLimits: {}, budgets, timeZone: timezone ?? 'UTC' }
}

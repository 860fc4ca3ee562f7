/** What is used and held of the counters of budgets, with the raises that hold: for commands and for the admin API. */

import { openAccountUsageReader, openKeyStore, openWindowReset } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import { batchesOf } from '../core/batches.ts'
import type { BudgetConfig } from '../core/budget-config.ts'
import { KeyProblem } from '../core/key-problem.ts'
import type { SpentBefore } from '../core/limits.ts'
import { amountOf, budgetLimits, configuredName, limitTable, spendLimits } from '../core/limits.ts'
import type { OrganizationConfig } from '../core/organization-config.ts'
import { counterAccount } from '../gateway/request-budgets.ts'
import { limitsWith, raisesCounter } from '../keys/budget-overrides.ts'
import { type BudgetChanges, type BudgetRaise, budgetChangesOf, budgetsRecordId } from '../keys/budget-record.ts'
import { type Account, type CounterAccount, counterName, counterOf } from '../ledger/ledger.ts'
import { isRefusing } from '../ledger/refusal-mark.ts'
import { type AccountUsageReader, remainingLimits } from '../ledger/remaining.ts'
import type { CounterUsage } from '../ledger/reservation-store.ts'
import { NEVER_MS } from '../ledger/window.ts'
import { begunWindows, windowsAhead } from '../ledger/window-reset.ts'
import { LedgerInUseError } from '../sqlite/database.ts'
import { LedgerProblem, withLedger } from './ledger-part.ts'
import { fullness, hasWords, type LimitUsage } from './limit-usage.ts'

/** Counters of one organisation that are read for a list, and of all; a filter finds others. */
export const COUNTERS_READ_MAX = 10_000
const COUNTERS_READ_MAX_OF_ALL = 100_000
/** Counters in one read of the ledger. */
const COUNTERS_A_READ = 50
/** Organisations whose counters are asked for together. */
const ORGANIZATIONS_A_READ = 100

export interface CounterFilter {
  readonly organization?: string | undefined
  readonly name?: string | undefined
  readonly value?: string | undefined
  /** As `searchWords` gives them: each in the organisation, the budget, the value or the limit. */
  readonly words?: readonly string[] | undefined
  /** Only limits that refuse: there may be 10,000 counters of each organisation, and few of them do. */
  readonly isRefusing?: true
  /** Called for an organisation that has more of them than are read: how many, and the limits of the others. */
  readonly limited?: (organization: string, count: number, limitsLeft: number) => unknown
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
    let left = COUNTERS_READ_MAX_OF_ALL
    for (const some of batchesOf(organizations, ORGANIZATIONS_A_READ)) {
      const ids = some.map(({ id }) => id)
      const names = await reader.counters(ids, filter.isRefusing === true ? 'refused' : 'all')
      const parts = some.flatMap((organization, at) => {
        const own = changes.get(organization.id) ?? NO_CHANGES
        const counters = countersOf(organization, names[at] ?? [], filter, own, Math.min(left, COUNTERS_READ_MAX))
        left -= counters.length
        return partsOf(organization, counters, own)
      })
      for (const usage of await usagesOf(reader, parts)) {
        if ((filter.isRefusing !== true || usage.isRefusing) && isWanted(filter, usage)) found.push(usage)
      }
    }
    return found.sort((a, b) => Number(b.isRefusing) - Number(a.isRefusing) || fullness(b) - fullness(a))
  })
}

/** What a counter has spent now in each of its windows, and when these end, or the counter. Throws `LedgerProblem`. */
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
      const endMs = found.endsMs[name]
      // A counter that may be idle ends, and then its total begins anew by itself.
      const untilMs = endMs === NEVER_MS && budget.idleMs !== undefined ? found.keptMs : endMs
      return [property, { microUsd: found.usage[name].spent, ...(untilMs === NEVER_MS ? {} : { untilMs }) }]
    }),
  )
}

/**
 * Sets the windows of a counter back to the present if they lie ahead of the clock. Throws `LedgerProblem`, and
 * `KeyProblem` if a gateway has the embedded ledger open, which alone may then change it.
 */
export async function setCounterBack(
  config: Config,
  organization: OrganizationConfig,
  budget: BudgetConfig,
  value: string,
): Promise<void> {
  const counter = counterAccount(budget, value)
  const account = accountOf(organization, [counter])
  const { budgets } = await withLedger(openAccountUsageReader, config, (reader) => reader.read(account))
  const found = budgets?.[0]
  if (found === undefined) return
  const windows = budgetLimits.map(({ name }) => found.usage[name].window)
  const ends = budgetLimits.map(({ name }) => found.endsMs[name])
  if (!windowsAhead({ windows, ends }, begunWindows(Date.now())).includes(true)) return
  try {
    await withLedger(openWindowReset, config, (reset) => reset.resetCounter(organization, counterName(counter)))
  } catch (error) {
    if (!(error instanceof LedgerProblem && error.cause instanceof LedgerInUseError)) throw error
    throw new KeyProblem(
      'conflict',
      `a clock was ahead, and the windows of this budget lie in the future; stop the gateway, then ` +
        `weir ledger reset-window --org ${organization.id}`,
    )
  }
}

/** At most `most`. `counters`: the names of those that the organisation has in the ledger. */
function countersOf(
  { id, budgets = [] }: OrganizationConfig,
  counters: readonly string[],
  filter: CounterFilter,
  changes: BudgetChanges,
  most: number,
): readonly Counter[] {
  const byName = new Map(budgets.map((budget) => [budget.name, budget]))
  const isChanged = changedCounters(changes)
  const found = new Map<string, Counter>()
  let [count, limitsLeft] = [0, 0]
  const add = (name: string, value: string) => {
    const budget = byName.get(name)
    if (budget === undefined || name !== (filter.name ?? name) || value !== (filter.value ?? value)) return
    const field = counterName({ name, value })
    if ((budget.per === undefined) !== (value === '') || found.has(field)) return
    const account = counterAccount(budget, value)
    const limits = isChanged(name, value) ? limitsWith(changes, account, account.limits, Date.now()) : account.limits
    const wanted = limitTable.filter(
      (limit) => amountOf(limits, limit) !== undefined && isWanted(filter, { organization: id, name, value, limit }),
    )
    if (wanted.length === 0) return
    if (++count <= most) found.set(field, { budget, account: { ...account, limits } })
    else limitsLeft += wanted.length
  }
  // A budget with one counter is listed before its first request, too.
  for (const budget of budgets) if (budget.per === undefined) add(budget.name, '')
  for (const counter of counters) {
    const { name, value } = counterOf(counter)
    add(name, value)
  }
  if (count > most) filter.limited?.(id, count, limitsLeft)
  return [...found.values()]
}

function isWanted(
  { words = [] }: CounterFilter,
  { organization, name, value, limit }: Pick<CounterLimitUsage, 'organization' | 'name' | 'value' | 'limit'>,
): boolean {
  return words.length === 0 || hasWords(words, `${organization} ${name} ${value}`, configuredName(limit))
}

/** Whether a raise or a reset changes the limits of a counter; without one there is nothing to look up. */
function changedCounters({ raises, resets }: BudgetChanges): (name: string, value: string) => boolean {
  const changed = new Set([...raises, ...resets].map(counterName))
  return (name, value) => changed.has(name) || changed.has(counterName({ name, value }))
}

function partsOf(organization: OrganizationConfig, counters: readonly Counter[], changes: BudgetChanges): Part[] {
  return Array.from(batchesOf(counters, COUNTERS_A_READ), (some) => ({ organization, changes, counters: some }))
}

async function usagesOf(reader: AccountUsageReader, parts: readonly Part[]): Promise<readonly CounterLimitUsage[]> {
  const accounts = parts.map(({ organization, counters }) => {
    const own = counters.map(({ account }) => account)
    return accountOf(organization, own)
  })
  const usages = await reader.readAll(accounts)
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

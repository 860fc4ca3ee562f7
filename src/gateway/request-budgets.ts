/**
 * The budgets that a request matches: its key, its tags and the model that is to serve it decide. Callers choose tags,
 * so what is remembered is bounded.
 */

import { budgetsOfKey, type Key, type Model, publicName } from '../catalog/catalog.ts'
import { type BudgetConfig, counterValue, matchesModel, matchesTags } from '../core/budget-config.ts'
import type { Limits } from '../core/limits.ts'
import { tagsByName } from '../core/tags.ts'
import type { Account, CounterAccount } from '../ledger/ledger.ts'

/** Accounts with budgets that a worker keeps, about 3 KB each: another one is made in a few microseconds. */
const ACCOUNTS_MAX = 10_000

/**
 * The limits that hold for a counter and for an organisation at present, if they are not those of the configuration:
 * `limits`, which both return if nothing else holds.
 */
export interface LimitOverrides {
  /** Changes with every change of what the others return. */
  readonly version: number
  limitsOf(organization: string, budget: string, value: string, limits: Limits): Limits
  ownLimits(organization: string, limits: Limits): Limits
}

/** Whether requests of two accounts of one key count in the same counters. */
export function hasSameCounters(one: Account, other: Account): boolean {
  if (one === other) return true
  const [counters, others] = [one.budgets ?? [], other.budgets ?? []]
  return (
    counters.length === others.length &&
    counters.every(({ name, value }, i) => name === others[i]?.name && value === others[i]?.value)
  )
}

/** What a key needs to find the account of a request. */
interface KeyAccounts {
  /** Without budgets. */
  plain: Account
  /** Those that may count requests of the key. */
  readonly budgets: readonly BudgetConfig[]
  readonly dependsOnTags: boolean
  readonly dependsOnModel: boolean
  /** By tags and model, as far as budgets depend on them. */
  readonly made: Map<string, Account>
  version: number
}

const accounts = new WeakMap<Key, KeyAccounts>()
/** Those of all keys that have any. Sessions are values, too: with a bound for each key, 10,000 keys had none. */
const filled = new Set<KeyAccounts>()
let kept = 0

/**
 * The limits that a request with this key, these tags (as in `core/tags.ts`) and this model falls under: the same
 * object for the same ones.
 */
export function accountOf(key: Key, tags = '', model?: Model, overrides?: LimitOverrides): Account {
  const known = accounts.getOrInsertComputed(key, accountsOf)
  const version = overrides?.version ?? 0
  if (known.version !== version) {
    const { id, limits } = key.organization
    const organizationLimits = overrides?.ownLimits(id, limits) ?? limits
    if (!Bun.deepEquals(known.plain.organizationLimits, organizationLimits))
      known.plain = { ...known.plain, organizationLimits }
    forget(known)
    known.version = version
  }
  if (known.budgets.length === 0) return known.plain
  const name = model === undefined ? '' : publicName(model)
  const place = `${known.dependsOnTags ? tags : ''}\n${known.dependsOnModel ? name : ''}`
  const found = known.made.get(place)
  if (found !== undefined) return found
  const isAnyModel = model?.asked !== undefined
  const budgets = countersOf(known, { key, tags: tagsByName(tags), model: name, isAnyModel }, overrides)
  const { timezone: timeZone = 'UTC' } = key.organization
  const account = budgets.length === 0 ? known.plain : { ...known.plain, budgets, timeZone }
  if (kept >= ACCOUNTS_MAX) for (const one of filled) forget(one)
  known.made.set(place, account)
  filled.add(known)
  kept++
  return account
}

function forget(known: KeyAccounts): void {
  kept -= known.made.size
  known.made.clear()
  filled.delete(known)
}

function accountsOf(key: Key): KeyAccounts {
  const { id, limits, organization } = key
  const { id: name, limits: organizationLimits, alertShares } = organization
  const budgets = budgetsOfKey(key)
  return {
    plain: { organization: name, organizationLimits, key: id, keyLimits: limits, alertShares },
    budgets,
    dependsOnTags: budgets.some(({ per, match }) => typeof per === 'object' || match.tags !== undefined),
    dependsOnModel: budgets.some(({ per, match }) => per === 'model' || match.models !== undefined),
    made: new Map(),
    version: Number.NaN,
  }
}

interface Matched {
  readonly key: Key
  readonly tags: Readonly<Record<string, string>>
  readonly model: string
  /** The caller chose the name, which a pattern matches. */
  readonly isAnyModel: boolean
}

function countersOf(
  { budgets }: KeyAccounts,
  { key, tags, model, isAnyModel }: Matched,
  overrides: LimitOverrides | undefined,
): readonly CounterAccount[] {
  return budgets.flatMap((budget) => {
    if (!matchesModel(budget, model) || !matchesTags(budget, tags)) return []
    const value = counterValue(budget, key.id, tags, model)
    if (value === undefined) return []
    const isBounded = isOfCallers(budget, value, isAnyModel)
    const counter = { ...counterAccount(budget, value), ...(isBounded ? { isBounded } : {}) }
    const limits = overrides?.limitsOf(key.organization.id, budget.name, value, counter.limits)
    return [limits === undefined || limits === counter.limits ? counter : { ...counter, limits }]
  })
}

/** A counter of a budget with the limits of the configuration. */
export function counterAccount(budget: BudgetConfig, value: string): CounterAccount {
  const { name, except, idleMs } = budget
  return {
    name,
    value,
    limits: except.get(value) ?? budget.limits,
    ...(idleMs === undefined ? {} : { idleMs }),
    ...(budget.onExhausted === 'downgrade' ? { downgrades: true } : {}),
  }
}

/** Whether the value of a counter is none that the configuration names, so that callers could make any number. */
function isOfCallers({ per, match, except }: BudgetConfig, value: string, isAnyModel: boolean): boolean {
  if (except.has(value)) return false
  return per === 'model' ? isAnyModel : typeof per === 'object' && match.tags?.[per.tag] === undefined
}

/**
 * Spend that Redis has lost and that is still being given back. Until then it counts as spent elsewhere, so that an
 * organisation with many rows of usage is served meanwhile and passes no budget.
 */

import { DAY_MS, HOUR_MS } from '../../../core/durations.ts'
import { type BudgetLimit, budgetLimits, type Limits, spentBefore } from '../../../core/limits.ts'
import { type Account, type CounterAccount, counterName, sum } from '../../ledger.ts'
import type { UsageRow } from '../../usage-log.ts'
import { windowOf, windowsIn } from '../../window.ts'
import type { CounterSpend, GivenRow } from './counter-spend.ts'

const QUARTER_MS = HOUR_MS / 4
/** Accounts that are kept: there is one for each choice of counters. */
const ACCOUNTS_MAX = 10_000

export class OwedSpend {
  /** By scope ('' for the organisation, `k` and the key's id) and day. */
  private readonly days = new Map<string, Map<number, number>>()
  /** What is owed of each counter. */
  private readonly counters = new Map<string, CounterSpend>()
  /** The accounts with what is owed now, because every reservation has one. */
  private accounts = new Map<Account, Account>()
  /** The time until which `accounts` are right: then another window begins. */
  private untilMs = 0

  constructor(rows: readonly GivenRow[]) {
    for (const row of rows) {
      if ('counter' in row) this.counters.set(row.counter, row)
      else this.change(row, 1)
    }
  }

  /** These rows are in Redis. */
  given(rows: readonly GivenRow[]): void {
    for (const row of rows) {
      if ('counter' in row) this.counters.delete(row.counter)
      else this.change(row, -1)
    }
    this.accounts = new Map()
  }

  /** An account whose limits count what is owed as spent. */
  of(account: Account, nowMs: number): Account {
    if (nowMs >= this.untilMs) {
      this.accounts = new Map()
      // Days begin with an hour in UTC, and so do the windows of all time zones with a quarter of one.
      this.untilMs = (Math.floor(nowMs / QUARTER_MS) + 1) * QUARTER_MS
    }
    const known = this.accounts.get(account)
    if (known !== undefined) return known
    const { budgets, timeZone = 'UTC' } = account
    const made = {
      ...account,
      organizationLimits: this.limitsWith('', account.organizationLimits, nowMs),
      keyLimits: this.limitsWith(`k${account.key}`, account.keyLimits, nowMs),
      ...(budgets && { budgets: budgets.map((counter) => this.counterWith(counter, timeZone, nowMs)) }),
    }
    if (this.accounts.size >= ACCOUNTS_MAX) this.accounts.clear()
    this.accounts.set(account, made)
    return made
  }

  private limitsWith(scope: string, limits: Limits, nowMs: number): Limits {
    const days = this.days.get(scope)
    if (days === undefined) return limits
    return withSpent(limits, nowMs, (limit) => {
      const window = windowOf(limit.window, nowMs)
      let microUsd = 0
      for (const [day, spent] of days)
        if (windowOf(limit.window, day * DAY_MS) === window) microUsd = sum(microUsd, spent)
      return microUsd
    })
  }

  private counterWith(counter: CounterAccount, timeZone: string, nowMs: number): CounterAccount {
    const owed = this.counters.get(counterName(counter))
    if (owed === undefined) return counter
    const { windows } = windowsIn(timeZone, nowMs)
    const limits = withSpent(counter.limits, nowMs, (_, i) => {
      return (owed.windows[i] ?? 0) >= (windows[i] ?? 0) ? (owed.spent[i] ?? 0) : 0
    })
    return { ...counter, limits }
  }

  private change({ key, day, costMicroUsd }: UsageRow, sign: 1 | -1): void {
    for (const scope of ['', `k${key}`]) {
      const days = this.days.getOrInsertComputed(scope, () => new Map())
      days.set(day, (days.get(day) ?? 0) + sign * costMicroUsd)
    }
  }
}

/** Limits that count more as spent; `owed` is called for each limit of `budgetLimits`. */
function withSpent(limits: Limits, nowMs: number, owed: (limit: BudgetLimit, index: number) => number): Limits {
  if (limits.spend === undefined) return limits
  const before = budgetLimits.map((limit, i) => {
    return [limit.property, { microUsd: sum(spentBefore(limits, limit, nowMs), owed(limit, i)) }]
  })
  return { ...limits, spend: { ...limits.spend, before: Object.fromEntries(before) } }
}

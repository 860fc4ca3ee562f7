/**
 * Spend that Redis has lost and that is still being given back. Until then it counts as spent elsewhere, so that an
 * organisation with many rows of usage is served meanwhile and passes no budget.
 */

import { DAY_MS } from '../../../core/durations.ts'
import { budgetLimits, type Limits, spentBefore } from '../../../core/limits.ts'
import { type Account, sum } from '../../ledger.ts'
import type { UsageRow } from '../../usage-log.ts'
import { windowOf } from '../../window.ts'

type Spent = Pick<UsageRow, 'key' | 'day' | 'costMicroUsd'>

export class OwedSpend {
  /** By scope ('' for the organisation, `k` and the key's id) and day. */
  private readonly days = new Map<string, Map<number, number>>()
  /** The accounts with what is owed now, because every reservation has one. */
  private accounts = new Map<Account, Account>()
  /** The time until which `accounts` are right: then another day begins. */
  private untilMs = 0

  constructor(rows: readonly Spent[]) {
    for (const row of rows) this.change(row, 1)
  }

  /** These rows are in Redis. */
  given(rows: readonly Spent[]): void {
    for (const row of rows) this.change(row, -1)
    this.accounts = new Map()
  }

  /** An account whose limits count what is owed as spent. */
  of(account: Account, nowMs: number): Account {
    if (nowMs >= this.untilMs) {
      this.accounts = new Map()
      this.untilMs = (Math.floor(nowMs / DAY_MS) + 1) * DAY_MS
    }
    const known = this.accounts.get(account)
    if (known !== undefined) return known
    const made = {
      ...account,
      organizationLimits: this.limitsWith('', account.organizationLimits, nowMs),
      keyLimits: this.limitsWith(`k${account.key}`, account.keyLimits, nowMs),
    }
    this.accounts.set(account, made)
    return made
  }

  private limitsWith(scope: string, limits: Limits, nowMs: number): Limits {
    const days = this.days.get(scope)
    if (limits.spend === undefined || days === undefined) return limits
    const before = budgetLimits.map((limit) => {
      const window = windowOf(limit.window, nowMs)
      let microUsd = spentBefore(limits, limit, nowMs)
      for (const [day, spent] of days)
        if (windowOf(limit.window, day * DAY_MS) === window) microUsd = sum(microUsd, spent)
      return [limit.property, { microUsd }]
    })
    return { ...limits, spend: { ...limits.spend, before: Object.fromEntries(before) } }
  }

  private change({ key, day, costMicroUsd }: Spent, sign: 1 | -1): void {
    for (const scope of ['', `k${key}`]) {
      const days = this.days.get(scope) ?? new Map<number, number>()
      this.days.set(scope, days)
      days.set(day, (days.get(day) ?? 0) + sign * costMicroUsd)
    }
  }
}

/**
 * How far budgets are passed after this node has given back what Redis had lost. While it could not do so, the other
 * nodes did not know of that spend, and admitted requests beyond the limits.
 */

import { DAY_MS } from '../../../core/durations.ts'
import { amountOf, type BudgetLimit, budgetLimits, type Limits, spentBefore } from '../../../core/limits.ts'
import { type Account, sum } from '../../ledger.ts'
import type { AccountUsage, ScopeUsage } from '../../reservation-store.ts'
import type { UsageRow } from '../../usage-log.ts'
import { windowOf } from '../../window.ts'

/** What Redis lacked of a key and a day. */
type Lacking = Pick<UsageRow, 'key' | 'day' | 'costMicroUsd'>

/** The limits of an organisation and of one of its keys; undefined if there is no such organisation any more. */
export type AccountFinder = (organization: string, key: string) => Account | undefined

/** A budget of which more is spent than its limit. */
export interface PassedBudget {
  readonly organization: string
  /** Undefined for a budget of the organisation. */
  readonly key: string | undefined
  readonly limit: BudgetLimit['name']
  readonly limitMicroUsd: number
  readonly spentMicroUsd: number
  /** What this node has given back of the budget's present window. */
  readonly givenBackMicroUsd: number
}

interface Part {
  readonly store: { figures(account: Account): Promise<AccountUsage> }
  readonly accountOf: AccountFinder
  /** False while something of the organisation is still to be sent. */
  readonly isComplete: (organization: string) => boolean
  readonly nowMs: number
}

export class PassedBudgets {
  /** What was given back and not looked at since, by organisation, then by key and day. */
  private readonly given = new Map<string, Map<string, Lacking>>()

  /** Notes what Redis lacked of an organisation, and this node gives back. */
  note(organization: string, rows: readonly UsageRow[]): void {
    const sums = new Map<string, Lacking>()
    for (const { key, day, costMicroUsd } of rows) {
      const name = `${day} ${key}`
      sums.set(name, { key, day, costMicroUsd: sum(costMicroUsd, sums.get(name)?.costMicroUsd ?? 0) })
    }
    for (const [name, { costMicroUsd }] of sums) if (costMicroUsd === 0) sums.delete(name)
    if (sums.size > 0) this.given.set(organization, new Map([...(this.given.get(organization) ?? []), ...sums]))
  }

  /**
   * Reports the budgets that are passed, each once after what was given back. An organisation that is not complete yet
   * is looked at by a later call, and so is one of which Redis does not answer; then it throws.
   */
  async report({ store, accountOf, isComplete, nowMs }: Part, report: (passed: PassedBudget) => void): Promise<void> {
    for (const [organization, lacking] of [...this.given]) {
      if (!isComplete(organization)) continue
      this.given.delete(organization)
      try {
        for (const one of await this.passedIn(organization, [...lacking.values()], { store, accountOf, nowMs }))
          report(one)
      } catch (error) {
        this.given.set(organization, new Map([...lacking, ...(this.given.get(organization) ?? [])]))
        throw error
      }
    }
  }

  private async passedIn(
    organization: string,
    lacking: readonly Lacking[],
    { store, accountOf, nowMs }: Omit<Part, 'isComplete'>,
  ): Promise<readonly PassedBudget[]> {
    const passed: PassedBudget[] = []
    let isOrganizationDue = true
    for (const [key, own] of Map.groupBy(lacking, (row) => row.key)) {
      const account = accountOf(organization, key)
      if (account === undefined || !isLimited(account, isOrganizationDue)) continue
      const usage = await store.figures(account)
      if (isOrganizationDue)
        passed.push(...passedOf({ organization }, account.organizationLimits, usage.organization, lacking, nowMs))
      isOrganizationDue = false
      passed.push(...passedOf({ organization, key }, account.keyLimits, usage.key, own, nowMs))
    }
    return passed
  }
}

function isLimited({ organizationLimits, keyLimits }: Account, isOrganizationDue: boolean): boolean {
  return keyLimits.spend !== undefined || (isOrganizationDue && organizationLimits.spend !== undefined)
}

function passedOf(
  { organization, key }: { readonly organization: string; readonly key?: string },
  limits: Limits,
  usage: ScopeUsage,
  given: readonly Lacking[],
  nowMs: number,
): readonly PassedBudget[] {
  return budgetLimits.flatMap((limit) => {
    const limitMicroUsd = amountOf(limits, limit)
    if (limitMicroUsd === undefined) return []
    const { window, spent } = usage[limit.name]
    const spentMicroUsd = sum(spent, spentBefore(limits, limit, nowMs))
    const givenBackMicroUsd = given
      .filter(({ day }) => windowOf(limit.window, day * DAY_MS) === window)
      .reduce((total, { costMicroUsd }) => sum(total, costMicroUsd), 0)
    if (givenBackMicroUsd === 0 || spentMicroUsd <= limitMicroUsd) return []
    return [{ organization, key, limit: limit.name, limitMicroUsd, spentMicroUsd, givenBackMicroUsd }]
  })
}

/**
 * The limits of counters that are raised or were reset, and of organisations that spent elsewhere: what gateways look
 * up for each request.
 */

import { replacedLimits } from '../core/budget-config.ts'
import { type Limits, type SpentBefore, spendLimits, withSpentBefore } from '../core/limits.ts'
import { type BudgetChanges, type BudgetRaise, budgetChangesOf, inForceAt } from './budget-record.ts'
import type { KeyRecord } from './key-record.ts'

/** The records as they are now. */
interface BudgetRecords {
  /** Changes with each change of a record. */
  readonly budgetsVersion: number
  budgets(organization: string): KeyRecord | undefined
  allBudgets(): Iterable<KeyRecord>
}

export class BudgetOverrides {
  private seen: BudgetRecords | undefined
  private seenVersion = -1
  private nextMs = Number.POSITIVE_INFINITY
  private count = 0

  constructor(private readonly records: () => BudgetRecords) {}

  /** Changes when a record does, and when something that holds ends. */
  get version(): number {
    const records = this.records()
    const nowMs = Date.now()
    if (records !== this.seen || records.budgetsVersion !== this.seenVersion || nowMs >= this.nextMs) {
      this.seen = records
      this.seenVersion = records.budgetsVersion
      this.nextMs = nextEndMs(records.allBudgets(), nowMs)
      this.count += 1
    }
    return this.count
  }

  /** The limits of a counter at present. `limits`: those of the configuration, which it returns if nothing holds. */
  limitsOf(organization: string, name: string, value: string, limits: Limits): Limits {
    const record = this.records().budgets(organization)
    return record === undefined ? limits : limitsWith(budgetChangesOf(record), { name, value }, limits, Date.now())
  }

  /** An organisation's own limits, with what it spent elsewhere. */
  ownLimits(organization: string, limits: Limits): Limits {
    return ownLimitsWith(this.records().budgets(organization), limits)
  }
}

/** An organisation's own limits, with what it spent elsewhere by its record. Those of the configuration if nothing. */
export function ownLimitsWith(record: KeyRecord | undefined, limits: Limits): Limits {
  const { before } = budgetChangesOf(record)
  return before === undefined ? limits : withSpentBefore(limits, before)
}

/** The limits of a counter with what holds for it at a time. */
export function limitsWith(
  changes: BudgetChanges,
  { name, value }: { readonly name: string; readonly value: string },
  limits: Limits,
  nowMs: number,
): Limits {
  const { raises, resets } = inForceAt(changes, nowMs)
  let changed = limits
  for (const raise of raises) {
    if (raisesCounter(raise, name, value)) changed = replacedLimits(changed, raise.limits)
  }
  const reset = resets.find((one) => one.name === name && one.value === value)
  return reset === undefined ? changed : withSpentBefore(changed, leftOut(reset.spent))
}

/** Whether a raise is one of a counter, or of all counters of its budget. */
export function raisesCounter(raise: BudgetRaise, name: string, value: string): boolean {
  return raise.name === name && (raise.value === '' || raise.value === value)
}

/** What was spent before a reset counts as if it had been given back. */
function leftOut(spent: SpentBefore): SpentBefore {
  return Object.fromEntries(
    spendLimits.flatMap(({ property }) => {
      const one = spent[property]
      return one === undefined ? [] : [[property, { ...one, microUsd: -one.microUsd }]]
    }),
  )
}

function nextEndMs(records: Iterable<KeyRecord>, nowMs: number): number {
  let next = Number.POSITIVE_INFINITY
  for (const record of records) {
    const { raises, resets } = budgetChangesOf(record)
    const ends = resets.flatMap(({ spent }) => spendLimits.map(({ property }) => spent[property]?.untilMs ?? 0))
    for (const end of [...raises.map(({ untilMs }) => untilMs), ...ends]) if (end > nowMs) next = Math.min(next, end)
  }
  return next
}

/**
 * Sets back budget windows that began too early. Windows never go back by themselves: after a clock ran ahead, a budget
 * would not renew until the real time has caught up. Owns what counts as spent in the windows that are set back, and
 * which windows lie ahead of the clock.
 */

import { type BudgetConfig, counterValue, matchesKey, matchesModel, matchesTags } from '../core/budget-config.ts'
import { EAST_MAX_MS } from '../core/calendar.ts'
import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { type BudgetLimit, budgetLimits, hasLimit, type Limit } from '../core/limits.ts'
import { tagsByName } from '../core/tags.ts'
import { counterName, usedOf } from './ledger.ts'
import type { UsageRow } from './usage-log.ts'
import { partsOf } from './usage-series.ts'
import { dayOf, keptUntil, NEVER_MS, windowOf, windowsIn } from './window.ts'

/** The organisation whose windows are set back, with what decides which requests its counters count. */
export interface ResetOrganization {
  readonly id: string
  readonly timezone?: string | undefined
  readonly budgets?: readonly BudgetConfig[] | undefined
}

export interface WindowReset {
  /**
   * Sets windows of the organisation, its keys and the counters of its budgets that lie ahead of the clock back to now;
   * `usage` decides what was spent in them. Returns how many it set back. If it is any, counters that have ended by the
   * wrong clock begin again, with what they had spent. Requests that run meanwhile count in the total alone.
   */
  reset(organization: ResetOrganization, usage: readonly UsageRow[]): Promise<number>
  /** The same for one counter, by its name: what it has spent since its windows began too early counts. */
  resetCounter(organization: ResetOrganization, name: string): Promise<number>
  close(): Promise<void>
}

/** The clocks disagree, or a gateway has the ledger open. `message` is a complete line for the operator. */
export class WindowResetError extends Error {
  override readonly name = 'WindowResetError'
}

/**
 * What was spent of each budget in the current windows, in the order of `budgetLimits`; usage in windows that lie ahead
 * counts as spent now. `key` undefined: by all keys.
 */
export function spentNow(usage: readonly UsageRow[], key: string | undefined, nowMs: number): readonly number[] {
  const spent = budgetLimits.map(() => 0)
  for (const row of usage) {
    if (key !== undefined && row.key !== key) continue
    const used = usedOf(row, row.requests)
    for (const [i, { window, unit }] of budgetLimits.entries()) {
      if (windowOf(window, row.day * DAY_MS) >= windowOf(window, nowMs)) spent[i] = (spent[i] ?? 0) + used[unit]
    }
  }
  return spent
}

/** What usage has of a counter in the current windows, in the order of `budgetLimits`. */
export interface RecordedSpend {
  readonly spent: readonly number[]
  /** Until when the counter is kept if no request comes. */
  readonly keptMs: number
}

/**
 * The same for each counter with a limit of a window that usage can be attributed to, by its name. Usage lacks the tags
 * that reports do not count, and has one value for all combinations of tags beyond the bound. A counter of such a value
 * keeps what it has spent since its window began too early.
 */
export function spentNowByCounter(
  usage: readonly UsageRow[],
  { timezone = 'UTC', budgets = [] }: ResetOrganization,
  nowMs: number,
): ReadonlyMap<string, RecordedSpend> {
  const found = new Map<string, { readonly spent: number[]; readonly keptMs: number }>()
  const { starts, ends } = windowsIn(timezone, nowMs)
  for (const row of usage) {
    const { model, tags, hour } = partsOf(row.series)
    // An hour or a day of UTC may lie in two windows of the time zone. It counts in the later one, because one wrong
    // clock must not give a budget away.
    const endMs = row.day * DAY_MS + (hour === undefined ? DAY_MS : (hour + 1) * HOUR_MS)
    const counts = budgetLimits.map(({ window }, i) => window !== 'total' && endMs > (starts[i] ?? 0))
    if (!counts.includes(true)) continue
    const used = usedOf(row, row.requests)
    for (const [budget, value] of countedIn(budgets, row.key, tags, model)) {
      const terms = { limits: budget.except.get(value) ?? budget.limits, idleMs: budget.idleMs }
      if (!hasLimit([terms.limits], isWindowed)) continue
      const { spent } = found.getOrInsertComputed(counterName({ name: budget.name, value }), () => {
        return { spent: budgetLimits.map(() => 0), keptMs: keptUntil(nowMs, ends, terms) }
      })
      for (const [i, { unit }] of budgetLimits.entries()) if (counts[i]) spent[i] = (spent[i] ?? 0) + used[unit]
    }
  }
  return found
}

/** The first day of UTC with usage that may count in a current window of the organisation's counters. */
export function firstDayNow({ timezone = 'UTC' }: ResetOrganization, nowMs: number): number {
  const { starts } = windowsIn(timezone, nowMs)
  return dayOf(Math.min(...starts.filter((_, i) => budgetLimits[i]?.window !== 'total')))
}

function isWindowed({ kind, window }: Limit & { readonly window?: string }): boolean {
  return kind === 'budget' && window !== 'total'
}

/** The budgets that count a request, and for which value. */
function countedIn(
  budgets: readonly BudgetConfig[],
  key: string,
  tags: string,
  model: string,
): readonly (readonly [BudgetConfig, string])[] {
  const values = tagsByName(tags)
  return budgets.flatMap((budget) => {
    if (!matchesKey(budget, key) || !matchesModel(budget, model) || !matchesTags(budget, values)) return []
    const value = counterValue(budget, key, values, model)
    return value === undefined ? [] : [[budget, value] as const]
  })
}

/** True if one of a scope's windows, in the order of `budgetLimits`, lies ahead of the clock. Not for counters. */
export function isAhead(windows: readonly number[], nowMs: number): boolean {
  return budgetLimits.some(({ window }, i) => (windows[i] ?? 0) > windowOf(window, nowMs))
}

/** By the calendar no window is longer, daylight saving included. */
const LONGEST_MS: Readonly<Record<BudgetLimit['window'], number>> = {
  hour: 2 * HOUR_MS,
  day: DAY_MS + 2 * HOUR_MS,
  week: 7 * DAY_MS + 2 * HOUR_MS,
  month: 31 * DAY_MS + 2 * HOUR_MS,
  total: NEVER_MS,
}

/** In the order of `budgetLimits`, of all time zones. */
interface BegunWindows {
  /** The latest windows that have begun. */
  readonly windows: readonly number[]
  /** The latest time at which a window ends that has begun. */
  readonly ends: readonly number[]
}

/**
 * Which windows of counters may have begun. A counter's window may be one of another time zone than its organisation's,
 * if that was changed: then it goes on until its end, and is not ahead.
 */
export function begunWindows(nowMs: number): BegunWindows {
  return {
    windows: budgetLimits.map(({ window }) => windowOf(window, nowMs + EAST_MAX_MS)),
    ends: budgetLimits.map(({ window }) => Math.min(NEVER_MS, nowMs + LONGEST_MS[window])),
  }
}

/** For each window of a counter, whether it lies ahead of the clock in every time zone. `counters.lua` is the same. */
export function windowsAhead(
  counter: { readonly windows: readonly number[]; readonly ends: readonly number[] },
  begun: BegunWindows,
): readonly boolean[] {
  return budgetLimits.map((_, i) => {
    const [window = 0, end = NEVER_MS] = [counter.windows[i], counter.ends[i]]
    return window > (begun.windows[i] ?? 0) || (end !== NEVER_MS && end > (begun.ends[i] ?? 0))
  })
}

export const AHEAD_ADVICE =
  'a clock was ahead: a window of its budgets began too early and does not renew until then ' +
  '(weir ledger reset-window --org ID)'

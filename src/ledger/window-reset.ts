/**
 * Sets back days and months that began too early. Windows never go back by themselves: after a clock ran ahead, a
 * budget would not renew until the real time has caught up. Owns what counts as spent in the windows that are set back.
 */

import { DAY_MS } from '../core/durations.ts'
import { budgetLimits } from '../core/limits.ts'
import { usedOf } from './ledger.ts'
import type { UsageRow } from './usage-log.ts'
import { windowOf } from './window.ts'

export interface WindowReset {
  /**
   * Sets windows of the organisation and of its keys that lie ahead of the clock back to now; `usage` decides what was
   * spent in them. Returns how many it set back. Requests that run meanwhile count in the total alone.
   */
  reset(organization: string, usage: readonly UsageRow[]): Promise<number>
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

/** True if one of a scope's windows, in the order of `budgetLimits`, lies ahead of the clock. */
export function isAhead(windows: readonly number[], nowMs: number): boolean {
  return budgetLimits.some(({ window }, i) => (windows[i] ?? 0) > windowOf(window, nowMs))
}

export const AHEAD_ADVICE =
  'a clock was ahead: a day or month of its budgets began too early and does not renew until then ' +
  '(weir ledger reset-window --org ID)'

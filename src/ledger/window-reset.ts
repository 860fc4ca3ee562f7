/**
 * Takes back days and months that began too early: windows never go back by themselves, so after a clock that was ahead a budget would not renew
 * until the true time has caught up. Owns what counts as spent in the windows that hold then.
 */

import type { UsageRow } from './usage-log.ts'
import { dayOf, monthOf } from './window.ts'

/** Micro-dollars. */
export interface WindowSpend {
  readonly day: number
  readonly month: number
}

export interface WindowReset {
  /**
   * Sets windows of the organisation and of its keys that lie ahead of the clock back to now, with what its usage says was spent since they began.
   * Gives how many it set back. What runs meanwhile counts in the total alone.
   */
  reset(organization: string, usage: readonly UsageRow[]): Promise<number>
  close(): Promise<void>
}

/** Clocks that disagree, or a gateway that is in the way: `message` is for the operator, whole. */
export class WindowResetError extends Error {
  override readonly name = 'LedgerFileError'
}

/** What was spent in the windows of now. What was counted in those ahead is spent now. `key` undefined: by all keys. */
export function spendNow(usage: readonly UsageRow[], key: string | undefined, nowMs: number): WindowSpend {
  let [day, month] = [0, 0]
  for (const row of usage) {
    if (key !== undefined && row.key !== key) continue
    if (row.day >= dayOf(nowMs)) day += row.costMicroUsd
    if (monthOf(row.day * DAY_MS) >= monthOf(nowMs)) month += row.costMicroUsd
  }
  return { day, month }
}

const DAY_MS = 86_400_000

/** Whether a window of an organisation or a key lies ahead. */
export function isAhead(day: number, month: number, nowMs: number): boolean {
  return day > dayOf(nowMs) || month > monthOf(nowMs)
}

export const AHEAD_ADVICE =
  'a clock was ahead: a day or month of its budgets began too early and does not renew until then (weir ledger reset-window --org ID)'

/**
 * Sets back days and months that began too early. Windows never go back by themselves: after a clock ran ahead, a
 * budget would not renew until the real time has caught up. Owns what counts as spent in the windows that are set back.
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
   * Sets windows of the organisation and of its keys that lie ahead of the clock back to now; `usage` decides what was
   * spent in them. Returns how many it set back. Requests that run meanwhile count in the total alone.
   */
  reset(organization: string, usage: readonly UsageRow[]): Promise<number>
  close(): Promise<void>
}

/** The clocks disagree, or a gateway has the ledger open. `message` is a complete line for the operator. */
export class WindowResetError extends Error {
  override readonly name = 'LedgerFileError'
}

/**
 * What was spent in the current windows; usage in windows that lie ahead counts as spent now. `key` undefined: by all
 * keys.
 */
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

/** True if a window of an organisation or a key lies ahead of the clock. */
export function isAhead(day: number, month: number, nowMs: number): boolean {
  return day > dayOf(nowMs) || month > monthOf(nowMs)
}

export const AHEAD_ADVICE =
  'a clock was ahead: a day or month of its budgets began too early and does not renew until then (weir ledger reset-window --org ID)'

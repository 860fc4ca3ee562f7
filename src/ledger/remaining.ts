/** Computes what is left of each limit, and what a reservation would get, for `weir explain`. */

import { amountOf, type Limit, type Limits, limitTable, spentBefore } from '../core/limits.ts'
import type { Account, Hold } from './ledger.ts'
import type { AccountUsage, ReserveReply, ScopeUsage } from './reservation-store.ts'
import { windowEndMs } from './window.ts'

export interface AccountUsageReader {
  /** The current use, from the ledger, of the limits of the account. A gateway need not run. */
  read(account: Account): Promise<AccountUsage>
  /** The same for many accounts, in their order. */
  readAll(accounts: readonly Account[]): Promise<readonly AccountUsage[]>
  /**
   * The names of the counters that each of the organisations has, in their order, as `counterName` makes them. Of
   * `refused`, those that never refused a request may be missing.
   */
  counters(organizations: readonly string[], which: 'all' | 'refused'): Promise<readonly (readonly string[])[]>
  /** What a reservation would get now. Reserves nothing. */
  preview(account: Account, hold: Hold): Promise<ReserveReply>
  /** A problem of the ledger that makes its figures unreliable; undefined if there is none. */
  warning(): Promise<string | undefined>
  close(): Promise<void>
}

/** A limit that is set; amounts in its unit. */
export interface RemainingLimit {
  readonly limit: Limit
  readonly most: number
  /** What is used of a rate or of concurrency; what is spent and held of a budget. */
  readonly used: number
  readonly left: number
  /** When a budget renews, in Unix milliseconds; undefined for a total budget, for rates and for concurrency. */
  readonly renewsAtMs: number | undefined
}

/** The limits of an organisation or a key that are set, with what is left of each. */
export function remainingLimits(limits: Limits, figures: ScopeUsage, nowMs = Date.now()): readonly RemainingLimit[] {
  return limitTable.flatMap((limit) => {
    const most = amountOf(limits, limit)
    if (most === undefined) return []
    const used = usedOf(figures, limit) + spentBefore(limits, limit, nowMs)
    const renewsAtMs = limit.kind === 'budget' ? windowEndMs(limit.window, figures[limit.name].window) : undefined
    return [{ limit, most, used, left: Math.max(0, most - used), renewsAtMs }]
  })
}

function usedOf(figures: ScopeUsage, limit: Limit): number {
  if (limit.kind === 'concurrency') return figures.live
  if (limit.kind === 'rate') return figures[limit.name]
  const { spent, held } = figures[limit.name]
  return spent + held
}

/** What is left of each limit: what `weir explain` shows. Works whether or not a gateway runs. */

import { amountOf, type Limit, type Limits, limitTable } from '../core/limits.ts'
import type { Account } from './ledger.ts'
import type { AccountUsage, ScopeUsage } from './reservation-store.ts'
import { windowEndMs } from './window.ts'

export interface AccountUsageReader {
  /** As of now. Limits are taken from the account; what is used, held and spent from the ledger. */
  read(account: Account): Promise<AccountUsage>
  /** What the operator should know of how the ledger keeps its figures; undefined if there is nothing to report. */
  warning(): Promise<string | undefined>
  close(): Promise<void>
}

/** One limit that is set, in its unit. */
export interface RemainingLimit {
  readonly limit: Limit
  readonly most: number
  /** What is used, or spent and held. */
  readonly used: number
  readonly left: number
  /** When a budget renews; undefined for one that never does, and for rates, which refill all the time. */
  readonly renewsAtMs: number | undefined
}

/** The limits of an organisation or a key that are set, with what is left of each. */
export function remainingLimits(limits: Limits, figures: ScopeUsage): readonly RemainingLimit[] {
  return limitTable.flatMap((limit) => {
    const most = amountOf(limits, limit)
    if (most === undefined) return []
    const used = usedOf(figures, limit)
    const renewsAtMs = limit.kind === 'budget' ? windowEndMs(limit.window, figures[limit.name].window) : undefined
    return [{ limit, most, used, left: Math.max(0, most - used), renewsAtMs }]
  })
}

function usedOf(figures: ScopeUsage, limit: Limit): number {
  if (limit.kind === 'places') return figures.live
  if (limit.kind === 'rate') return figures[limit.name]
  const { spent, held } = figures[limit.name]
  return spent + held
}

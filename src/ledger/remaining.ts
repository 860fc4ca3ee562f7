/** What is left of each limit: what `weir explain` shows. Works whether or not a gateway runs. */

import type { Limits } from '../core/money.ts'
import type { Account } from './ledger.ts'
import { type Figures, type FiguresOf, type LimitName, limitNames } from './reservation-store.ts'
import { dayEndMs, monthEndMs } from './window.ts'

export interface Standings {
  /** As of now. Limits are taken from the account; what is used, held and spent from the ledger. */
  read(account: Account): Promise<FiguresOf>
  /** What the operator should know of how the ledger keeps its figures; undefined if there is nothing to say. */
  warning(): Promise<string | undefined>
  close(): Promise<void>
}

/** One limit that is set. Requests, tokens and places are numbers; spend is micro-dollars. */
export interface Left {
  readonly limit: LimitName
  readonly most: number
  /** What is used, or spent and held. */
  readonly used: number
  readonly left: number
  /** When a spend limit renews; undefined for the total, and for rates, which refill all the time. */
  readonly renewsAtMs: number | undefined
}

/** The limits of an organisation or a key that are set, with what is left of each. */
export function leftOf(limits: Limits, figures: Figures): readonly Left[] {
  return limitNames.flatMap((limit) => {
    const most = mostOf(limits, limit)
    if (most === undefined) return []
    const used = usedOf(figures, limit)
    return [{ limit, most, used, left: Math.max(0, most - used), renewsAtMs: renewal(figures, limit) }]
  })
}

function mostOf(limits: Limits, limit: LimitName): number | undefined {
  switch (limit) {
    case 'requests':
      return limits.requestsPerMinute
    case 'tokens':
      return limits.tokensPerMinute
    case 'concurrent_requests':
      return limits.concurrentRequests
    case 'day':
    case 'month':
    case 'total':
      return limits.spend?.[limit]
  }
}

function usedOf(figures: Figures, limit: LimitName): number {
  switch (limit) {
    case 'requests':
    case 'tokens':
      return figures[limit]
    case 'concurrent_requests':
      return figures.live
    case 'day':
    case 'month':
    case 'total':
      return figures[limit].spent + figures[limit].held
  }
}

function renewal(figures: Figures, limit: LimitName): number | undefined {
  if (limit === 'day') return dayEndMs(figures.day.window)
  return limit === 'month' ? monthEndMs(figures.month.window) : undefined
}

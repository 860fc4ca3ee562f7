/** The limits of an organisation or a key in words, with what is left of each. */

import { amountOf, type Limit, type Limits, limitTable } from '../core/limits.ts'
import { dollars } from '../ledger/refusal.ts'
import { type RemainingLimit, remainingLimits } from '../ledger/remaining.ts'
import type { ScopeUsage } from '../ledger/reservation-store.ts'

/** One line; `figures` is undefined if it is not known what is left. */
export function limitLine(owner: string, limits: Limits, figures: ScopeUsage | undefined): string {
  const parts = figures === undefined ? amounts(limits) : remainingLimits(limits, figures).map(leftText)
  return `limits of ${owner}: ${parts.length === 0 ? 'none' : parts.join(', ')}`
}

function amounts(limits: Limits): readonly string[] {
  return limitTable.flatMap((limit) => {
    const amount = amountOf(limits, limit)
    return amount === undefined ? [] : [amountText(limit, amount)]
  })
}

function amountText(limit: Limit, amount: number): string {
  return `${numberText(limit, amount)} ${limit.words}`
}

function leftText({ limit, most, left, renewsAtMs }: RemainingLimit): string {
  // Windows end with a UTC day.
  const renewal = renewsAtMs === undefined ? '' : `, renews ${new Date(renewsAtMs).toISOString().slice(0, 10)}`
  return `${amountText(limit, most)} (${numberText(limit, left)} left${renewal})`
}

function numberText({ unit }: Limit, amount: number): string {
  return unit === 'micro_usd' ? dollars(amount) : String(amount)
}

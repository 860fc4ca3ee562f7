/** Reads the words and numbers of script replies as refusals, remaining rates and usage. */

import {
  amountOf,
  budgetLimits,
  byName,
  byUnit,
  limitTable,
  limitUnits,
  rateLimits,
  type UnitAmounts,
} from '../../../core/limits.ts'
import type { Account, RateStatus, RateStatuses } from '../../ledger.ts'
import { tighter } from '../../rate-limit-headers.ts'
import { type Refusal, type ScopeUsage, scopeNames } from '../../reservation-store.ts'

/** The numbers of a reply, after its outcome and words. */
export type Numbers = readonly number[]

/** Throws `RangeError` if the reply has too few numbers. */
export function numberAt(numbers: Numbers, index: number): number {
  const value = numbers[index]
  if (value === undefined) throw new RangeError('A reply from Redis has too few numbers.')
  return value
}

/** Reads the limit that rejects a request, and its wait. Throws `RangeError` if the limit is unknown. */
export function refusalOf([scopeName, limitName]: readonly string[], numbers: Numbers): Refusal {
  const scope = scopeNames.find((name) => name === scopeName)
  const limit = limitTable.find(({ name }) => name === limitName)?.name
  const wait = numberAt(numbers, 0)
  if (scope === undefined || limit === undefined)
    throw new RangeError(`Unknown limit in a reply from Redis: '${limitName}' of '${scopeName}'.`)
  const [held, spent] = [numberAt(numbers, 1) === 1, numberAt(numbers, 3)]
  return { scope, limit, waitMs: wait < 0 ? undefined : wait, held, spent: spent < 0 ? undefined : spent }
}

/** A number for each unit. */
export function roomOf(numbers: Numbers, from: number): UnitAmounts {
  return byUnit((unit) => numberAt(numbers, from + limitUnits.indexOf(unit)))
}

/** Two numbers for each rate of the organisation, then of the key: what remains, and the milliseconds until full. */
export function ratesOf({ organizationLimits, keyLimits }: Account, numbers: Numbers, from: number): RateStatuses {
  const rates: (RateStatus | undefined)[] = []
  for (const limit of rateLimits) {
    const ofOrganization = from + 2 * rates.length
    const ofKey = ofOrganization + 2 * rateLimits.length
    rates.push(
      tighter(
        rateOf(amountOf(organizationLimits, limit), numbers, ofOrganization),
        rateOf(amountOf(keyLimits, limit), numbers, ofKey),
      ),
    )
  }
  return rates
}

function rateOf(limit: number | undefined, numbers: Numbers, index: number): RateStatus | undefined {
  return limit === undefined
    ? undefined
    : { limit, remaining: numberAt(numbers, index), resetMs: numberAt(numbers, index + 1) }
}

/** Reads the numbers that `figures.lua` returns for one scope. */
export function scopeUsageOf(numbers: Numbers): ScopeUsage {
  const budgets = rateLimits.length + 1
  return {
    live: numberAt(numbers, rateLimits.length),
    ...byName(rateLimits, (_, index) => numberAt(numbers, index)),
    ...byName(budgetLimits, (_, index) => ({
      window: numberAt(numbers, budgets + 4 * index),
      spent: numberAt(numbers, budgets + 4 * index + 1),
      held: numberAt(numbers, budgets + 4 * index + 2),
      refused: numberAt(numbers, budgets + 4 * index + 3),
    })),
  }
}

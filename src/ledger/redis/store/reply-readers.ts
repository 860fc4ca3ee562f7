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
import {
  type AccountUsage,
  type CounterUsage,
  type Refusal,
  refusalScope,
  type ScopeUsage,
  scopeNames,
} from '../../reservation-store.ts'

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
  const place = placeOf(scopeName)
  const limit = limitTable.find(({ name }) => name === limitName)?.name
  const wait = numberAt(numbers, 0)
  if (place === undefined || limit === undefined)
    throw new RangeError(`Unknown limit in a reply from Redis: '${limitName}' of '${scopeName}'.`)
  const [held, spent] = [numberAt(numbers, 1) === 1, numberAt(numbers, 3)]
  return {
    ...refusalScope(place),
    limit,
    waitMs: wait < 0 ? undefined : wait,
    held,
    spent: spent < 0 ? undefined : spent,
  }
}

/** The place of an owner in the lists of an account: `organization`, `key`, or `budget` and the number of a counter. */
function placeOf(scopeName = ''): number | undefined {
  const [, counter] = /^budget(\d+)$/.exec(scopeName) ?? []
  if (counter !== undefined) return scopeNames.length + Number(counter)
  const owners: readonly string[] = scopeNames
  const place = owners.indexOf(scopeName)
  return place < 0 ? undefined : place
}

/** A number for each unit. */
export function roomOf(numbers: Numbers, from: number): UnitAmounts {
  return byUnit((unit) => numberAt(numbers, from + limitUnits.indexOf(unit)))
}

/**
 * Two numbers for each rate of the organisation, of the key, then of each counter: what remains, and the milliseconds
 * until full.
 */
export function ratesOf(account: Account, numbers: Numbers, from: number): RateStatuses {
  const { organizationLimits, keyLimits, budgets = [] } = account
  const rates: (RateStatus | undefined)[] = []
  for (const limit of rateLimits) {
    const ofOrganization = from + 2 * rates.length
    const ofKey = ofOrganization + 2 * rateLimits.length
    let status = tighter(
      rateOf(amountOf(organizationLimits, limit), numbers, ofOrganization),
      rateOf(amountOf(keyLimits, limit), numbers, ofKey),
    )
    for (const [i, { limits }] of budgets.entries()) {
      const ofCounter = ofOrganization + 2 * rateLimits.length * (scopeNames.length + i)
      status = tighter(status, rateOf(amountOf(limits, limit), numbers, ofCounter))
    }
    rates.push(status)
  }
  return rates
}

function rateOf(limit: number | undefined, numbers: Numbers, index: number): RateStatus | undefined {
  return limit === undefined
    ? undefined
    : { limit, remaining: numberAt(numbers, index), resetMs: numberAt(numbers, index + 1) }
}

/** Reads the numbers that `figures.lua` returns for one scope. */
function scopeUsageOf(numbers: Numbers): ScopeUsage {
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

/** How many numbers `figures.lua` returns for an organisation or a key, and for a counter. */
const SCOPE_NUMBERS = rateLimits.length + 1 + 4 * budgetLimits.length
const COUNTER_NUMBERS = SCOPE_NUMBERS + budgetLimits.length + 1

/** Reads all numbers that `figures.lua` returns. */
export function accountUsageOf(numbers: Numbers): AccountUsage {
  const [organization, key] = [numbers, numbers.slice(SCOPE_NUMBERS)].map(scopeUsageOf)
  if (organization === undefined || key === undefined) throw new RangeError('A reply from Redis has too few scopes.')
  const budgets: CounterUsage[] = []
  for (let from = 2 * SCOPE_NUMBERS; from < numbers.length; from += COUNTER_NUMBERS) {
    const own = numbers.slice(from, from + COUNTER_NUMBERS)
    const endsMs = byName(budgetLimits, (_, index) => numberAt(own, SCOPE_NUMBERS + index))
    budgets.push({ usage: scopeUsageOf(own), endsMs, keptMs: numberAt(own, COUNTER_NUMBERS - 1) })
  }
  return budgets.length === 0 ? { organization, key } : { organization, key, budgets }
}

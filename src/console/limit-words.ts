/** Limits in words: their names and amounts. */

import { count, dollars } from '../core/figure-text.ts'

/** The words of the configuration's limits; another one is shown by its name. */
const LIMITS: Readonly<Record<string, string>> = {
  'spend.day': 'Spend a day',
  'spend.month': 'Spend a month',
  'spend.total': 'Spend in total',
  requests_per_minute: 'Requests a minute',
  tokens_per_minute: 'Tokens a minute',
  concurrent_requests: 'Concurrent requests',
}

export function limitWords(limit: string): string {
  return LIMITS[limit] ?? limit
}

export function amountText(unit: string, amount: number): string {
  return unit === 'micro_usd' ? dollars(amount) : count(amount)
}

/** Formats what is left of the rate limits as `x-ratelimit-*` headers. */

import { rateLimits } from '../core/limits.ts'
import type { RateStatus, Reservation } from './ledger.ts'

/** The status with less left; the first of equals. */
export function tighter(a: RateStatus | undefined, b: RateStatus | undefined): RateStatus | undefined {
  if (a === undefined || b === undefined) return a ?? b
  return b.remaining < a.remaining ? b : a
}

const NO_HEADERS: Readonly<Record<string, string>> = {}

/** The names of the headers of each rate, made once: six strings less for each answer. */
const HEADERS = rateLimits.map(({ header }) => ({
  limit: `x-ratelimit-limit-${header}`,
  remaining: `x-ratelimit-remaining-${header}`,
  reset: `x-ratelimit-reset-${header}`,
}))

/** Headers with OpenAI's names, which its SDKs read; none for a rate without a limit. */
export function rateLimitHeaders({ rates = [] }: Pick<Reservation, 'rates'>): Readonly<Record<string, string>> {
  let headers: Record<string, string> | undefined
  for (let i = 0; i < rates.length; i++) {
    const status = rates[i]
    const names = HEADERS[i]
    if (status === undefined || names === undefined) continue
    headers ??= {}
    headers[names.limit] = String(status.limit)
    headers[names.remaining] = String(status.remaining)
    headers[names.reset] = duration(status.resetMs)
  }
  return headers ?? NO_HEADERS
}

/** `120ms`, `1.5s`, `1m0s`. */
function duration(ms: number): string {
  if (ms < 1000) return `${ms}ms`
  if (ms < 60_000) return `${ms / 1000}s`
  return `${Math.floor(ms / 60_000)}m${Math.ceil((ms % 60_000) / 1000)}s`
}

/** How long a provider asks clients to wait, from its response headers. */

import type { ResponseHeaders } from './provider.ts'

/**
 * Milliseconds, or undefined: `retry-after-ms`, `retry-after` in seconds or as a date, else the reset of an exhausted
 * limit (`x-ratelimit-remaining-*`, `x-ratelimit-reset-*`). Only for responses with status 429: others carry limit
 * headers as mere information.
 */
export function rateLimitedMs(headers: ResponseHeaders): number | undefined {
  return retryAfterMs(headers) ?? exhaustedMs(headers)
}

/** `retry-after-ms` or `retry-after`, in milliseconds. */
export function retryAfterMs(headers: ResponseHeaders): number | undefined {
  const ms = numberIn(headers.get('retry-after-ms'))
  if (ms !== undefined) return ms
  const after = headers.get('retry-after') ?? ''
  const seconds = numberIn(after)
  if (seconds !== undefined) return seconds * 1000
  const dateMs = Date.parse(after)
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - Date.now())
}

/** Providers limit requests and tokens separately; some have one limit without a name. */
const LIMITS = ['-requests', '-tokens', ''].map((limit) => ({
  remaining: `x-ratelimit-remaining${limit}`,
  reset: `x-ratelimit-reset${limit}`,
}))

/**
 * The longest wait of the limits with nothing left, in milliseconds: before it the next request would be rejected.
 * Undefined if every limit has something left, or none is reported.
 */
export function exhaustedMs(headers: ResponseHeaders): number | undefined {
  let longest: number | undefined
  for (const { remaining, reset } of LIMITS) {
    const left = headers.get(remaining)
    if (left === null || numberIn(left) !== 0) continue
    const ms = durationMs(headers.get(reset) ?? '')
    if (ms !== undefined) longest = Math.max(longest ?? 0, ms)
  }
  return longest
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** A larger number of seconds is a Unix time; one a thousand times larger is a Unix time in milliseconds. */
const EPOCH_SECONDS_MIN = 1_000_000_000

/** `6m0s`, `20ms`, `1.5` (seconds), a Unix time in seconds or milliseconds, a date. */
function durationMs(text: string): number | undefined {
  const number = numberIn(text)
  if (number !== undefined) {
    if (number < EPOCH_SECONDS_MIN) return number * 1000
    return Math.max(0, (number < EPOCH_SECONDS_MIN * 1000 ? number * 1000 : number) - Date.now())
  }
  if (/^(?:\d+(?:\.\d+)?(?:ms|[smhd]))+$/.test(text)) {
    const parts = text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhd])/g)
    return [...parts].reduce((sum, [, amount, unit = '']) => sum + Number(amount) * (UNIT_MS[unit] ?? 0), 0)
  }
  const dateMs = Date.parse(text)
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - Date.now())
}

function numberIn(text: string | null): number | undefined {
  return text !== null && /^\d+(?:\.\d+)?$/.test(text.trim()) ? Number(text) : undefined
}

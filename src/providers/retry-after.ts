/** How long a provider asks clients to wait, from its response headers. */

import type { ResponseHeaders } from './provider.ts'

/**
 * Milliseconds, or undefined: `retry-after-ms`, `retry-after` in seconds or as a date, else the reset of an exhausted
 * limit (`x-ratelimit-remaining-*`, `x-ratelimit-reset-*`). Only for responses with status 429: others carry limit
 * headers as mere information.
 */
export function rateLimitedMs(headers: ResponseHeaders): number | undefined {
  return retryAfterMs(headers) ?? resetMs(headers)
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
const LIMITS = ['-requests', '-tokens', ''] as const

/** The longest wait of the exhausted limits: before it the next request would be rejected again. */
function resetMs(headers: ResponseHeaders): number | undefined {
  const waits = LIMITS.flatMap((limit) => {
    if (numberIn(headers.get(`x-ratelimit-remaining${limit}`)) !== 0) return []
    return durationMs(headers.get(`x-ratelimit-reset${limit}`) ?? '') ?? []
  })
  return waits.length === 0 ? undefined : Math.max(...waits)
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

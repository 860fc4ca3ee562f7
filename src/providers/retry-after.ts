/** How long a provider asks to be left alone, in all the ways in which its headers say so. */

/**
 * `retry-after-ms`, `retry-after` in seconds or as a date; where there is neither, when the limit that is used up is filled again
 * (`x-ratelimit-remaining-*`, `x-ratelimit-reset-*`). Milliseconds, or undefined. For an answer with status 429: others carry the
 * headers of limits, too, and mean nothing by them.
 */
export function rateLimitedMs(headers: Headers): number | undefined {
  return retryAfterMs(headers) ?? resetMs(headers)
}

/** What the headers say outright. */
export function retryAfterMs(headers: Headers): number | undefined {
  const ms = numberIn(headers.get('retry-after-ms'))
  if (ms !== undefined) return ms
  const after = headers.get('retry-after') ?? ''
  const seconds = numberIn(after)
  if (seconds !== undefined) return seconds * 1000
  const dateMs = Date.parse(after)
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - Date.now())
}

/** Providers count requests and tokens apart; some have one limit without a name. */
const LIMITS = ['-requests', '-tokens', ''] as const

/** The longest wait of those limits that are used up: before it the next request would be refused again. */
function resetMs(headers: Headers): number | undefined {
  const waits = LIMITS.flatMap((limit) => {
    if (numberIn(headers.get(`x-ratelimit-remaining${limit}`)) !== 0) return []
    return durationMs(headers.get(`x-ratelimit-reset${limit}`) ?? '') ?? []
  })
  return waits.length === 0 ? undefined : Math.max(...waits)
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }
/** A number of seconds beyond it is a time, a number beyond a thousand times it one in milliseconds. */
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

/** How long a provider asks clients to wait, and what it reports of its limits, from its response headers. */

import type { ReportedLimit } from '../core/capacity-limits.ts'
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
const LIMITS = (['requests', 'tokens', ''] as const).map((name) => {
  const suffix = name === '' ? '' : `-${name}`
  return {
    unit: name === 'tokens' ? ('tokens' as const) : ('requests' as const),
    remaining: `x-ratelimit-remaining${suffix}`,
    limit: `x-ratelimit-limit${suffix}`,
    reset: `x-ratelimit-reset${suffix}`,
  }
})
const ANTHROPIC = 'anthropic-ratelimit-'

/** What a provider reports of its limits, at most one limit of each unit. */
export function reportedLimits(headers: ResponseHeaders): readonly ReportedLimit[] {
  const found: ReportedLimit[] = []
  for (const { unit, ...names } of LIMITS) {
    if (found.some((other) => other.unit === unit)) continue
    const remaining = numberIn(headers.get(names.remaining))
    if (remaining === undefined) continue
    found.push(limitOf(headers, unit, remaining, names))
  }
  if (found.length > 0 || !headers.has(`${ANTHROPIC}requests-remaining`)) return found
  const requests = anthropicLimit(headers, 'requests', 'requests')
  const tokens = bothOf(
    anthropicLimit(headers, 'input-tokens', 'tokens'),
    anthropicLimit(headers, 'output-tokens', 'tokens'),
  )
  const either = tokens ?? anthropicLimit(headers, 'tokens', 'tokens')
  return [requests, either].filter((one) => one !== undefined)
}

function anthropicLimit(
  headers: ResponseHeaders,
  name: string,
  unit: ReportedLimit['unit'],
): ReportedLimit | undefined {
  const names = { limit: `${ANTHROPIC}${name}-limit`, reset: `${ANTHROPIC}${name}-reset` }
  const remaining = numberIn(headers.get(`${ANTHROPIC}${name}-remaining`))
  return remaining === undefined ? undefined : limitOf(headers, unit, remaining, names)
}

function limitOf(
  headers: ResponseHeaders,
  unit: ReportedLimit['unit'],
  remaining: number,
  names: { readonly limit: string; readonly reset: string },
): ReportedLimit {
  return {
    unit,
    remaining,
    limit: numberIn(headers.get(names.limit)),
    // Read only of a limit that is nearly used up.
    get resetMs() {
      return durationMs(headers.get(names.reset) ?? '')
    },
  }
}

/** Input and output are limited separately, and counted together here: the scarcer one decides, by its share. */
function bothOf(input: ReportedLimit | undefined, output: ReportedLimit | undefined): ReportedLimit | undefined {
  if (input?.limit === undefined || output?.limit === undefined) return undefined
  const limit = input.limit + output.limit
  const [scarce] = [input, output].sort((a, b) => shareOf(a) - shareOf(b))
  return { unit: 'tokens', remaining: Math.floor(shareOf(scarce) * limit), limit, resetMs: scarce?.resetMs }
}

function shareOf(
  { remaining, limit = 0 }: ReportedLimit = { unit: 'tokens', remaining: 0, limit: 0, resetMs: 0 },
): number {
  return limit === 0 ? 0 : remaining / limit
}

/**
 * The longest wait of the limits with nothing left, in milliseconds: before it the next request would be rejected.
 * Undefined if every limit has something left, or none is reported.
 */
export function exhaustedMs(headers: ResponseHeaders): number | undefined {
  let longest: number | undefined
  for (const { remaining, resetMs } of reportedLimits(headers))
    if (remaining === 0 && resetMs !== undefined) longest = Math.max(longest ?? 0, resetMs)
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

/**
 * Prices, and amounts in words. Money is a whole number of micro-dollars; prices are whole micro-dollars per million
 * tokens, or per image.
 */

import { DAY_MS } from './durations.ts'

/**
 * What tokens and images cost. Tokens: micro-dollars per million tokens ($0.25 per million = 250,000). `image`:
 * micro-dollars per image. Absent if the operator set none.
 */
export interface Rates {
  readonly input?: number | undefined
  readonly cachedInput?: number | undefined
  readonly cacheWrite?: number | undefined
  readonly cacheWrite1h?: number | undefined
  readonly output?: number | undefined
  /** Input that the provider reports as audio. */
  readonly audioInput?: number | undefined
  readonly image?: number | undefined
}

/** The rates of a request with more than `inputTokens` of input. */
export interface LongRates extends Rates {
  readonly inputTokens: number
}

/** The rates of one service tier, by the length of the input. Complete: nothing is inherited any more. */
export interface TierRates extends Rates {
  /** Ascending by `inputTokens`. */
  readonly above?: readonly LongRates[] | undefined
}

/** The rates of a tier, and all names that it has: its own first, then its aliases. */
export interface NamedTier extends TierRates {
  readonly names: readonly string[]
}

/** Prices of one model: of the base tier, and of other service tiers. Plain data, which processes send each other. */
export interface Price extends TierRates {
  /** Few: they are searched for a name, which takes less time than a look-up in an object. */
  readonly tiers?: readonly NamedTier[] | undefined
  /** Other names of the base tier. */
  readonly baseAliases?: readonly string[] | undefined
  /** The tier of requests that name none, if it is not the base tier. */
  readonly defaultTier?: string | undefined
  /** Micro-dollars per image by `quality:size`, in place of `image`; `*` for all others. */
  readonly images?: Readonly<Record<string, number>> | undefined
  /** By how much fields of a request multiply all of these prices, by `name:value`: `speed:fast`. */
  readonly fields?: Readonly<Record<string, number>> | undefined
  /** Micro-dollars per 1,000 calls of the provider's own tools, by kind: `web_search`. */
  readonly tools?: Readonly<Record<string, number>> | undefined
  /** When the operator last compared it with the provider's: `2026-11-01`. */
  readonly asOf?: string | undefined
}

/** Micro-dollars as dollars, with 2 to 6 decimals: `$5.00`, `$0.000125`. */
export function dollarsText(microUsd: number): string {
  const micro = BigInt(microUsd)
  const fraction = (micro % 1_000_000n)
    .toString()
    .padStart(6, '0')
    .replace(/0{1,4}$/, '')
  return `$${micro / 1_000_000n}.${fraction}`
}

/** Whole days since a date such as `2026-11-01`, at least 0; NaN if there is no such day. */
export function priceAgeDays(asOf: string, nowMs: number): number {
  const fromMs = Date.parse(`${asOf}T00:00:00Z`)
  if (Number.isNaN(fromMs) || new Date(fromMs).toISOString().slice(0, 10) !== asOf) return Number.NaN
  return Math.max(0, Math.floor((nowMs - fromMs) / DAY_MS))
}

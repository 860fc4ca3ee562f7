/** Usage → micro-dollars, exactly: whole numbers, one rounding, up, a request. Owns the arithmetic of money, and nothing of what is held. */

import type { Price } from '../core/money.ts'
import type { Usage } from '../core/token-usage.ts'

/** Prices are per million tokens. */
const PER_MILLION = 1_000_000

/** The largest amount that the ledger can hold: $9.0 billion. What would cost more costs this. */
export const MICRO_USD_MAX = Number.MAX_SAFE_INTEGER

/**
 * What a request cost, in whole micro-dollars. `usage.input` includes its cached and cache-write parts; parts that add up to more than
 * it are taken at their word. A figure that is absent counts as none: fill in estimates first.
 *
 * A price that is absent falls back to the nearest that is not lower in practice: cached → input, cache write → input, one-hour
 * write → cache write. `images` are priced by the image.
 */
export function costMicroUsd(usage: Usage, price: Price, images = 0): number {
  const input = price.input ?? 0
  const write5m = price.cacheWrite ?? input
  const cached = usage.cachedInput ?? 0
  const written5m = usage.cacheWrite5m ?? 0
  const written1h = usage.cacheWrite1h ?? 0
  const plain = Math.max(0, (usage.input ?? 0) - cached - written5m - written1h)
  const output = usage.output ?? 0
  const [cachedPrice, write1h] = [price.cachedInput ?? input, price.cacheWrite1h ?? write5m]
  const outputPrice = price.output ?? 0
  const imagePrice = price.image ?? 0
  const sum = plain * input + cached * cachedPrice + written5m * write5m + written1h * write1h + output * outputPrice
  const cost = Math.ceil(sum / PER_MILLION) + images * imagePrice
  // Below 2^53 products and sums of whole numbers are exact; the quotient is then less than one unit in the last place off, which
  // cannot reach a whole number that it does not equal, as the sum has at most six digits behind the point. Every real request is there
  // (10^7 tokens at $900 a million).
  if (sum <= Number.MAX_SAFE_INTEGER && cost <= MICRO_USD_MAX) return cost
  return exact(
    [plain, cached, written5m, written1h, output],
    [input, cachedPrice, write5m, write1h, outputPrice],
    images,
    imagePrice,
  )
}

/**
 * The prices that an order of images falls under: by the token where the operator gave both token prices and the provider reported
 * both figures, or where nothing else was given; else by the image. Never both.
 */
export function imagePrice(price: Price, reported: Usage): Price {
  const { image, ...tokens } = price
  const priced = price.input !== undefined && price.output !== undefined
  const counted = reported.input !== undefined && reported.output !== undefined
  return priced && (counted || image === undefined) ? tokens : { image }
}

/** The same in BigInt: numbers of any size. */
function exact(tokens: readonly number[], prices: readonly number[], images: number, imagePrice: number): number {
  let sum = 0n
  for (let i = 0; i < tokens.length; i++) sum += BigInt(tokens[i] ?? 0) * BigInt(prices[i] ?? 0)
  const million = BigInt(PER_MILLION)
  const cost = (sum + million - 1n) / million + BigInt(images) * BigInt(imagePrice)
  return cost > BigInt(MICRO_USD_MAX) ? MICRO_USD_MAX : Number(cost)
}

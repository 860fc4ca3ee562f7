/** The cost of a request's usage in micro-dollars, exactly: whole numbers, rounded up once for each request. */

import type { Price } from '../core/money.ts'
import type { Usage } from '../core/token-usage.ts'

/** Prices are per million tokens. */
const PER_MILLION = 1_000_000

/** The largest amount that the ledger can hold: $9.0 billion. A higher cost is reduced to it. */
export const MICRO_USD_MAX = Number.MAX_SAFE_INTEGER

/**
 * What a request cost, in whole micro-dollars. `usage.input` includes its cached and cache-write parts; parts that add
 * up to more than it are believed all the same. An absent figure counts as 0, so the caller fills in estimates first.
 *
 * A price that is absent falls back to the nearest that is not lower in practice: cached → input, cache write → input,
 * one-hour write → cache write. `images` are priced by the image.
 */
export function costMicroUsd(usage: Usage, price: Price, images = 0): number {
  const input = price.input ?? 0
  const write5m = price.cacheWrite ?? input
  const cached = usage.cachedInput ?? 0
  const written5m = usage.cacheWrite5m ?? 0
  const written1h = usage.cacheWrite1h ?? 0
  const plain = Math.max(0, (usage.input ?? 0) - cached - written5m - written1h)
  const output = usage.output ?? 0
  const cachedPrice = price.cachedInput ?? input
  const write1h = price.cacheWrite1h ?? write5m
  const outputPrice = price.output ?? 0
  const imagePrice = price.image ?? 0
  const sum = plain * input + cached * cachedPrice + written5m * write5m + written1h * write1h + output * outputPrice
  const cost = Math.ceil(sum / PER_MILLION) + images * imagePrice
  // Below 2^53 the products and sums are exact. The quotient is then off by less than one unit in the last place, and
  // has at most six decimals, so it cannot round to the wrong whole number. Every real request is in this range (10^7
  // tokens at $900 a million).
  if (sum <= Number.MAX_SAFE_INTEGER && cost <= MICRO_USD_MAX) return cost
  return exact(
    [plain, cached, written5m, written1h, output],
    [input, cachedPrice, write5m, write1h, outputPrice],
    images,
    imagePrice,
  )
}

/** The same for input of which nothing is cached, as in every estimate: a fifth of the time, and no object for it. */
export function plainCostMicroUsd(inputTokens: number, outputTokens: number, price: Price, images = 0): number {
  const sum = inputTokens * (price.input ?? 0) + outputTokens * (price.output ?? 0)
  const cost = Math.ceil(sum / PER_MILLION) + images * (price.image ?? 0)
  if (sum <= Number.MAX_SAFE_INTEGER && cost <= MICRO_USD_MAX) return cost
  return costMicroUsd({ input: inputTokens, output: outputTokens }, price, images)
}

/**
 * The prices of an images request. Tokens are charged if the operator set both token prices and either the provider
 * reported both figures or there is no price by image; otherwise images are charged. Never both.
 */
export function imagePrice(price: Price, reported: Usage): Price {
  const { image, ...tokens } = price
  const priced = price.input !== undefined && price.output !== undefined
  const counted = reported.input !== undefined && reported.output !== undefined
  return priced && (counted || image === undefined) ? tokens : { image }
}

/** The same with BigInt, for numbers of any size. */
function exact(tokens: readonly number[], prices: readonly number[], images: number, imagePrice: number): number {
  let sum = 0n
  for (let i = 0; i < tokens.length; i++) sum += BigInt(tokens[i] ?? 0) * BigInt(prices[i] ?? 0)
  const million = BigInt(PER_MILLION)
  const cost = (sum + million - 1n) / million + BigInt(images) * BigInt(imagePrice)
  return cost > BigInt(MICRO_USD_MAX) ? MICRO_USD_MAX : Number(cost)
}

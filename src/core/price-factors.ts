/**
 * Prices times a factor, such as that of a service tier or of a field of a request. What grows by a factor is rounded
 * up to whole micro-dollars per million tokens.
 */

import { shifted } from './decimal.ts'
import type { Price, Rates, TierRates } from './money.ts'

/** A number as a fraction: a factor is written as a decimal. */
type Ratio = readonly [over: bigint, under: bigint]

const FACTOR_DECIMALS = 12

export function ratioOf(factor: number): Ratio {
  const [whole = '0'] = (shifted(factor, FACTOR_DECIMALS) ?? '0').split('.')
  return [BigInt(whole), 10n ** BigInt(FACTOR_DECIMALS)]
}

export function times(amount: number | undefined, [over, under]: Ratio): number | undefined {
  return amount === undefined ? undefined : Number((BigInt(amount) * over + under - 1n) / under)
}

/** The prices of tokens. */
const TOKEN_RATES = ['input', 'cachedInput', 'cacheWrite', 'cacheWrite1h', 'output', 'audioInput'] as const
type TokenRate = (typeof TOKEN_RATES)[number]

/** Rates with what `rate` returns for each price of tokens. */
export function eachTokenRate(rate: (field: TokenRate) => number | undefined, image: number | undefined): Rates {
  return { ...Object.fromEntries(TOKEN_RATES.map((field) => [field, rate(field)])), image }
}

export function scaledTier(rates: TierRates, ratio: Ratio): TierRates {
  const scaled = (of: Rates) => eachTokenRate((field) => times(of[field], ratio), of.image)
  const above = rates.above?.map(({ inputTokens, ...long }) => ({ inputTokens, ...scaled(long) }))
  return { ...scaled(rates), above }
}

/** The same price for the same fields: prices are compared by identity. */
const known = new WeakMap<Price, Map<string, Price>>()

/** The prices of a request with these fields, each `name:value` and one of `price.fields`. */
export function priceWithFields(price: Price, fields: readonly string[]): Price {
  if (fields.length === 0) return price
  const made = known.getOrInsertComputed(price, () => new Map())
  return made.getOrInsertComputed(fields.join(), () =>
    fields.reduce((each, field) => scaledPrice(each, price.fields?.[field] ?? 1), price),
  )
}

function scaledPrice(price: Price, factor: number): Price {
  const ratio = ratioOf(factor)
  const tiers = price.tiers?.map(({ names, ...rates }) => ({ names, ...scaledTier(rates, ratio) }))
  return { ...price, ...scaledTier(price, ratio), ...(tiers && { tiers }) }
}

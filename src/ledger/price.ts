/**
 * The cost of a request's usage in micro-dollars, exactly: whole numbers, rounded up once for each request.
 * `chargedMicroUsd` is what a request is charged, by its tier, its length and its usage, and `reservedMicroUsd` is what
 * is reserved for it.
 */

import type { Ttl } from '../core/model-config.ts'
import type { LongRates, NamedTier, Price, Rates, TierRates } from '../core/money.ts'
import { BASE_TIER, boundedTier, isBaseTier, namesNoTier } from '../core/service-tier.ts'
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
export function costMicroUsd(usage: Usage, price: Rates, images = 0): number {
  const input = price.input ?? 0
  const write5m = price.cacheWrite ?? input
  const cached = usage.cachedInput ?? 0
  const written5m = usage.cacheWrite5m ?? 0
  const written1h = usage.cacheWrite1h ?? 0
  const audio = price.audioInput === undefined ? 0 : (usage.audioInput ?? 0)
  const plain = Math.max(0, (usage.input ?? 0) - cached - written5m - written1h - audio)
  const output = usage.output ?? 0
  const cachedPrice = price.cachedInput ?? input
  const write1h = price.cacheWrite1h ?? write5m
  const outputPrice = price.output ?? 0
  const imagePrice = price.image ?? 0
  let sum = plain * input + cached * cachedPrice + written5m * write5m + written1h * write1h + output * outputPrice
  if (audio > 0) sum += audio * (price.audioInput ?? 0)
  const cost = Math.ceil(sum / PER_MILLION) + images * imagePrice
  // Below 2^53 the products and sums are exact. The quotient is then off by less than one unit in the last place, and
  // has at most six decimals, so it cannot round to the wrong whole number. Every real request is in this range (10^7
  // tokens at $900 a million).
  if (sum <= Number.MAX_SAFE_INTEGER && cost <= MICRO_USD_MAX) return cost
  return exact(
    [plain, cached, written5m, written1h, output, audio],
    [input, cachedPrice, write5m, write1h, outputPrice, price.audioInput ?? 0],
    images,
    imagePrice,
  )
}

/** The same for input of which nothing is cached, as in every estimate: a fifth of the time, and no object for it. */
export function plainCostMicroUsd(inputTokens: number, outputTokens: number, price: Rates, images = 0): number {
  const sum = inputTokens * (price.input ?? 0) + outputTokens * (price.output ?? 0)
  const cost = Math.ceil(sum / PER_MILLION) + images * (price.image ?? 0)
  if (sum <= Number.MAX_SAFE_INTEGER && cost <= MICRO_USD_MAX) return cost
  return costMicroUsd({ input: inputTokens, output: outputTokens }, price, images)
}

/** The kind of images that is ordered; `auto` and absent are any. */
interface ImageKindWanted {
  readonly quality?: string | undefined
  readonly size?: string | undefined
}

/**
 * The prices of an images request. Tokens are charged if the operator set both token prices and either the provider
 * reported both figures or there is no price by image; otherwise images are charged. Never both. Undefined if no row of
 * the table of images fits the order.
 */
export function imagePrice(price: Price, reported: Usage, wanted: ImageKindWanted = {}): Price | undefined {
  const { image, images, ...tokens } = price
  const priced = price.input !== undefined && price.output !== undefined
  const counted = reported.input !== undefined && reported.output !== undefined
  if (priced && (counted || (image === undefined && images === undefined))) return tokens
  if (images === undefined) return { image }
  const row = dearestImage(images, wanted)
  if (row === undefined) return priced ? tokens : undefined
  return { image: row }
}

/** The dearest row that fits; `*` only where a kind of image has no row of its own. */
function dearestImage(
  images: Readonly<Record<string, number>>,
  { quality, size }: ImageKindWanted,
): number | undefined {
  const isAny = (wanted: string | undefined) => wanted === undefined || wanted === 'auto'
  const isOpen = isAny(quality) || isAny(size)
  const exact = `${quality}:${size}`
  if (!isOpen && Object.hasOwn(images, exact)) return images[exact]
  let most: number | undefined = Object.hasOwn(images, '*') ? images['*'] : undefined
  if (!isOpen) return most
  for (const [name, amount] of Object.entries(images)) {
    const [rowQuality, rowSize] = name.split(':')
    if (rowSize === undefined || !(isAny(quality) || quality === rowQuality) || !(isAny(size) || size === rowSize))
      continue
    most = Math.max(most ?? 0, amount)
  }
  return most
}

/** The same with BigInt, for numbers of any size. */
function exact(tokens: readonly number[], prices: readonly number[], images: number, imagePrice: number): number {
  let sum = 0n
  for (let i = 0; i < tokens.length; i++) sum += BigInt(tokens[i] ?? 0) * BigInt(prices[i] ?? 0)
  const million = BigInt(PER_MILLION)
  const cost = (sum + million - 1n) / million + BigInt(images) * BigInt(imagePrice)
  return cost > BigInt(MICRO_USD_MAX) ? MICRO_USD_MAX : Number(cost)
}

/** Where the estimate of the input may be too low: it is within 15 % of a tokenizer's count for prose and code. */
const LENGTH_ERROR = 1.25

/** A tier with a price of its own, by any of its names. */
function namedTier({ tiers }: Price, tier: string | undefined): NamedTier | undefined {
  if (tiers === undefined || tier === undefined) return undefined
  for (const each of tiers) if (each.names.includes(tier)) return each
  return undefined
}

/** Whether requests of this tier have the base price because it is the base tier. */
function isBase(price: Price | undefined, tier: string | undefined): boolean {
  return isBaseTier(tier) || (tier !== undefined && price?.baseAliases?.includes(tier) === true)
}

/** Whether a request for this tier is charged by a price that the operator set. */
export function isPricedTier(price: Price, tier: string | undefined): boolean {
  return isBase(price, tier) || tier === 'flex' || namedTier(price, tier) !== undefined
}

/** Whether an answer names a tier that is charged at the base price because it has none of its own. */
export function isUnpricedAnswer(price: Price, named: string | undefined): named is string {
  return !isBase(price, named) && !namesNoTier(named) && namedTier(price, named) === undefined
}

/** The tiers that have a price, and their aliases. */
export function pricedTiers({ tiers = [] }: Price): readonly string[] {
  return tiers.flatMap(({ names }) => names)
}

/** The rates of a tier for this much input: of the base tier if it has none of its own. */
function ratesOf(price: Price, tier: string | undefined, inputTokens: number): Rates {
  return byLength(namedTier(price, tier) ?? price, inputTokens)
}

function byLength(rates: TierRates, inputTokens: number): Rates {
  const { above } = rates
  if (above === undefined) return rates
  for (let i = above.length - 1; i >= 0; i--) {
    const long = above[i]
    if (long !== undefined && inputTokens > long.inputTokens) return long
  }
  return rates
}

/** What a request took, of which tier, and of how many images. */
interface Used {
  readonly usage: Usage
  /** The tier that the provider was asked for; it holds if the answer names none. */
  readonly asked?: string | undefined
  readonly images?: number | undefined
}

/** What a request is charged: by the tier that its answer names and the input that it reports. */
export function chargedMicroUsd(price: Price, { usage, asked, images = 0 }: Used): number {
  if (price.tiers === undefined) return costMicroUsd(usage, byLength(price, usage.input ?? 0), images)
  const { input = 0, serviceTier: named } = usage
  if (!namesNoTier(named)) return costMicroUsd(usage, ratesOf(price, named, input), images)
  const base = costMicroUsd(usage, byLength(price, input), images)
  const own = namedTier(price, wantedTier(price, asked))
  return own === undefined ? base : Math.max(base, costMicroUsd(usage, byLength(own, input), images))
}

/** The tier that serves a request, unless the answer names another one. */
function wantedTier({ defaultTier }: Price, asked: string | undefined): string | undefined {
  return namesNoTier(asked) ? defaultTier : asked
}

/** The prices that hold for a request of this tier and length, and the length above which they do. */
export function ratesFor(price: Price, asked: string | undefined, inputTokens: number): Rates & Partial<LongRates> {
  return ratesOf(price, wantedTier(price, asked), inputTokens)
}

/** What a request may take. */
interface Reserved {
  /** The tier that the provider is asked for. */
  readonly asked?: string | undefined
  /** How its input is priced at the most: as plain input, or as written to a cache with this TTL. */
  readonly cached?: Ttl | undefined
  /** Input that is audio. */
  readonly audioTokens?: number | undefined
  readonly images?: number | undefined
}

/** What is reserved for a request: at the dearest price that its tier and its length may bring. */
export function reservedMicroUsd(
  price: Price,
  inputTokens: number,
  outputTokens: number,
  { asked, cached, audioTokens = 0, images = 0 }: Reserved,
): number {
  if (price.tiers === undefined && price.above === undefined && cached === undefined && audioTokens === 0)
    return plainCostMicroUsd(inputTokens, outputTokens, price, images)
  const amounts = { inputTokens, outputTokens, cached, audioTokens: Math.min(audioTokens, inputTokens), images }
  const base = dearest(price, amounts)
  const own = namedTier(price, wantedTier(price, asked))
  return own === undefined ? base : Math.max(base, dearest(own, amounts))
}

interface Amounts {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cached: Ttl | undefined
  readonly audioTokens: number
  readonly images: number
}

/** The most that these amounts cost with rates of this tier whose length the input may have. */
function dearest(rates: TierRates, amounts: Amounts): number {
  let most = dearestOf(rates, amounts)
  for (const long of rates.above ?? NO_LENGTHS) {
    if (LENGTH_ERROR * amounts.inputTokens <= long.inputTokens) break
    most = Math.max(most, dearestOf(long, amounts))
  }
  return most
}

/** With every token of the input at the dearest of the prices that it may have. */
function dearestOf(rates: Rates, { inputTokens, outputTokens, cached, audioTokens, images }: Amounts): number {
  const { output = 0, image = 0 } = rates
  const input = Math.max(rates.input ?? 0, rates.cachedInput ?? 0, writeRate(rates, cached))
  const audioInput = Math.max(input, rates.audioInput ?? 0)
  const sum = (inputTokens - audioTokens) * input + audioTokens * audioInput + outputTokens * output
  const cost = Math.ceil(sum / PER_MILLION) + images * image
  if (sum <= Number.MAX_SAFE_INTEGER && cost <= MICRO_USD_MAX) return cost
  return costMicroUsd(
    { input: inputTokens, output: outputTokens, audioInput: audioTokens },
    { input, audioInput, output, image },
    images,
  )
}

function writeRate({ cacheWrite = 0, cacheWrite1h }: Rates, cached: Ttl | undefined): number {
  if (cached === undefined) return 0
  return cached === '1h' ? Math.max(cacheWrite1h ?? cacheWrite, cacheWrite) : cacheWrite
}

const NO_LENGTHS: readonly LongRates[] = []

/**
 * The tier under which a request is logged and summed up: `default` for the base tier by any name, '' if the answer
 * names none, `other` for an unknown name.
 */
export function servedTier(price: Price | undefined, { serviceTier: named }: Usage): string {
  if (named === undefined || namesNoTier(named)) return ''
  if (isBase(price, named)) return BASE_TIER
  const own = price === undefined ? undefined : namedTier(price, named)?.names[0]
  return own ?? boundedTier(named)
}

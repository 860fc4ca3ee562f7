/**
 * The prices of a model in the form that requests are charged by: every tier and every length has all of its rates, so
 * that no request computes what follows from the file. What grows by a factor is rounded up to whole micro-dollars per
 * million tokens.
 */

import { Value } from '@sinclair/typebox/value'
import type { LongRates, NamedTier, Price, Rates, TierRates } from '../core/money.ts'
import { eachTokenRate as each, ratioOf, scaledTier, times } from '../core/price-factors.ts'
import { isBaseTier } from '../core/service-tier.ts'
import { type Path, pathText, quoted } from './problems.ts'
import type { CompletedFile } from './schema-file.ts'
import { model as modelSchema } from './schema-models.ts'

type FilePrice = NonNullable<CompletedFile['models'][number]['price']>
type FileRates = Pick<FilePrice, 'input' | 'cached_input' | 'cache_write' | 'cache_write_1h' | 'output' | 'audio_input'>
type FileTier = NonNullable<FilePrice['tiers']>[string]

/** Dollars → whole micro-dollars: $0.25 per million tokens is 250,000 micro-dollars per million tokens. */
export function microUsd(dollars: number | undefined): number | undefined {
  return dollars === undefined ? undefined : Math.round(dollars * 1_000_000)
}

/** A price of whatever file, or the first thing that is wrong with it. */
export function checkedPrice(value: unknown, place: Path): { readonly price: Price } | { readonly problem: string } {
  const schema = modelSchema.properties.price
  if (Value.Check(schema, value) && value !== undefined) return { price: priceOf(value) }
  const error = Value.Errors(schema, value).First()
  const path = error?.path.split('/').slice(1) ?? []
  return {
    problem: `${pathText([...place, ...path])}: ${error?.message ?? 'is no price'}; found ${shown(error?.value)}`,
  }
}

function shown(value: unknown): string {
  return typeof value === 'object' && value !== null ? 'a list or a map' : quoted(String(value))
}

export function priceOf(price: FilePrice): Price {
  const base: TierRates = { ...ratesOf(price), image: microUsd(price.image) }
  const above = aboveOf(price.above, base)
  const tiers = tiersOf(price, { ...base, above })
  const baseAliases = Object.entries(price.tier_aliases ?? {}).flatMap(([alias, of]) => (isBaseTier(of) ? [alias] : []))
  return {
    ...base,
    ...(above === undefined ? {} : { above }),
    ...(tiers.length === 0 ? {} : { tiers }),
    ...(baseAliases.length === 0 ? {} : { baseAliases }),
    ...(price.default_tier === undefined ? {} : { defaultTier: price.default_tier }),
    ...(price.images === undefined ? {} : { images: microUsdOf(price.images) }),
    ...(price.fields === undefined
      ? {}
      : { fields: Object.fromEntries(Object.entries(price.fields).map(([field, { factor }]) => [field, factor])) }),
    ...(price.tools === undefined ? {} : { tools: microUsdOf(price.tools) }),
    ...(price.as_of === undefined ? {} : { asOf: price.as_of }),
  }
}

function ratesOf(rates: FileRates): Rates {
  return {
    input: microUsd(rates.input),
    cachedInput: microUsd(rates.cached_input),
    cacheWrite: microUsd(rates.cache_write),
    cacheWrite1h: microUsd(rates.cache_write_1h),
    output: microUsd(rates.output),
    ...(rates.audio_input === undefined ? {} : { audioInput: microUsd(rates.audio_input) }),
  }
}

function microUsdOf(dollars: Readonly<Record<string, number>>): Readonly<Record<string, number>> {
  return Object.fromEntries(Object.entries(dollars).map(([name, each]) => [name, microUsd(each) ?? 0]))
}

/**
 * Rates that stand for others. Parts of the input that have no price of their own there cost what all of the input
 * costs, as everywhere; only if that is not stated either, all of them are those of the base.
 */
function inPlaceOf(own: Rates, base: Rates): Rates {
  const inherited = own.input === undefined ? base : {}
  return {
    input: own.input ?? base.input,
    cachedInput: own.cachedInput ?? inherited.cachedInput,
    cacheWrite: own.cacheWrite ?? inherited.cacheWrite,
    cacheWrite1h: own.cacheWrite1h ?? (own.cacheWrite === undefined ? inherited.cacheWrite1h : undefined),
    output: own.output ?? base.output,
    audioInput: own.audioInput ?? base.audioInput,
    image: base.image,
  }
}

function aboveOf(rows: FilePrice['above'], base: Rates): readonly LongRates[] | undefined {
  if (rows === undefined) return undefined
  return rows
    .map((row) => ({ inputTokens: row.input_tokens, ...inPlaceOf(ratesOf(row), base) }))
    .sort((one, other) => one.inputTokens - other.inputTokens)
}

function tiersOf({ tiers = {}, tier_aliases: aliases = {} }: FilePrice, base: TierRates): readonly NamedTier[] {
  return Object.entries(tiers).map(([name, tier]) => ({
    names: [name, ...Object.keys(aliases).filter((alias) => aliases[alias] === name)],
    ...tierOf(tier, base),
  }))
}

function tierOf(tier: FileTier, base: TierRates): TierRates {
  if (tier.factor !== undefined) {
    return scaledTier(base, ratioOf(tier.factor))
  }
  const own = inPlaceOf(ratesOf(tier), base)
  return { ...own, above: aboveOf(tier.above, own) ?? base.above?.map((long) => grown(own, base, long)) }
}

/** The rates of a tier for a length that it does not state: they grow as those of the model do. */
function grown(own: Rates, base: Rates, { inputTokens, ...long }: LongRates): LongRates {
  const rates = each((field) => {
    const [mine, from, to] = [own[field], effectiveRate(base, field), effectiveRate(long, field)]
    if (mine === undefined || from === undefined || to === undefined) return mine
    return from === 0 ? to : times(mine, [BigInt(to), BigInt(from)])
  }, own.image)
  return { inputTokens, ...rates }
}

/** The prices of tokens, and their names in the file. */
const TOKEN_FIELDS = [
  ['input', 'input'],
  ['cachedInput', 'cached_input'],
  ['cacheWrite', 'cache_write'],
  ['cacheWrite1h', 'cache_write_1h'],
  ['output', 'output'],
  ['audioInput', 'audio_input'],
] as const
export const RATE_FIELDS = [...TOKEN_FIELDS, ['image', 'image']] as const

export type RateField = (typeof RATE_FIELDS)[number][0]

/** What a part of the input costs with these rates. */
export function effectiveRate(rates: Rates, field: RateField): number | undefined {
  const { input, cacheWrite } = rates
  if (field === 'output' || field === 'input' || field === 'image') return rates[field]
  return rates[field] ?? (field === 'cacheWrite1h' ? (cacheWrite ?? input) : input)
}

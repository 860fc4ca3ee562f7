/**
 * Prices of LiteLLM, by token, → those of weir, by a million: of the base tier, of long requests and of service tiers.
 */

import { shifted } from '../core/decimal.ts'
import type { JsonObject } from '../core/json.ts'

/** Prices by token, with the names that weir has for those by a million. */
const FIELDS: Readonly<Record<string, string>> = {
  input_cost_per_token: 'input',
  cache_read_input_token_cost: 'cached_input',
  cache_creation_input_token_cost: 'cache_write',
  cache_creation_input_token_cost_above_1hr: 'cache_write_1h',
  output_cost_per_token: 'output',
  input_cost_per_audio_token: 'audio_input',
}

/** A price above it is a mistake. */
const PRICE_MAX = 10_000

/** The longest first, of which another may be the beginning. */
const KINDS = Object.keys(FIELDS).toSorted((one, other) => other.length - one.length)
/** `input_cost_per_token_above_272k_tokens_priority`: the length and the tier are optional. */
const NAME = new RegExp(`^(${KINDS.join('|')})(?:_above_(\\d{1,5})k_tokens)?(?:_(priority|flex))?$`)

type Rates = Record<string, number>

/** A tier or a length of which a list has no price of the input or of the output. */
export interface PartialPrice {
  /** Undefined = the base tier. */
  readonly tier: string | undefined
  /** 0 = from the first token on. */
  readonly above: number
  readonly lacks: readonly ('input' | 'output')[]
  /** What the list has of it. */
  readonly rates: JsonObject
}

/** What is written for one tier. */
interface Tier {
  readonly base: Rates
  /** By the length in tokens. */
  readonly above: Map<number, Rates>
}

/** Whether a field is carried over. */
export function isTokenPrice(field: string): boolean {
  return NAME.test(field)
}

/**
 * Dollars per million tokens, of `litellm_params` or `model_info`; undefined without the price of input and output. A
 * tier that lacks one of them is left out: it would be charged at the base price for what is not stated. A length
 * keeps what the list has of it, because without it all of a long request would have the price of a short one.
 */
export function litellmPrice(
  written: JsonObject,
): { readonly price: JsonObject; readonly partial: readonly PartialPrice[] } | undefined {
  const tiers = tiersOf(written)
  const base = tiers.get('')
  const { input, output } = base?.base ?? {}
  if (base === undefined || input === undefined || output === undefined) return undefined
  const partial: PartialPrice[] = []
  const note = (tier: string, above: number, rates: Rates): boolean => {
    const lacks = (['input', 'output'] as const).filter((field) => rates[field] === undefined && base.base[field] !== 0)
    if (lacks.length > 0) partial.push({ tier: tier === '' ? undefined : tier, above, lacks, rates: ordered(rates) })
    return lacks.length === 0
  }
  const others: [string, Tier][] = []
  for (const [name, tier] of tiers) {
    if (name !== '' && (!hasPrice(tier) || !note(name, 0, tier.base))) continue
    for (const [length, rates] of tier.above) note(name, length, rates)
    if (name !== '') others.push([name, tier])
  }
  const price = {
    ...ordered(base.base),
    ...aboveOf(base, base.base),
    ...(others.length === 0
      ? {}
      : { tiers: Object.fromEntries(others.map(([name, tier]) => [name, tierOf(tier, base.base)])) }),
  }
  return { price, partial }
}

function hasPrice({ base, above }: Tier): boolean {
  return Object.keys(base).length > 0 || above.size > 0
}

function tiersOf(written: JsonObject): Map<string, Tier> {
  const tiers = new Map<string, Tier>()
  for (const [field, cost] of Object.entries(written)) {
    const [, kind = '', thousands, name = ''] = NAME.exec(field) ?? []
    const price = kind === '' ? undefined : priceOf(cost)
    if (price === undefined) continue
    const tier = tiers.get(name) ?? { base: {}, above: new Map<number, Rates>() }
    tiers.set(name, tier)
    const length = Number(thousands ?? 0) * 1000
    const rates = thousands === undefined ? tier.base : (tier.above.get(length) ?? {})
    if (thousands !== undefined) tier.above.set(length, rates)
    rates[FIELDS[kind] ?? kind] = price
  }
  return tiers
}

/** By the decimal point alone: 0.0000001 times a million is 0.09999999999999999. */
function priceOf(cost: unknown): number | undefined {
  const price = Number(shifted(cost, 6) ?? Number.NaN)
  return price >= 0 && price <= PRICE_MAX ? price : undefined
}

function tierOf(tier: Tier, base: Rates): JsonObject {
  const own = inPlaceOf(tier.base, base)
  return { ...own, ...aboveOf(tier, own) }
}

function aboveOf({ above }: Tier, base: Rates): JsonObject {
  if (above.size === 0) return {}
  const rows = [...above].sort(([one], [other]) => one - other)
  return { above: rows.map(([length, rates]) => ({ input_tokens: length, ...inPlaceOf(rates, base) })) }
}

/** In LiteLLM what a tier or a length lacks is that of the base; in weir cached input would cost what input does. */
function inPlaceOf(rates: Rates, base: Rates): Rates {
  return ordered({ ...base, ...rates })
}

function ordered(rates: Rates): Rates {
  const names = Object.values(FIELDS).filter((name) => rates[name] !== undefined)
  return Object.fromEntries(names.map((name) => [name, rates[name] ?? 0]))
}

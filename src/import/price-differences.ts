/** The prices of a configuration against those of a price list, and what of a list only the list has. */

import { effectiveRate, RATE_FIELDS, type RateField } from '../config/prices.ts'
import { shifted } from '../core/decimal.ts'
import { type ModelConfig, sentModel } from '../core/model-config.ts'
import type { Price, Rates, TierRates } from '../core/money.ts'
import type { ListedPart, ListedPrice, PriceList } from './price-list.ts'

/** A part of a price: the base tier or another one, for all lengths or above one. */
interface PricePoint {
  /** As the configuration names it, or else the list; undefined = the base tier. */
  readonly tier: string | undefined
  /** 0 = from the first token on. */
  readonly above: number
}

export interface PriceDifference extends PricePoint {
  readonly model: string
  /** What only the list has. */
  readonly only?: 'tier' | 'length' | undefined
  /** What the list lacks of that. Such a tier is not written. */
  readonly lacks?: ListedPart['lacks'] | undefined
  /** What the list states otherwise: one field, or all of what only it has. In micro-dollars per million tokens. */
  readonly rates: readonly RateChange[]
}

interface RateChange {
  readonly field: RateField | `images.${string}`
  /** What is charged now; undefined = nothing. */
  readonly ours: number | undefined
  readonly theirs: number
}

/** The names under which a list may have a model: those of its targets first, then its public names. */
export function listedPrice(
  list: PriceList,
  { targets, name, aliases }: ModelConfig,
  dialects: ReadonlyMap<string, string>,
): ListedPrice | undefined {
  const ofTargets = targets.flatMap((target) => {
    const sent = sentModel(target)
    const dialect = dialects.get(target.provider) ?? ''
    return [`${dialect === 'vertex' ? 'vertex_ai' : dialect}/${sent}`, `${target.provider}/${sent}`, sent]
  })
  for (const each of [...ofTargets, name, ...aliases]) {
    const found = list.get(each)
    if (found !== undefined) return found
  }
  return undefined
}

/** The dearest first. */
export function byDearness(differences: readonly PriceDifference[]): readonly PriceDifference[] {
  return differences.toSorted((one, other) => growthOf(other) - growthOf(one) || (one.model < other.model ? -1 : 1))
}

export function priceDifferences(
  model: string,
  ours: Price | undefined,
  listed: ListedPrice,
): readonly PriceDifference[] {
  const theirs = completed(listed, ours)
  const tiers = (theirs.tiers ?? []).map((tier) => {
    const own = ours?.tiers?.find(({ names }) => names.some((name) => tier.names.includes(name)))
    return { tier: own?.names[0] ?? tier.names[0] ?? '', own, theirs: tier }
  })
  // A table of images is more exact than one price for all of them.
  const comparable = ours?.images === undefined ? theirs : { ...theirs, image: undefined }
  const found = [
    ...ofTier(model, undefined, ours ?? {}, comparable),
    ...ofImages(model, ours, theirs),
    ...tiers.flatMap(({ tier, own, theirs: rates }) =>
      own === undefined ? onlyTheirs(model, tier, ours ?? {}, rates) : ofTier(model, tier, own, rates),
    ),
  ]
  const partial = listed.partial ?? []
  const named = found.map((one) => {
    const part = one.only && partial.find(({ tier, above }) => tier === one.tier && above === one.above)
    return part ? { ...one, lacks: part.lacks, rates: changes(atLength(ours ?? {}, one.above), part.rates, true) } : one
  })
  const left = partial.filter(
    ({ tier }) => tier !== undefined && !theirs.tiers?.some(({ names }) => names.includes(tier)),
  )
  const unwritten = left.map(({ tier, above, lacks, rates }) => ({
    ...{ model, tier, above, lacks, only: 'tier' as const },
    rates: changes(atLength(ours ?? {}, above), rates, true),
  }))
  return [...named, ...unwritten]
}

/** The list's price with tiers that it states in part and ours wholly: what it does not state of them is ours. */
export function completed(listed: ListedPrice, ours: Price | undefined): Price {
  const { partial = [], ...theirs } = listed
  const added = partial.flatMap(({ tier, above, rates }) => {
    const own = above > 0 ? undefined : ours?.tiers?.find(({ names }) => tier !== undefined && names.includes(tier))
    return own === undefined ? [] : [{ ...own, above: undefined, ...rates }]
  })
  return added.length === 0 ? theirs : { ...theirs, tiers: [...(theirs.tiers ?? []), ...added] }
}

/** A tier or a length that only the list has, against what is charged for it now. */
function onlyTheirs(model: string, tier: string, ours: TierRates, theirs: TierRates): readonly PriceDifference[] {
  const point = { model, tier, only: 'tier' as const }
  const longer = (theirs.above ?? []).map((long) => {
    return { ...point, above: long.inputTokens, rates: changes(atLength(ours, long.inputTokens), long, true) }
  })
  return [{ ...point, above: 0, rates: changes(ours, theirs, true) }, ...longer]
}

function ofTier(model: string, tier: string | undefined, ours: TierRates, theirs: TierRates): PriceDifference[] {
  const found: PriceDifference[] = changes(ours, theirs).map((change) => ({ model, tier, above: 0, rates: [change] }))
  // A list without lengths states nothing about them.
  if (theirs.above === undefined) return found
  const lengths = [...(ours.above ?? []), ...theirs.above].map(({ inputTokens }) => inputTokens)
  for (const above of new Set(lengths.sort((one, other) => one - other))) {
    const isOurs = ours.above?.some(({ inputTokens }) => inputTokens === above) === true
    const rates = changes(atLength(ours, above), atLength(theirs, above), !isOurs)
    if (isOurs) found.push(...rates.map((change) => ({ model, tier, above, rates: [change] })))
    else found.push({ model, tier, above, only: 'length', rates })
  }
  return found
}

/** The rates of a request just above a length. */
export function atLength(rates: TierRates, above: number): Rates {
  return rates.above?.findLast(({ inputTokens }) => inputTokens <= above) ?? rates
}

/** What the list states otherwise; `isWhole`: all that it states. */
function changes(ours: Rates, theirs: Rates, isWhole = false): readonly RateChange[] {
  return RATE_FIELDS.flatMap(([field]) => {
    const [mine, other] = [effectiveRate(ours, field), theirs[field]]
    return other === undefined || (mine === other && !isWhole) ? [] : [{ field, ours: mine, theirs: other }]
  })
}

function ofImages(model: string, ours: Price | undefined, theirs: Price): readonly PriceDifference[] {
  return Object.entries(theirs.images ?? {}).flatMap(([row, amount]) => {
    const mine = ours?.images?.[row] ?? ours?.images?.['*'] ?? ours?.image
    const change = { field: `images.${row}`, ours: mine, theirs: amount } as const
    return mine === amount ? [] : [{ model, tier: undefined, above: 0, rates: [change] }]
  })
}

/** The largest ratio of the list's price to ours among the rates. */
function growthOf({ rates }: PriceDifference): number {
  return Math.max(...rates.map(({ ours, theirs }) => (theirs === ours ? 1 : theirs / (ours ?? 0))))
}

/** `gpt-5, tier priority, above 272000: input 5 -> 6 (+20.0 %)` */
export function differenceText(difference: PriceDifference): string {
  const { model, tier, above, only, lacks, rates } = difference
  const place = [model, ...(tier === undefined ? [] : [`tier ${tier}`]), ...(above === 0 ? [] : [`above ${above}`])]
  const growth = growthOf(difference)
  const share = Number.isFinite(growth) ? ` (${growth < 1 ? '' : '+'}${((growth - 1) * 100).toFixed(1)} %)` : ''
  const words = rates.map(({ field, ours, theirs }) => {
    const name = RATE_FIELDS.find(([each]) => each === field)?.[1] ?? field
    if (only !== undefined) return `${name} ${dollarsOf(theirs)}`
    return `${name} ${ours === undefined ? 'not set' : dollarsOf(ours)} -> ${dollarsOf(theirs)}`
  })
  const unknown = lacks === undefined ? '' : `, and no ${lacks.join(' and no ')} price of it`
  const remark = only === undefined ? '' : `only the list has this ${only}${unknown}: `
  return `${place.join(', ')}: ${remark}${words.join(', ')}${share}`
}

/** Whether a list states enough of what differs to be written. */
export function isWritable({ only, lacks }: PriceDifference): boolean {
  return lacks === undefined || only === 'length'
}

/** Micro-dollars → dollars, as a configuration has them. */
export function dollarsOf(microUsd: number): string {
  return shifted(microUsd, -6) ?? '0'
}

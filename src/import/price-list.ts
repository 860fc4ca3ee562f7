/**
 * Price lists, by the names that they have for models: LiteLLM's JSON of model prices, OpenRouter's `/models` JSON, and
 * YAML (or JSON) of `models[].price`, as in a configuration.
 */

import { parseDocument } from 'yaml'
import { checkedPrice, microUsd, RATE_FIELDS } from '../config/prices.ts'
import type { Path } from '../config/problems.ts'
import { shifted } from '../core/decimal.ts'
import { messageOf } from '../core/error-message.ts'
import { isArray, isObject, type JsonObject, type JsonValue, numberOf, objectOf, stringOf } from '../core/json.ts'
import type { Price, Rates } from '../core/money.ts'
import { litellmPrice, type PartialPrice } from './litellm-prices.ts'

/** Why a file is no price list; completes a sentence that begins with its name. */
export class PriceListProblem extends Error {
  override readonly name = 'PriceListProblem'
}

/** A price of a list, and the tiers and lengths that the list does not state wholly. */
export interface ListedPrice extends Price {
  readonly partial?: readonly ListedPart[]
}

export interface ListedPart extends Pick<PartialPrice, 'tier' | 'above' | 'lacks'> {
  readonly rates: Rates
}

export type PriceList = ReadonlyMap<string, ListedPrice>

/** Throws `PriceListProblem`. Rows without a price are left out. */
export function readPriceList(text: string): PriceList {
  const value = dataOf(text.replace(/^\uFEFF/, ''))
  if (!isObject(value)) throw unknownForm()
  if (isArray(value['models'])) return fromModels(value['models'])
  const found = isArray(value['data']) ? fromOpenRouter(value['data']) : fromLitellm(value)
  if (found.size === 0) throw unknownForm()
  return found
}

function unknownForm(): PriceListProblem {
  return new PriceListProblem(
    "is no price list; expected LiteLLM's JSON of model prices, OpenRouter's /models JSON, or YAML of models[].price",
  )
}

function dataOf(text: string): JsonValue {
  try {
    return JSON.parse(text)
  } catch {
    const document = parseDocument(text, { prettyErrors: false })
    const [error] = document.errors
    if (error !== undefined) throw new PriceListProblem(`is neither JSON nor YAML: ${error.message}`)
    return yamlData(document)
  }
}

/** Throws `PriceListProblem` if anchors repeat each other without bound. */
function yamlData(document: ReturnType<typeof parseDocument>): JsonValue {
  try {
    return document.toJS({ maxAliasCount: 1000 })
  } catch (error) {
    throw new PriceListProblem(`cannot be read: ${messageOf(error)}`)
  }
}

function fromModels(models: readonly JsonValue[]): PriceList {
  const found = new Map<string, ListedPrice>()
  models.forEach((row, index) => {
    if (!isObject(row) || row['price'] === undefined || row['price'] === null) return
    const checked = statedPrice(row['price'], ['models', index, 'price'])
    if ('problem' in checked) throw new PriceListProblem(`is no price list: ${checked.problem}`)
    const targets = isArray(row['targets']) ? row['targets'].filter(isObject).map((target) => target['model']) : []
    const aliases = isArray(row['aliases']) ? row['aliases'] : []
    for (const name of [...targets, row['name'], ...aliases])
      if (typeof name === 'string' && !found.has(name)) found.set(name, checked.price)
  })
  if (found.size === 0) throw new PriceListProblem('has no models with a name and a price')
  return found
}

/**
 * What a list states of a model: lengths that a tier does not state are left out, although its prices grow with them,
 * so that they are not compared. The tier of the configuration grows as the model does, too.
 */
export function statedPrice(value: JsonValue, place: Path): ReturnType<typeof checkedPrice> {
  const checked = checkedPrice(value, place)
  if ('problem' in checked) return checked
  const tiers = checked.price.tiers?.map((tier) => {
    const written = objectOf(objectOf(objectOf(value)?.['tiers'])?.[tier.names[0] ?? ''])
    return written?.['above'] === undefined ? { ...tier, above: undefined } : tier
  })
  return { price: { ...checked.price, tiers } }
}

/** The prices of OpenRouter, and the names of weir for them. */
const OPENROUTER_FIELDS: Readonly<Record<string, string>> = {
  prompt: 'input',
  completion: 'output',
  input_cache_read: 'cached_input',
  input_cache_write: 'cache_write',
  input_cache_write_1h: 'cache_write_1h',
  audio: 'audio_input',
}

function fromOpenRouter(rows: readonly JsonValue[]): PriceList {
  const found = new Map<string, ListedPrice>()
  for (const row of rows) {
    const [id, pricing] = isObject(row) ? [stringOf(row['id']), row['pricing']] : []
    if (id === undefined || !isObject(pricing)) continue
    const base = openRouterRates(pricing)
    if (base['input'] === undefined || base['output'] === undefined) continue
    const overrides = isArray(pricing['overrides']) ? pricing['overrides'].filter(isObject) : []
    const above = overrides.filter(isOfLength).map(({ min_prompt_tokens: length = null, ...rates }) => ({
      ...{ input_tokens: length, ...base, ...openRouterRates(rates) },
    }))
    addIfValid(found, id, { ...base, ...(above.length === 0 ? {} : { above }) })
  }
  return found
}

/** Whether prices hold from a length on, and under no other condition, such as an hour. */
function isOfLength(override: JsonObject): boolean {
  const { min_prompt_tokens: length, ...rates } = override
  return typeof length === 'number' && Object.keys(rates).every((name) => Object.hasOwn(OPENROUTER_FIELDS, name))
}

/**
 * Dollars per token, as texts. A negative price is that of a model that stands for several; 0 for a part of an input
 * that is not free stands for none.
 */
function openRouterRates(pricing: JsonObject): Readonly<Record<string, number>> {
  const isFree = Number(pricing['prompt'] ?? 1) === 0
  const rates = Object.entries(OPENROUTER_FIELDS).flatMap(([theirs, ours]) => {
    const dollars = Number(shifted(pricing[theirs], 6) ?? Number.NaN)
    const isStated = dollars > 0 || (dollars === 0 && (isFree || ours === 'input' || ours === 'output'))
    return isStated ? [[ours, dollars] as const] : []
  })
  return Object.fromEntries(rates)
}

function fromLitellm(list: JsonObject): PriceList {
  const found = new Map<string, ListedPrice>()
  for (const [name, row] of Object.entries(list)) {
    if (!isObject(row) || name === 'sample_spec') continue
    const image = Number(shifted(row['output_cost_per_image'] ?? row['input_cost_per_image'], 0) ?? Number.NaN)
    const isEmbedding = row['mode'] === 'embedding'
    const tokens = litellmPrice(isEmbedding ? { ...row, output_cost_per_token: 0 } : row)
    if (row['mode'] === 'image_generation' && image >= 0) addIfValid(found, name, { image })
    else if (tokens !== undefined && isEmbedding) addIfValid(found, name, { input: tokens.price['input'] ?? 0 })
    else if (tokens !== undefined) addIfValid(found, name, tokens.price, tokens.partial)
  }
  return found
}

/** A row of a public list that no configuration could have is left out. */
function addIfValid(
  found: Map<string, ListedPrice>,
  name: string,
  price: JsonObject,
  partial: readonly PartialPrice[] = [],
): void {
  const checked = statedPrice(price, [name])
  if (!('price' in checked)) return
  const parts = partial.map((part) => ({ ...part, rates: ratesOf(part.rates) }))
  found.set(name, parts.length === 0 ? checked.price : { ...checked.price, partial: parts })
}

function ratesOf(written: JsonObject): Rates {
  return Object.fromEntries(
    RATE_FIELDS.flatMap(([field, name]) => {
      const dollars = numberOf(written[name])
      return dollars === undefined ? [] : [[field, microUsd(dollars)] as const]
    }),
  )
}

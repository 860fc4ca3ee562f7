/**
 * Price lists, by the names that they have for models: LiteLLM's JSON of model prices, OpenRouter's `/models` JSON, and
 * YAML (or JSON) of `models[].price`, as in a configuration.
 */

import { parseDocument } from 'yaml'
import { checkedPrice } from '../config/prices.ts'
import { shifted } from '../core/decimal.ts'
import { messageOf } from '../core/error-message.ts'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../core/json.ts'
import type { Price } from '../core/money.ts'
import { litellmPrice } from './litellm-prices.ts'

/** Why a file is no price list; completes a sentence that begins with its name. */
export class PriceListProblem extends Error {
  override readonly name = 'PriceListProblem'
}

export type PriceList = ReadonlyMap<string, Price>

/** Throws `PriceListProblem`. Rows without a price are left out. */
export function readPriceList(text: string): PriceList {
  const value = dataOf(text.replace(/^\uFEFF/, ''))
  if (!isObject(value)) throw unknownForm()
  if (isArray(value['models'])) return fromModels(value['models'])
  if (isArray(value['data'])) return fromOpenRouter(value['data'])
  return fromLitellm(value)
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
  const found = new Map<string, Price>()
  models.forEach((row, index) => {
    if (!isObject(row) || row['price'] === undefined || row['price'] === null) return
    const checked = checkedPrice(row['price'], ['models', index, 'price'])
    if ('problem' in checked) throw new PriceListProblem(`is no price list: ${checked.problem}`)
    const targets = isArray(row['targets']) ? row['targets'].filter(isObject).map((target) => target['model']) : []
    const aliases = isArray(row['aliases']) ? row['aliases'] : []
    for (const name of [...targets, row['name'], ...aliases])
      if (typeof name === 'string' && !found.has(name)) found.set(name, checked.price)
  })
  if (found.size === 0) throw new PriceListProblem('has no models with a name and a price')
  return found
}

/** Dollars per token, as texts; a negative price is that of a model that stands for several. */
function fromOpenRouter(rows: readonly JsonValue[]): PriceList {
  const FIELDS = {
    prompt: 'input',
    completion: 'output',
    input_cache_read: 'cached_input',
    input_cache_write: 'cache_write',
    audio: 'audio_input',
  }
  const found = new Map<string, Price>()
  for (const row of rows) {
    const [id, pricing] = isObject(row) ? [stringOf(row['id']), row['pricing']] : []
    if (id === undefined || !isObject(pricing)) continue
    const fields = Object.entries(FIELDS).flatMap(([theirs, ours]) => {
      const dollars = Number(shifted(pricing[theirs], 6) ?? Number.NaN)
      return dollars >= 0 ? [[ours, dollars] as const] : []
    })
    const price = Object.fromEntries(fields)
    if (price['input'] !== undefined && price['output'] !== undefined) addIfValid(found, id, price)
  }
  if (found.size === 0) throw unknownForm()
  return found
}

function fromLitellm(list: JsonObject): PriceList {
  const found = new Map<string, Price>()
  for (const [name, row] of Object.entries(list)) {
    if (!isObject(row) || name === 'sample_spec') continue
    const image = Number(shifted(row['output_cost_per_image'] ?? row['input_cost_per_image'], 0) ?? Number.NaN)
    const isEmbedding = row['mode'] === 'embedding'
    const tokens = litellmPrice(isEmbedding ? { ...row, output_cost_per_token: 0 } : row)
    if (row['mode'] === 'image_generation' && image >= 0) addIfValid(found, name, { image })
    else if (tokens !== undefined && isEmbedding) addIfValid(found, name, { input: tokens['input'] ?? 0 })
    else if (tokens !== undefined) addIfValid(found, name, tokens)
  }
  if (found.size === 0) throw unknownForm()
  return found
}

/** A row of a public list that no configuration could have is left out. */
function addIfValid(found: Map<string, Price>, name: string, price: JsonObject): void {
  const checked = checkedPrice(price, [name])
  if ('price' in checked) found.set(name, checked.price)
}

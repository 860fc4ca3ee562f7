/** Reads a provider's list of its models. */

import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'

/** The items of the list in member `list`. Throws `ProviderError` if there is none. */
export function listedModels(body: JsonValue, list: 'data' | 'models'): readonly JsonObject[] {
  const items = isObject(body) ? body[list] : undefined
  if (!Array.isArray(items)) throw new ProviderError('broken', 'the answer is no list of models')
  return items.filter(isObject)
}

/** The `id` of each item of `data`, as OpenAI and Anthropic list them. */
export function listedIds(body: JsonValue): readonly string[] {
  return listedModels(body, 'data').flatMap(({ id }) => (typeof id === 'string' ? [id] : []))
}

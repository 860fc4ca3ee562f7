/** Reads a provider's list of its models. */

import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { ListRequest } from './provider.ts'

/**
 * The first page of a list, whose pages name the next one in `member`, for a parameter of the query. `request`: for the
 * text that is appended to the address.
 */
export function pagedList(member: string, parameter: string, request: (page: string) => ListRequest): ListRequest {
  const page = (end: string): ListRequest => ({
    ...request(end),
    next: (body) => {
      const token = isObject(body) ? body[member] : undefined
      if (typeof token !== 'string' || token === '') return undefined
      return page(`&${parameter}=${encodeURIComponent(token)}`)
    },
  })
  return page('')
}

/** The items of the list in member `list`. Throws `ProviderError` if there is none. */
export function listedModels(body: JsonValue, list: string): readonly JsonObject[] {
  const items = isObject(body) ? body[list] : undefined
  if (!Array.isArray(items)) throw new ProviderError('broken', 'the answer is no list of models')
  return items.filter(isObject)
}

/** The `id` of each deployment of Azure that takes requests. */
export function deployedIds(body: JsonValue): readonly string[] {
  return listedModels(body, 'data').flatMap(({ id, status = 'succeeded' }) =>
    typeof id === 'string' && status === 'succeeded' ? [id] : [],
  )
}

/** The `id` of each item of `data`, as OpenAI and Anthropic list them. */
export function listedIds(body: JsonValue): readonly string[] {
  return listedModels(body, 'data').flatMap(({ id }) => (typeof id === 'string' ? [id] : []))
}

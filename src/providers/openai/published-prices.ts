/** The prices in a provider's own list of models. OpenRouter and gateways like it publish them; OpenAI does not. */

import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../../core/json.ts'

/** In micro-dollars per million tokens; undefined if it is not published. */
export interface PublishedPrice {
  readonly input: number | undefined
  readonly output: number | undefined
}

/** The prices in the body of a list, by the provider's own names of its models. Empty if it has none. */
export function publishedPrices(list: JsonValue): ReadonlyMap<string, PublishedPrice> {
  const models = isObject(list) && isArray(list['data']) ? list['data'].filter(isObject) : []
  return new Map(
    models.flatMap((model) => {
      const [id, pricing] = [stringOf(model['id']), model['pricing']]
      return id === undefined || !isObject(pricing) ? [] : [[id, priceOf(pricing)] as const]
    }),
  )
}

/** `prompt` and `completion` are dollars per token, written as strings. */
function priceOf({ prompt, completion }: JsonObject): PublishedPrice {
  return { input: perMillion(prompt), output: perMillion(completion) }
}

function perMillion(dollarsPerToken: unknown): number | undefined {
  const dollars = typeof dollarsPerToken === 'string' && dollarsPerToken !== '' ? Number(dollarsPerToken) : Number.NaN
  return Number.isFinite(dollars) && dollars >= 0 ? Math.round(dollars * 1e12) : undefined
}

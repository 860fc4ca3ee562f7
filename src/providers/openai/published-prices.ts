/** The prices in a provider's own list of models. OpenRouter and gateways like it publish them; OpenAI does not. */

import type { Endpoint } from '../../core/endpoint.ts'
import { isArray, isObject, type JsonObject, stringOf } from '../../core/json.ts'
import { openaiAddress } from './endpoints.ts'

const MS_MAX = 20_000

/** In micro-dollars per million tokens; undefined if it is not published. */
export interface PublishedPrice {
  readonly input: number | undefined
  readonly output: number | undefined
}

/** The published prices by the provider's own names of its models. Empty if it publishes none, or does not answer. */
export async function publishedPrices(endpoint: Endpoint): Promise<ReadonlyMap<string, PublishedPrice>> {
  const { url, headers } = openaiAddress({ endpoint }, '/models')
  const list = await listAt(url, headers)
  const models = isObject(list) && isArray(list['data']) ? list['data'].filter(isObject) : []
  return new Map(
    models.flatMap((model) => {
      const [id, pricing] = [stringOf(model['id']), model['pricing']]
      return id === undefined || !isObject(pricing) ? [] : [[id, priceOf(pricing)] as const]
    }),
  )
}

/** Many servers have no such list, and one that fails was reported by the requests to its targets. */
async function listAt(url: string, headers: Readonly<Record<string, string>>): Promise<unknown> {
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(MS_MAX), redirect: 'error' })
    return response.ok ? await response.json() : undefined
  } catch {
    return undefined
  }
}

/** `prompt` and `completion` are dollars per token, written as strings. */
function priceOf({ prompt, completion }: JsonObject): PublishedPrice {
  return { input: perMillion(prompt), output: perMillion(completion) }
}

function perMillion(dollarsPerToken: unknown): number | undefined {
  const dollars = typeof dollarsPerToken === 'string' && dollarsPerToken !== '' ? Number(dollarsPerToken) : Number.NaN
  return Number.isFinite(dollars) && dollars >= 0 ? Math.round(dollars * 1e12) : undefined
}

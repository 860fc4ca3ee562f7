/** Compares the configured prices with those that providers publish in their own lists of models. */

import type { Config, ProviderConfig } from '../config/config.ts'
import { ProviderError } from '../core/provider-error.ts'
import { sendForText } from '../gateway/provider-call.ts'
import { openaiModels } from '../providers/openai/endpoints.ts'
import { openai } from '../providers/openai/openai.ts'
import { type PublishedPrice, publishedPrices } from '../providers/openai/published-prices.ts'
import { UpstreamCall } from '../providers/upstream.ts'

/** Prices that differ by more than this are probably a mistake, and not a margin or a discount. */
const FACTOR_MAX = 2
const LIST_MS_MAX = 20_000

/** One line for each price that is far from the published one. Never throws because of a provider. */
export async function doubtfulPrices(config: Config): Promise<readonly string[]> {
  const listed = await listsOf(config)
  return config.models.flatMap((model, index) =>
    model.targets.flatMap(({ provider, model: name }) => {
      const published = listed.get(provider)?.get(name)
      if (published === undefined || model.price === undefined) return []
      const { price } = model
      return (['input', 'output'] as const).flatMap((part) => {
        const [own, theirs] = [price[part], published[part]]
        if (own === undefined || theirs === undefined || isNear(own, theirs)) return []
        const found = `${dollars(own)} dollars per million tokens, but ${provider} lists ${dollars(theirs)} for ${name}`
        return [`warning: models[${index}].price.${part}: ${found}`]
      })
    }),
  )
}

/** The price lists of the providers that publish one and that a model with a price uses. */
async function listsOf(config: Config): Promise<ReadonlyMap<string, ReadonlyMap<string, PublishedPrice>>> {
  const used = new Set(
    config.models.flatMap(({ price, targets }) => (price === undefined ? [] : targets.map(({ provider }) => provider))),
  )
  const asked = config.providers.filter(({ name, dialect }) => dialect === 'openai' && used.has(name))
  return new Map(await Promise.all(asked.map(async (provider) => [provider.name, await pricesOf(provider)] as const)))
}

/** Many servers have no such list, and one that fails was reported by the requests to its targets. */
async function pricesOf(endpoint: ProviderConfig): Promise<ReadonlyMap<string, PublishedPrice>> {
  try {
    const call = new UpstreamCall(openaiModels({ endpoint }), endpoint, false, performance.now() + LIST_MS_MAX)
    return publishedPrices(JSON.parse(await sendForText(call, openai, () => {})))
  } catch (error) {
    if (error instanceof ProviderError || error instanceof SyntaxError) return new Map()
    throw error
  }
}

function isNear(one: number, other: number): boolean {
  return Math.max(one, other) <= FACTOR_MAX * Math.min(one, other)
}

/** Micro-dollars → dollars. */
function dollars(microUsd: number): string {
  return String(microUsd / 1_000_000)
}

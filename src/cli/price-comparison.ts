/** Compares the configured prices with those that providers publish in their own lists of models. */

import type { Config, ProviderConfig } from '../config/config.ts'
import { type PublishedPrice, publishedPrices } from '../providers/openai/published-prices.ts'

/** Prices that differ by more than this are probably a mistake, and not a margin or a discount. */
const FACTOR_MAX = 2

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
  const list = async (provider: ProviderConfig) => [provider.name, await publishedPrices(provider)] as const
  return new Map(await Promise.all(asked.map(list)))
}

function isNear(one: number, other: number): boolean {
  return Math.max(one, other) <= FACTOR_MAX * Math.min(one, other)
}

/** Micro-dollars → dollars. */
function dollars(microUsd: number): string {
  return String(microUsd / 1_000_000)
}

/** The adapter of each provider dialect. One whose packages load slowly is loaded only if a configuration uses it. */

import type { Config } from '../config/config.ts'
import type { ProviderDialect } from '../config/provider-dialects.ts'
import { anthropic } from '../providers/anthropic/anthropic.ts'
import { gemini } from '../providers/gemini/gemini.ts'
import { azure, openai } from '../providers/openai/openai.ts'
import type { Provider } from '../providers/provider.ts'

export type Adapters = ReadonlyMap<ProviderDialect, Provider>

const adapters: Readonly<Record<ProviderDialect, () => Promise<Provider>>> = {
  openai: async () => openai,
  azure: async () => azure,
  anthropic: async () => anthropic,
  gemini: async () => gemini,
  // The AWS packages take 25 ms to load, and a worker should be ready within 300 ms.
  bedrock: async () => (await import('../providers/bedrock/bedrock.ts')).bedrock,
}

/** Loads the adapters that the providers of a configuration need. */
export async function loadAdapters({ providers }: Pick<Config, 'providers'>): Promise<Adapters> {
  const dialects = new Set(providers.map(({ dialect }) => dialect))
  const loaded = [...dialects].map(async (dialect) => [dialect, await adapters[dialect]()] as const)
  return new Map(await Promise.all(loaded))
}

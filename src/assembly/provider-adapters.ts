/** The adapter of each provider dialect. One whose packages load slowly is loaded only if a configuration uses it. */

import type { Config } from '../config/config.ts'
import type { ProviderDialect } from '../core/provider-dialect.ts'
import { anthropic } from '../providers/anthropic/anthropic.ts'
import { vertexClaude } from '../providers/anthropic/vertex-claude.ts'
import { gemini } from '../providers/gemini/gemini.ts'
import { vertexGemini } from '../providers/gemini/vertex-gemini.ts'
import { azure, openai } from '../providers/openai/openai.ts'
import type { Provider } from '../providers/provider.ts'
import { isClaudeOnVertex } from '../providers/vertex-address.ts'

export type Adapters = ReadonlyMap<ProviderDialect, Provider>

const adapters: Readonly<Record<ProviderDialect, () => Promise<Provider>>> = {
  openai: async () => openai,
  azure: async () => azure,
  anthropic: async () => anthropic,
  gemini: async () => gemini,
  // The AWS packages take 25 ms to load, and a worker should be ready within 300 ms.
  bedrock: async () => {
    const [{ bedrock }, { withInvokeModel }] = await Promise.all([
      import('../providers/bedrock/bedrock.ts'),
      import('../providers/anthropic/bedrock-claude.ts'),
    ])
    return withInvokeModel(bedrock)
  },
  vertex: async () => vertexGemini,
}

/** Loads the adapters that the providers of a configuration need. */
export async function loadAdapters({ providers }: Pick<Config, 'providers'>): Promise<Adapters> {
  const dialects = new Set(providers.map(({ dialect }) => dialect))
  const loaded = [...dialects].map(async (dialect) => [dialect, await adapters[dialect]()] as const)
  return new Map(await Promise.all(loaded))
}

/** The adapter for a model, if it is not that of its provider's dialect. */
export function adapterOfModel(dialect: ProviderDialect, model: string): Provider | undefined {
  return dialect === 'vertex' && isClaudeOnVertex(model) ? vertexClaude : undefined
}

/**
 * Service tiers of providers: which names stand for the base tier, which ones each API has, and how a tier is kept with
 * a request's tags.
 */

import type { ProviderDialect } from './provider-dialect.ts'

/** The tier that every price is for unless it is one of another tier. */
export const BASE_TIER = 'default'

/** Names of the base tier, and `auto`, which leaves the choice to the provider. None of them needs a price. */
const BASE_NAMES: ReadonlySet<string> = new Set(['auto', BASE_TIER, 'standard', 'standard_only'])

/** Tiers that OpenAI, Anthropic, Google and AWS are known to name. */
const KNOWN: ReadonlySet<string> = new Set(['priority', 'fast', 'flex', 'scale', 'batch', 'reserved', 'performance'])

/** What a tier is logged, counted and summed up as, if it is none of the table or the configuration. */
const OTHER_TIER = 'other'

/** True for a tier without a price of its own: the base tier by any name, `auto`, and none. */
export function isBaseTier(tier: string | undefined): boolean {
  return tier === undefined || BASE_NAMES.has(tier)
}

/** True if an answer with this word does not name the tier that served it. */
export function namesNoTier(tier: string | undefined): boolean {
  return tier === undefined || tier === '' || tier === 'auto'
}

/** The same name if it is one that providers are known to have, and else one for all others. */
export function boundedTier(tier: string): string {
  return KNOWN.has(tier) ? tier : OTHER_TIER
}

/** The tier in answers of Chat Completions and Responses, whose base tier is `default`. */
export function openaiTier(served: string | undefined): string {
  return served === undefined || BASE_NAMES.has(served) ? BASE_TIER : served
}

/** The tier in the usage of Messages, whose base tier is `standard`. */
export function messagesTier(served: string): string {
  return BASE_NAMES.has(served) ? 'standard' : served
}

/** The APIs that have service tiers. `compatible`: a server with OpenAI's API and tiers of its own. */
export type TierApi = 'openai' | 'compatible' | 'anthropic'

/** Servers of the dialect `openai` that reject a tier, or the name `default` for the base tier. */
const WITHOUT_TIERS = /^https:\/\/(?:[a-z0-9-]+\.)*mistral\.ai(?:[:/]|$)/
const WITHOUT_DEFAULT = /^https:\/\/(?:[a-z0-9-]+\.)*groq\.com(?:[:/]|$)/

/** Undefined if the provider's API has no tiers. */
export function tierApiOf(dialect: ProviderDialect, baseUrl: string): TierApi | undefined {
  switch (dialect) {
    case 'anthropic':
      return 'anthropic'
    case 'azure':
      return 'openai'
    case 'openai':
      if (WITHOUT_TIERS.test(baseUrl)) return undefined
      return WITHOUT_DEFAULT.test(baseUrl) ? 'compatible' : 'openai'
    case 'gemini':
    case 'bedrock':
    case 'vertex':
      return undefined
  }
}

/**
 * What an API is sent for the tier that a caller asked for; undefined leaves it out. Under a strict limit no answer may
 * be dearer than what is reserved, so the provider does not choose the tier.
 */
export function sentTier(api: TierApi | undefined, asked: string | undefined, isStrict: boolean): string | undefined {
  if (api === undefined) return undefined
  if (api === 'anthropic') {
    if (isStrict) return 'standard_only'
    return asked === 'auto' || asked === 'standard_only' ? asked : undefined
  }
  // These two are names of Anthropic's API.
  const tier = asked === 'standard_only' || asked === 'standard' ? undefined : asked
  return isStrict && api === 'openai' && (tier === undefined || tier === 'auto') ? BASE_TIER : tier
}

/** Canonical usage → the usage object of Messages. */

import type { JsonObject } from '../../core/json.ts'
import { messagesTier } from '../../core/service-tier.ts'
import type { Usage } from '../../core/token-usage.ts'

/**
 * `input_tokens` excludes tokens that were read from a cache or written to it; SDKs add the three. The cache figures
 * are present only if a cache was used, the tier only if the provider names it, and the split of its writes by TTL
 * only if the provider reported it.
 */
export function messagesUsage(usage: Usage): JsonObject {
  const { cachedInput: read = 0, cacheWrite5m: written5m = 0, cacheWrite1h } = usage
  const written = written5m + (cacheWrite1h ?? 0)
  const inputTokens = Math.max(0, (usage.input ?? 0) - read - written)
  const outputTokens = usage.output ?? 0
  const tier = usage.serviceTier === undefined ? {} : { service_tier: messagesTier(usage.serviceTier) }
  if (read + written === 0) return { input_tokens: inputTokens, output_tokens: outputTokens, ...tier }
  const byTtl = { ephemeral_5m_input_tokens: written5m, ephemeral_1h_input_tokens: cacheWrite1h }
  return {
    input_tokens: inputTokens,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    ...(cacheWrite1h === undefined ? undefined : { cache_creation: byTtl }),
    output_tokens: outputTokens,
    ...tier,
  }
}

/** The JSON text of `messagesUsage`. */
export function messagesUsageJson(usage: Usage): string {
  const { cachedInput = 0, cacheWrite5m = 0, cacheWrite1h = 0, input = 0, output = 0 } = usage
  if (cachedInput + cacheWrite5m + cacheWrite1h > 0 || usage.serviceTier !== undefined)
    return JSON.stringify(messagesUsage(usage))
  return `{"input_tokens":${input},"output_tokens":${output}}`
}

/** Canonical usage → the usage object of Chat Completions. */

import type { Usage } from '../../core/token-usage.ts'

/**
 * As JSON: three integers and both details, which SDKs require. `prompt_tokens` includes cached and cache-write tokens.
 */
export function chatUsageJson(usage: Usage): string {
  const { input: prompt = 0, output: completion = 0, cachedInput = 0, reasoning = 0 } = usage
  const written = (usage.cacheWrite5m ?? 0) + (usage.cacheWrite1h ?? 0)
  return (
    `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion},` +
    `"prompt_tokens_details":{"cached_tokens":${cachedInput},"audio_tokens":0,"cache_write_tokens":${written}},` +
    `"completion_tokens_details":{"reasoning_tokens":${reasoning},"audio_tokens":0,` +
    '"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}'
  )
}

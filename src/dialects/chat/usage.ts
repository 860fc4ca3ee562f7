/** Canonical usage → the usage object of Chat Completions. */

import type { JsonObject } from '../../core/json.ts'
import type { Usage } from '../../core/token-usage.ts'

/** Three integers and both details, which SDKs require. `prompt_tokens` includes cached and cache-write tokens. */
export function chatUsage(usage: Usage): JsonObject {
  const prompt = usage.input ?? 0
  const completion = usage.output ?? 0
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: usage.cachedInput ?? 0,
      audio_tokens: 0,
      cache_write_tokens: (usage.cacheWrite5m ?? 0) + (usage.cacheWrite1h ?? 0),
    },
    completion_tokens_details: {
      reasoning_tokens: usage.reasoning ?? 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  }
}

/** The details of a usage that has none, and the end of its JSON. */
const NO_DETAILS =
  ',"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0,"cache_write_tokens":0},' +
  '"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,' +
  '"rejected_prediction_tokens":0}}'

/** The JSON text of `chatUsage`. */
export function chatUsageJson(usage: Usage): string {
  const { input: prompt = 0, output: completion = 0, cachedInput = 0, reasoning = 0 } = usage
  const written = (usage.cacheWrite5m ?? 0) + (usage.cacheWrite1h ?? 0)
  const sums = `{"prompt_tokens":${prompt},"completion_tokens":${completion},"total_tokens":${prompt + completion}`
  if (cachedInput === 0 && written === 0 && reasoning === 0) return sums + NO_DETAILS
  return (
    `${sums},"prompt_tokens_details":{"cached_tokens":${cachedInput},"audio_tokens":0,` +
    `"cache_write_tokens":${written}},"completion_tokens_details":{"reasoning_tokens":${reasoning},` +
    '"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}'
  )
}

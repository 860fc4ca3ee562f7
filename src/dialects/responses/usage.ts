/** Canonical usage → the usage object of Responses. */

import type { JsonObject } from '../../core/json.ts'
import type { Usage } from '../../core/token-usage.ts'

/**
 * Three integers and both details, which the official schema and Codex require. `input_tokens` includes cached tokens.
 */
export function responsesUsage(usage: Usage): JsonObject {
  const input = usage.input ?? 0
  const output = usage.output ?? 0
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: usage.cachedInput ?? 0,
      cache_write_tokens: (usage.cacheWrite5m ?? 0) + (usage.cacheWrite1h ?? 0),
    },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: usage.reasoning ?? 0 },
    total_tokens: input + output,
  }
}

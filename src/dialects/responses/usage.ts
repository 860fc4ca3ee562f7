/** Canonical usage → the usage object of Responses, as JSON text. */

import type { Usage } from '../../core/token-usage.ts'

/**
 * Three integers and both details, which the official schema and Codex require. `input_tokens` includes cached tokens.
 */
export function responsesUsageJson(usage: Usage): string {
  const input = usage.input ?? 0
  const output = usage.output ?? 0
  const written = (usage.cacheWrite5m ?? 0) + (usage.cacheWrite1h ?? 0)
  return (
    `{"input_tokens":${input},"input_tokens_details":{"cached_tokens":${usage.cachedInput ?? 0},` +
    `"cache_write_tokens":${written}},"output_tokens":${output},` +
    `"output_tokens_details":{"reasoning_tokens":${usage.reasoning ?? 0}},"total_tokens":${input + output}}`
  )
}

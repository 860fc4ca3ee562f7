/** The members of a Responses answer that whole answers and streams have in common. */

import type { PlainAnswer } from '../../core/completion.ts'
import type { FinishReason } from '../../core/event.ts'
import { isArray, isObject, type JsonObject, type JsonValue, objectOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { tokenCount, type Usage } from '../../core/token-usage.ts'
import { tierOf } from './events.ts'

/** Undefined for everything but one message with one text, and thoughts before it that are not shown. */
export function responsesPlain(body: JsonObject): PlainAnswer | undefined {
  const { output, error, status, incomplete_details: details } = body
  if (!isArray(output) || error || (status !== undefined && status !== 'completed' && status !== 'incomplete'))
    return undefined
  let text: string | undefined
  let hasThoughts = false
  for (const item of output) {
    if (!isObject(item)) return undefined
    if (item['phase'] || item['encrypted_content']) hasThoughts = true
    if (item['type'] === 'reasoning' && !hasFilled(item['content']) && !hasFilled(item['summary'])) continue
    const { type, content } = item
    const part = isArray(content) && content.length === 1 ? content[0] : undefined
    if (type !== 'message' || text !== undefined || !isObject(part)) return undefined
    if (part['type'] !== 'output_text' || typeof part['text'] !== 'string' || hasFilled(part['logprobs']))
      return undefined
    text = part['text']
  }
  if (text === undefined) return undefined
  const reason = finishReason(status ?? 'completed', objectOf(details)?.['reason'])
  return { text, reason, usage: responsesUsage(body), ...(hasThoughts && { hasThoughts }) }
}

export function partsOf({ content }: JsonObject): readonly JsonObject[] {
  return isArray(content) ? content.filter(isObject) : []
}

export function hasFilled(list: JsonValue | undefined): boolean {
  return isArray(list) && list.length > 0
}

/** Throws `ProviderError` for an answer that is not finished. */
export function finishReason(status: string, why: JsonValue | undefined): FinishReason {
  switch (status) {
    case 'completed':
      return 'stop'
    case 'incomplete':
      return why === 'content_filter' ? 'content-filter' : 'length'
    default:
      throw new ProviderError('failed', `the provider ended the answer with status '${status.slice(0, 40)}'`)
  }
}

const NO_DETAILS: JsonObject = {}

/** The counts of an answer, and the tier that served it: an answer may have either alone. */
export function responsesUsage(answer: JsonObject): Usage | undefined {
  const { usage } = answer
  const serviceTier = tierOf(answer)
  if (!isObject(usage)) return serviceTier === undefined ? undefined : { serviceTier }
  const input = isObject(usage['input_tokens_details']) ? usage['input_tokens_details'] : NO_DETAILS
  const output = isObject(usage['output_tokens_details']) ? usage['output_tokens_details'] : NO_DETAILS
  return {
    input: tokenCount(usage['input_tokens']),
    cachedInput: tokenCount(input['cached_tokens']),
    cacheWrite5m: tokenCount(input['cache_write_tokens']),
    output: tokenCount(usage['output_tokens']),
    reasoning: tokenCount(output['reasoning_tokens']),
    total: tokenCount(usage['total_tokens']),
    serviceTier,
  }
}

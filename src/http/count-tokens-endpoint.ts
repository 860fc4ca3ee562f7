/** `POST /v1/messages/count_tokens` on both Messages prefixes: agents call it instead of sending a real request. */

import { countTokens } from '../gateway/count-tokens.ts'
import type { RequestContext } from './edge.ts'
import { jsonHeaders } from './headers.ts'
import { accepted, receiveJson } from './receive.ts'

export function handleCountTokens(context: RequestContext): void | Promise<void> {
  const { parts, log, running } = context
  return receiveJson(context, parts.dialects.messages.textPlaces, async (key, body) => {
    const request = await accepted(body, parts.acceptCount)
    const tokens = await countTokens(parts.gateway, { key, request, running, log })
    log.status = 200
    const headers = jsonHeaders(log.requestId, running.limitHeaders)
    context.complete(new Response(JSON.stringify({ input_tokens: tokens }), { headers }))
  })
}

/** `POST /v1/messages/count_tokens` on both Messages prefixes: agents call it instead of sending a real request. */

import type { Server } from 'bun'
import { countTokens } from '../gateway/count-tokens.ts'
import type { Handled, RequestContext } from './edge.ts'
import { jsonHeaders } from './headers.ts'
import { receiveJson } from './receive.ts'

export async function handleCountTokens(context: RequestContext, server: Server<undefined>): Promise<Handled> {
  const { parts, log, running } = context
  const { key, body } = await receiveJson(context, server)
  const tokens = await countTokens(parts.gateway, { key, request: parts.acceptCount(body), running, log })
  log.status = 200
  const headers = jsonHeaders(log.requestId, running.limitHeaders)
  return context.complete(new Response(JSON.stringify({ input_tokens: tokens }), { headers }))
}

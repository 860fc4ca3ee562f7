/** `POST /v1/messages/count_tokens` on both Messages prefixes: an extension that spares agents real requests. */

import type { Server } from 'bun'
import { countTokens } from '../gateway/count-tokens.ts'
import type { Handled, Visit } from './edge.ts'
import { idHeaders } from './headers.ts'
import { receive } from './inference-endpoint.ts'

export async function handleCountTokens(visit: Visit, server: Server<undefined>): Promise<Handled> {
  const { parts, trace, flight } = visit
  const { key, body } = await receive(visit, server)
  const tokens = await countTokens(parts.gateway, { key, request: parts.acceptCount(body), flight, trace })
  trace.status = 200
  const headers = { 'content-type': 'application/json', ...trace.limitHeaders, ...idHeaders(trace.requestId) }
  return { response: new Response(JSON.stringify({ input_tokens: tokens }), { headers }), ends: 'now' }
}

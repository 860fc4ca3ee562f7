/** `POST /v1/messages/count_tokens` on both Messages prefixes: agents call it instead of sending a real request. */

import type { Key } from '../catalog/catalog.ts'
import { turn } from '../core/event-loop.ts'
import { countTokens } from '../gateway/count-tokens.ts'
import type { LargeBody } from '../wire/long-text-body.ts'
import type { RequestContext } from './edge.ts'
import { jsonHeaders } from './headers.ts'
import { accepted, readJson, receive } from './receive.ts'

export function handleCountTokens(context: RequestContext): void {
  receive(context, context.parts.dialects.messages.largeBody, count)
}

async function count(context: RequestContext, key: Key, bytes: Uint8Array, largeBody: LargeBody): Promise<void> {
  const { parts, log, running } = context
  const body = readJson(context, bytes, largeBody)
  if (running.isHeavy) await turn()
  const request = await accepted(body, parts.acceptCount)
  if (running.isHeavy) await turn()
  const tokens = await countTokens(parts.gateway, { key, request, running, log })
  log.status = 200
  const headers = jsonHeaders(log.requestId, running.limitHeaders)
  context.complete(new Response(JSON.stringify({ input_tokens: tokens }), { headers }))
}

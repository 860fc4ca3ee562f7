/** `POST /v1/messages/count_tokens` on both Messages prefixes: agents call it instead of sending a real request. */

import type { Key } from '../catalog/catalog.ts'
import { turn } from '../core/event-loop.ts'
import { countTokens } from '../gateway/count-tokens.ts'
import type { UnparsedMembers } from '../wire/request-body.ts'
import type { RequestContext } from './edge.ts'
import { jsonHeaders } from './headers.ts'
import { readDocument, receive } from './receive.ts'

export function handleCountTokens(context: RequestContext): void {
  receive(context, context.parts.dialects.messages.unparsed, count)
}

async function count(context: RequestContext, key: Key, bytes: Uint8Array, unparsed: UnparsedMembers): Promise<void> {
  const { parts, log, running } = context
  const body = readDocument(context, bytes, unparsed)
  if (running.isHeavy) {
    body.document.keep()
    await turn()
  }
  const request = parts.acceptCount(body)
  if (running.isHeavy) await turn()
  const tokens = await countTokens(parts.gateway, { key, request, running, log })
  log.status = 200
  const headers = jsonHeaders(log.requestId, running.limitHeaders)
  context.complete(new Response(JSON.stringify({ input_tokens: tokens }), { headers }))
}

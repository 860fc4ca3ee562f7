/** `POST /v1/chat/completions`, `/v1/responses` and `/v1/messages`: a request of any dialect. */

import type { Key } from '../catalog/catalog.ts'
import { turn } from '../core/event-loop.ts'
import type { Dialect, Exchange } from '../dialects/dialect.ts'
import { ChatWork } from '../gateway/chat-work.ts'
import { Flow } from '../gateway/flow.ts'
import type { RequestContext } from './edge.ts'
import { readDocument, receive } from './receive.ts'

/** Converts a body: a dialect's `read`, or that of one of its other endpoints. */
type Reader = Pick<Dialect, 'read' | 'unparsed'>

export function handleInference(context: RequestContext, reader: Reader): void {
  receive(context, reader, take)
}

function take(context: RequestContext, key: Key, bytes: Uint8Array, reader: Reader): void | Promise<void> {
  if (context.running.isHeavy) return takeInTurns(context, key, bytes, reader)
  const body = readDocument(context, bytes, reader.unparsed)
  const exchange = reader.read(body, { organization: key.organization.id })
  return exchange instanceof Promise ? runLater(context, key, exchange) : run(context, key, exchange)
}

async function takeInTurns(context: RequestContext, key: Key, bytes: Uint8Array, reader: Reader): Promise<void> {
  const body = readDocument(context, bytes, reader.unparsed)
  // Other documents are read meanwhile.
  body.document.keep()
  await turn()
  const exchange = await reader.read(body, { organization: key.organization.id })
  await turn()
  run(context, key, exchange)
}

async function runLater(context: RequestContext, key: Key, exchange: Promise<Exchange>): Promise<void> {
  run(context, key, await exchange)
}

function run(context: RequestContext, key: Key, exchange: Exchange): void {
  const { parts, log, running } = context
  log.ignored = exchange.ignored
  new Flow(parts.gateway, key, new ChatWork(parts.gateway, key, exchange, log), running, log, context).run()
}

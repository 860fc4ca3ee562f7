/** `POST /v1/chat/completions`, `/v1/responses` and `/v1/messages`: a request of any dialect. */

import type { Key } from '../catalog/catalog.ts'
import type { JsonObject } from '../core/json.ts'
import type { Dialect, Exchange } from '../dialects/dialect.ts'
import { ChatWork } from '../gateway/chat-work.ts'
import { Flow } from '../gateway/flow.ts'
import type { RequestContext } from './edge.ts'
import { receiveJson } from './receive.ts'

/** Converts a body: a dialect's `accept`, or that of one of its other endpoints. */
type Accept = Dialect['accept']

export function handleInference(context: RequestContext, accept: Accept): void | Promise<void> {
  return receiveJson(context, (key, body) => convert(context, accept, key, body))
}

function convert(context: RequestContext, accept: Accept, key: Key, body: JsonObject): void | Promise<void> {
  const accepted = accept(body, { organization: key.organization.id })
  if (accepted instanceof Promise) return accepted.then((exchange) => run(context, key, exchange))
  run(context, key, accepted)
}

function run(context: RequestContext, key: Key, exchange: Exchange): void {
  const { parts, log, running } = context
  log.ignored = exchange.ignored
  new Flow(parts.gateway, key, new ChatWork(parts.gateway, key, exchange, log), running, log, context).run()
}

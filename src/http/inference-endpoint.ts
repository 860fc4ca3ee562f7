/** `POST /v1/chat/completions`, `/v1/responses` and `/v1/messages`: a request of any dialect. */

import type { Key } from '../catalog/catalog.ts'
import type { Dialect, Exchange } from '../dialects/dialect.ts'
import { ChatWork } from '../gateway/chat-work.ts'
import { Flow } from '../gateway/flow.ts'
import type { RequestContext } from './edge.ts'
import { accepted, receiveJson } from './receive.ts'

/** Converts a body: a dialect's `accept`, or that of one of its other endpoints. */
type Acceptor = Pick<Dialect, 'accept' | 'textPlaces'>

export function handleInference(context: RequestContext, { accept, textPlaces }: Acceptor): void | Promise<void> {
  return receiveJson(context, textPlaces, (key, body) => {
    const caller = { organization: key.organization.id }
    const exchange = accepted(body, (json, longTexts) => accept(json, caller, longTexts))
    return exchange instanceof Promise
      ? exchange.then((found) => run(context, key, found))
      : run(context, key, exchange)
  })
}

function run(context: RequestContext, key: Key, exchange: Exchange): void {
  const { parts, log, running } = context
  log.ignored = exchange.ignored
  new Flow(parts.gateway, key, new ChatWork(parts.gateway, key, exchange, log), running, log, context).run()
}

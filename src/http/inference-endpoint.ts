/** `POST /v1/chat/completions`, `/v1/responses` and `/v1/messages`: a request of any dialect. */

import type { Key } from '../catalog/catalog.ts'
import { turn } from '../core/event-loop.ts'
import type { Caller, Dialect, Exchange } from '../dialects/dialect.ts'
import { ChatWork } from '../gateway/chat-work.ts'
import { Flow } from '../gateway/flow.ts'
import type { RequestContext } from './edge.ts'
import { accepted, type ReceivedBody, readJson, receive } from './receive.ts'

/** Converts a body: a dialect's `accept`, or that of one of its other endpoints. */
type Acceptor = Pick<Dialect, 'accept' | 'largeBody'>

export function handleInference(context: RequestContext, acceptor: Acceptor): void {
  receive(context, acceptor, take)
}

function take(context: RequestContext, key: Key, bytes: Uint8Array, acceptor: Acceptor): void | Promise<void> {
  const body = readJson(context, bytes, acceptor.largeBody)
  if (context.running.isHeavy) return takeInTurns(context, key, body, acceptor)
  const exchange = exchangeOf(body, key.organization.id, acceptor)
  return exchange instanceof Promise ? runLater(context, key, exchange) : run(context, key, exchange)
}

async function takeInTurns(context: RequestContext, key: Key, body: ReceivedBody, acceptor: Acceptor): Promise<void> {
  await turn()
  const exchange = await exchangeOf(body, key.organization.id, acceptor)
  await turn()
  run(context, key, exchange)
}

/** Without marks in the body, no closure is made. */
function exchangeOf(body: ReceivedBody, organization: string, acceptor: Acceptor): Exchange | Promise<Exchange> {
  const caller = { organization }
  return body.longTexts === undefined ? acceptor.accept(body.json, caller) : markedExchange(body, caller, acceptor)
}

function markedExchange(body: ReceivedBody, caller: Caller, { accept }: Acceptor): Exchange | Promise<Exchange> {
  return accepted(body, (json, longTexts) => accept(json, caller, longTexts))
}

async function runLater(context: RequestContext, key: Key, exchange: Promise<Exchange>): Promise<void> {
  run(context, key, await exchange)
}

function run(context: RequestContext, key: Key, exchange: Exchange): void {
  const { parts, log, running } = context
  log.ignored = exchange.ignored
  new Flow(parts.gateway, key, new ChatWork(parts.gateway, key, exchange, log), running, log, context).run()
}

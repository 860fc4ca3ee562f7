/** What a stream that has begun keeps in memory. */

import { expect, test } from 'bun:test'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { JsonObject } from '../../src/core/json.ts'
import type { Later } from '../../src/core/later.ts'
import { chat } from '../../src/dialects/chat/chat.ts'
import type { Dialect, Exchange } from '../../src/dialects/dialect.ts'
import { responses } from '../../src/dialects/responses/responses.ts'
import { RequestLog } from '../../src/gateway/access-log.ts'
import { ChatWork } from '../../src/gateway/chat-work.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { InFlight } from '../../src/gateway/in-flight.ts'
import { Pump } from '../../src/gateway/pump.ts'
import { LocalItemStore } from '../../src/items/local-item-store.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { catalog, keyOf, model } from '../catalog/fixture.ts'
import { sealer } from '../dialects/responses/setting.ts'
import { storeIn } from '../support/item-text.ts'
import { UnlimitedLedger } from '../support/ledger.ts'
import { chatFrames, stalls } from '../support/scenarios.ts'
import { lastingUpstream } from '../support/served.ts'
import { answerOf, gatewayOf } from './answer-of.ts'

const config = catalog({ models: [model('m', { targets: [{ provider: 'p', model: 'm' }] })] })
const STREAMS = 20

const upstream = await lastingUpstream()
upstream.on('m', stalls(chatFrames(['a', 'b']).slice(0, 2)))

function gatewayTo(baseUrl: string): Gateway {
  const deadlines = { connectMs: 9000, firstByteMs: { stream: 9000, whole: 9000 }, idleMs: 60_000, totalMs: 60_000 }
  const endpoint = { name: 'p', baseUrl, headers: {}, deadlines }
  const upstreams = new Map([['p', { provider: openai, endpoint }]])
  return gatewayOf({ catalog: config, ledger: new UnlimitedLedger(), upstreams })
}

/** A request with a long text. */
type Accept = (text: string) => Exchange | Later<Exchange>

const CALLER = { organization: 'o' }

function exchangeOf({ read, unparsed }: Dialect, body: JsonObject): Exchange | Later<Exchange> {
  return read(readRequestBody(Buffer.from(JSON.stringify(body)), unparsed), CALLER)
}

const ofChat: Accept = (text) =>
  exchangeOf(chat({ imageUrls: 'public' }), { model: 'm', stream: true, messages: [{ role: 'user', content: text }] })

const ofResponses: Accept = (text) => {
  const dialect = responses({ sealer, itemStore: storeIn(new LocalItemStore({ ttlSeconds: 60 })) })
  return exchangeOf(dialect, { model: 'm', stream: true, instructions: text, input: 'hi' })
}

/** A stream that has begun, and its request, which only the stream may still refer to. */
async function opened(accept: Accept): Promise<{ readonly pump: Pump; readonly request: WeakRef<ChatRequest> }> {
  const exchange = await accept(crypto.randomUUID().repeat(1000))
  const log = new RequestLog('req_1', { write() {} })
  const gateway = gatewayTo(upstream.url)
  const work = new ChatWork(gateway, keyOf(config), exchange, log)
  const { content } = await answerOf(gateway, keyOf(config), work, new InFlight().add(), log)
  if (!(content instanceof Pump)) throw new Error('the answer is no stream')
  return { pump: content, request: new WeakRef(exchange.request) }
}

test.each([
  ['Chat', ofChat],
  ['Responses, of which bytes are left and items are stored', ofResponses],
] as const)('a stream that has begun keeps nothing of its request: %s', async (_, accept) => {
  const streams = await Promise.all(Array.from({ length: STREAMS }, () => opened(accept)))
  let left = STREAMS
  // The collector takes what looks like a pointer on the stack for one, so a few may be left, and more at one moment
  // than at another.
  for (let tries = 0; tries < 20 && left >= STREAMS / 4; tries++) {
    await Bun.sleep(0)
    Bun.gc(true)
    left = streams.filter(({ request }) => request.deref() !== undefined).length
  }
  expect(left).toBeLessThan(STREAMS / 4)
  for (const { pump } of streams) pump.interrupt('caller_left')
})

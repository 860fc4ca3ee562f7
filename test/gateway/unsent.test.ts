/**
 * A call that ends before its request could be sent costs nothing: the provider has received none of it. One that the
 * provider may have received is sent again only if that costs little.
 */

import { expect, test } from 'bun:test'
import net from 'node:net'
import type { JsonObject } from '../../src/core/json.ts'
import { Caller, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { lastingUpstream } from '../support/served.ts'
import { Serving } from '../support/serving.ts'
import { response } from '../transport/exchanges.ts'
import { RawServer } from '../transport/raw-server.ts'

/** A provider that takes connections and never shakes hands: nothing can be sent through TLS. */
class Deaf {
  private readonly accepted = Promise.withResolvers<void>()
  private readonly sockets = new Set<net.Socket>()
  private readonly server = net.createServer((socket) => {
    this.sockets.add(socket.on('error', () => undefined))
    this.accepted.resolve()
  })

  static async start(): Promise<Deaf> {
    const deaf = new Deaf()
    await new Promise<void>((resolve) => deaf.server.listen(0, '127.0.0.1', resolve))
    return deaf
  }

  get url(): string {
    const address = this.server.address()
    if (address === null || typeof address === 'string') throw new Error('It does not listen on a port.')
    return `https://127.0.0.1:${address.port}/v1`
  }

  /** Resolves once a client has connected. */
  get asked(): Promise<void> {
    return this.accepted.promise
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.sockets) socket.destroy()
    await new Promise<void>((resolve) => this.server.close(() => resolve()))
  }
}

const chat = { messages: [{ role: 'user', content: 'hi' }] }
const image = { prompt: 'A weir', n: 2, size: '1024x1024' }

const cases: readonly (readonly [string, string, JsonObject])[] = [
  ['a stream', '/v1/chat/completions', { ...chat, stream: true }],
  ['a whole answer', '/v1/chat/completions', chat],
  ['images', '/v1/images/generations', image],
]

const upstream = await lastingUpstream({ m: does.silent() })

function serving(baseUrl: string, path: string): Serving {
  const isImage = path.includes('images')
  return new Serving({
    providers: { up: { dialect: 'openai', base_url: baseUrl, api_key: 'x', connect_timeout_ms: 30_000 } },
    models: {
      m: {
        targets: [{ provider: 'up', model: 'm' }],
        ...(isImage
          ? { price: { image: 0.04 }, supports: ['image_generation'] }
          : { price: { input: 1000, output: 1000 } }),
      },
    },
  })
}

async function leave(
  weir: Serving,
  path: string,
  body: JsonObject,
  asked: () => Promise<unknown>,
): Promise<JsonObject> {
  await using caller = await Caller.connect(weir.port)
  caller.send(requestBytes(path, { key: KEY, body: { model: 'm', ...body } }))
  await asked()
  caller.reset()
  await weir.idle()
  const line = weir.lines.find((one) => one['msg'] === 'request')
  expect(line).toMatchObject({ outcome: 'caller_left', status: 499, provider: 'up' })
  expect(weir.ledger.wrong).toEqual([])
  return line ?? {}
}

test.each(cases)('%s: nothing left, nothing is charged', async (_, path, body) => {
  await using deaf = await Deaf.start()
  await using weir = serving(deaf.url, path)
  const line = await leave(weir, path, body, () => deaf.asked)
  for (const name of ['cost_micro_usd', 'usage']) expect(line).not.toHaveProperty(name)
  const [settled] = [...weir.ledger.settled.values()].flat()
  expect(settled).toMatchObject({ inputTokens: 0, outputTokens: 0, costMicroUsd: 0, images: 0 })
  expect(settled?.model).toBe('')
})

test.each(cases)('%s: sent and not answered, it is charged', async (_, path, body) => {
  const before = upstream.calls.length
  await using weir = serving(upstream.url, path)
  const line = await leave(weir, path, body, () => upstream.call('m', before))
  expect(line['cost_micro_usd']).toBeGreaterThan(0)
  expect([...weir.ledger.settled.values()].flat()[0]?.model).toBe('m')
})

const completion = {
  id: 'c',
  object: 'chat.completion',
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
}

/** `performance.now` stands still until it is disposed of. */
function standingClock(): Disposable {
  const { now } = performance
  const nowMs = now.call(performance)
  performance.now = () => nowMs
  return {
    [Symbol.dispose]: () => {
      performance.now = now
    },
  }
}

test.each([
  ['a whole answer', '/v1/chat/completions', chat, completion, 200, 3],
  [
    'images',
    '/v1/images/generations',
    image,
    { created: 1, data: [{ b64_json: 'aGk=' }, { b64_json: 'aGk=' }] },
    502,
    2,
  ],
] as const)('%s: over a kept connection that ends at once', async (_, path, body, answer, again, requests) => {
  await using server = await RawServer.answering((socket, { connection, turn }) => {
    if (connection === 0 && turn === 1) socket.destroy()
    else socket.write(response(JSON.stringify(answer), 'content-type: application/json\r\n'))
  })
  await using weir = serving(new URL('/v1', server.url()).href, path)
  for (const expected of [200, again]) {
    await using caller = await Caller.connect(weir.port)
    // It is sent again only if its connection ends soon: a busy machine shall not count as a slow server.
    using _ = standingClock()
    caller.send(requestBytes(path, { key: KEY, body: { model: 'm', ...body } }))
    const { status } = await caller.answer()
    expect(status).toBe(expected)
  }
  expect(server.requests).toBe(requests)
})

/**
 * The runtime's limit on silence is lifted while a request is processed, unless it ends before the next tick. Each way
 * out sets a limit, or a connection that served one request would stay open as long as its caller wants. Here its 120 s
 * are 1 s.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { SocketConnection } from '../../src/http/socket-connection.ts'
import { Caller, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { Upstream } from '../support/upstream.ts'

const CHAT = '/v1/chat/completions'
const [role = '', ...restOf] = does.chatFrames(['Hello', 'x'.repeat(20_000)])

let upstream: Upstream
let serving: Serving
let server: Bun.Server<SocketConnection>
/** The seconds that the gateway asked for, by the path and query of the request. */
const asked = new Map<string, number[]>()
/** Resolves once the limit of the request that is held was lifted. */
const lifted = Promise.withResolvers<void>()

/** The server as the gateway sees it. */
function shortened(real: Bun.Server<SocketConnection>, name: string): Bun.Server<SocketConnection> {
  const seconds: number[] = []
  asked.set(name, seconds)
  return new Proxy(real, {
    get: (target, property) => {
      if (property === 'timeout')
        return (request: Request, limit: number) => {
          seconds.push(limit)
          if (name === '?held' && limit === 0) lifted.resolve()
          target.timeout(request, Math.min(limit, 1))
        }
      const value: unknown = Reflect.get(target, property, target)
      // Its methods accept no other `this`.
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

beforeAll(async () => {
  upstream = await Upstream.start({
    m: does.answersText('Hi'),
    large: does.answersText('x'.repeat(20_000)),
    live: async (call) => {
      await call.head200()
      await call.chunk(role)
      for (const piece of restOf) {
        await Bun.sleep(1)
        await call.chunk(piece)
      }
      await call.end()
    },
    held: async (call) => {
      await lifted.promise
      await does.answersText('Hi')(call)
    },
    failing: does.json(500, '{}'),
  })
  serving = new Serving({
    providers: { up: upstream.url },
    models: { m: ['up/m'], large: ['up/large'], live: ['up/live'], held: ['up/held'], failing: ['up/failing'] },
  })
  const { service } = serving
  server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    development: false,
    websocket: service.app.websocket,
    fetch: (request, real) => service.app.fetch(request, shortened(real, request.url.slice(request.url.indexOf('?')))),
  })
})

afterAll(async () => {
  await server.stop(true)
  await serving[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

const messages = [{ role: 'user', content: 'hi' }]
const ways: readonly (readonly [name: string, status: number, path: string, body: unknown])[] = [
  ['whole', 200, CHAT, { model: 'm', messages }],
  ['large', 200, CHAT, { model: 'large', messages }],
  ['stream', 200, CHAT, { model: 'live', stream: true, messages }],
  ['stream-at-once', 200, CHAT, { model: 'm', stream: true, messages }],
  ['stream-of-messages', 200, '/v1/messages', { model: 'live', stream: true, max_tokens: 9, messages }],
  ['held', 200, CHAT, { model: 'held', messages }],
  ['count', 200, '/v1/messages/count_tokens', { model: 'm', messages }],
  ['no-json', 400, CHAT, '{'],
  ['no-model', 404, CHAT, { model: 'nothing', messages }],
  ['no-provider', 502, CHAT, { model: 'failing', messages }],
]

test.concurrent.each(ways)('%s: %p, and its connection is let go', async (name, status, path, body) => {
  await using caller = await Caller.connect(server.port ?? 0)
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  caller.send(requestBytes(`${path}?${name}`, { key: KEY, body: text }))
  const answer = await caller.answer()
  expect([answer.status, answer.end]).toEqual([status, 'whole'])
  const seconds = asked.get(`?${name}`) ?? []
  // A request that has ended before the next tick lifts nothing.
  expect(seconds.at(-1)).toBe(120)
  expect(seconds.slice(0, -1)).toEqual(seconds.length === 1 && name !== 'held' ? [] : [0])
  expect(await caller.ended()).toBe(false)
})

test('a body that is rejected by its length, and its connection is let go', async () => {
  await using caller = await Caller.connect(server.port ?? 0)
  const fields = { 'content-length': String(11 * 1024 * 1024) }
  caller.send(requestBytes(`${CHAT}?too-large`, { key: KEY, body: '{', fields }))
  expect((await caller.answer()).status).toBe(413)
  expect(asked.get('?too-large')?.at(-1)).toBe(120)
})

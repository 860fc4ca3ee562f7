/** Requests that wait for room: their deadlines, who goes first, who is turned away, and who leaves. */

import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isObject } from '../../src/core/json.ts'
import { SocketClient } from '../support/socket-client.ts'
import { Upstream } from '../support/upstream.ts'
import { config, Holding, say, waiting } from './limited-provider.ts'
import { KEY, until, Weir } from './weir.ts'

const ONE = { limits: { concurrent_requests: 1 } }

async function shedOf(weir: Weir, priority: string): Promise<number> {
  const text = await (await fetch(`${weir.admin}/metrics`)).text()
  return Number(new RegExp(`^weir_queue_shed_total\\{class="${priority}"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0)
}

test("a key's max_wait_ms stands for the queue's, and retry-after is the time until there is room", async () => {
  await using upstream = await Upstream.start()
  const holding = new Holding(upstream)
  const given = { limits: { requests_per_minute: 4, concurrent_requests: 1 }, queue: { max_wait_ms: 0 } }
  await using weir = await Weir.ready(config(upstream.url, given))
  const first = say(weir)
  await until(() => holding.running === 1)
  const patient = say(weir, 'patient')
  await until(async () => (await waiting(weir)) === 1)
  const refused = await say(weir)
  expect([refused.status, JSON.parse(refused.text).error.code]).toEqual([429, 'upstream_rate_limited'])
  // A request comes back every 15 s.
  expect(Number(refused.header('retry-after'))).toBeWithin(2, 16)
  for (let released = 0; released < 2; released++) await holding.release()
  expect([(await first).status, (await patient).status]).toEqual([200, 200])
})

test('who waits too long gets 429 by HTTP and on a socket, and a socket that closes leaves the queue', async () => {
  await using upstream = await Upstream.start()
  const holding = new Holding(upstream)
  await using weir = await Weir.ready(config(upstream.url, { ...ONE, workers: 2, queue: { max_wait_ms: 700 } }))
  const first = say(weir)
  await until(() => holding.running === 1)
  const port = Number(new URL(weir.address).port)
  await using socket = await SocketClient.open(port, `${KEY}-one`)
  const turn = { type: 'response.create', model: 'm', input: 'hi' }
  socket.send(turn)
  const late = await say(weir)
  expect([late.status, late.header('retry-after')]).toEqual([429, '1'])
  const error = await socket.next()
  expect(error).toMatchObject({ type: 'error', status: 429, error: { code: 'upstream_rate_limited' } })
  expect(isObject(error['headers']) && error['headers']['retry-after']).toBe('1')
  // It may go on, and leaves while it waits.
  await using leaving = await SocketClient.open(port, `${KEY}-patient`)
  leaving.send(turn)
  await until(async () => (await waiting(weir)) === 1)
  await leaving[Symbol.asyncDispose]()
  await until(async () => (await waiting(weir)) === 0)
  await holding.release()
  expect([(await first).status, upstream.calls.length]).toEqual([200, 1])
})

test('a key that is revoked while its request waits calls no provider', async () => {
  await using upstream = await Upstream.start()
  const holding = new Holding(upstream)
  const text = config(upstream.url, ONE)
  await using weir = await Weir.ready(text)
  const first = say(weir)
  await until(() => holding.running === 1)
  const second = say(weir, 'two')
  await until(async () => (await waiting(weir)) === 1)
  await writeFile(join(weir.folder, 'weir.yaml'), text.replace('{"id":"two",', '{"id":"two","disabled":true,'))
  weir.signal('SIGHUP')
  await weir.line('configuration reloaded')
  await holding.release()
  expect((await first).status).toBe(200)
  expect((await second).status).toBe(401)
  expect(upstream.calls.length).toBe(1)
  // Its place is free.
  const third = say(weir)
  await holding.release()
  expect((await third).status).toBe(200)
})

test('turns go by weight, then by key alike; a caller can lower its class and not raise it', async () => {
  await using upstream = await Upstream.start()
  const holding = new Holding(upstream)
  await using weir = await Weir.ready(config(upstream.url, ONE))
  const answers = [say(weir, 'patient')]
  await until(() => holding.running === 1)
  const count = 8
  for (let i = 0; i < count; i++) {
    answers.push(say(weir), say(weir, 'patient'), say(weir, 'two'), say(weir, 'two'), say(weir, 'three'))
    answers.push(say(weir, 'slow', { 'x-gateway-priority': 'interactive' }))
    answers.push(say(weir, 'hasty', { 'x-gateway-priority': 'batch' }))
  }
  // `hasty` does not wait.
  await until(async () => (await waiting(weir)) === 6 * count)
  for (let released = 0; released <= 6 * count; released++) await holding.release()
  await Promise.all(answers)
  const [, ...turns] = holding.senders
  const ofClass = turns.filter((sender) => sender !== 'slow').slice(0, 20)
  const of = (...keys: readonly string[]) => ofClass.filter((sender) => keys.includes(sender)).length
  // Weight 3 to 1, and the keys of each alike, although `two` sends twice as much as `three`.
  expect(of('two', 'three')).toBeWithin(14, 17)
  expect(Math.abs(of('two') - of('three'))).toBeLessThanOrEqual(1)
  expect(Math.abs(of('one') - of('patient'))).toBeLessThanOrEqual(1)
  expect(turns.slice(0, 40).filter((sender) => sender === 'slow')).toHaveLength(4)
})

test('a worker that is short of memory turns away what waits of batch, for a request of the upper class', async () => {
  await using upstream = await Upstream.start()
  const holding = new Holding(upstream)
  const listen = { port: 0, worker_body_bytes: 60_000_000 }
  await using weir = await Weir.ready(config(upstream.url, { ...ONE, more: { listen } }))
  const first = say(weir)
  await until(() => holding.running === 1)
  const words = ' word'.repeat(600_000)
  // Each takes four times its 3 MB, and seven eighths of the memory are for such large ones.
  const batch = Array.from({ length: 4 }, () => say(weir, 'slow', {}, words))
  await until(async () => (await waiting(weir)) === 4)
  // They do not turn away each other.
  expect((await say(weir, 'slow', {}, words)).status).toBe(503)
  const urgent = say(weir, 'one', {}, words)
  expect((await Promise.race(batch)).status).toBe(429)
  await until(async () => (await shedOf(weir, 'batch')) === 1 && (await waiting(weir)) === 4)
  for (let released = 0; released < 5; released++) await holding.release()
  expect([(await first).status, (await urgent).status]).toEqual([200, 200])
  expect((await Promise.all(batch)).map(({ status }) => status).sort()).toEqual([200, 200, 200, 429])
})

test('a drain lets those that wait go on until drain_seconds are over, and then turns them away', async () => {
  await using upstream = await Upstream.start()
  const holding = new Holding(upstream)
  await using weir = await Weir.ready(config(upstream.url, { ...ONE, workers: 2, more: { drain_seconds: 600 } }))
  const answers = [say(weir, 'patient')]
  await until(() => holding.running === 1)
  for (let i = 0; i < 3; i++) answers.push(say(weir, 'patient'))
  await until(async () => (await waiting(weir)) === 3)
  weir.signal('SIGTERM')
  await holding.release()
  await until(() => holding.calls.length === 2)
  await holding.release()
  await until(() => holding.calls.length === 3)
  weir.signal('SIGTERM')
  const statuses = (await Promise.all(answers)).map(({ status }) => status).sort()
  expect(statuses).toEqual([200, 200, 503, 503])
  expect((await weir.ended).code).toBe(0)
})

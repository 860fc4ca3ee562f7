/** More connections than file descriptors: weir rejects callers properly, and recovers on its own. */

import { expect, test } from 'bun:test'
import { ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { until } from './weir.ts'

const DESCRIPTORS = 128
const chat = requestBytes('/v1/chat/completions', {
  key: KEY,
  body: { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
})

async function start(upstream: Upstream): Promise<Gateway> {
  return await Gateway.start({ providers: { up: upstream.url }, descriptors: DESCRIPTORS })
}

test('near the limit new requests get 503 and a closed connection; later all succeed again', async () => {
  await using upstream = await Upstream.start({ m: does.answersText('Hello'), slow: does.silent() })
  await using gateway = await start(upstream)
  expect((await ask(gateway.port, chat)).status).toBe(200)
  // Each with half a request: these are not idle, and the kernel hands them over at once.
  const callers = await Promise.all(Array.from({ length: 110 }, () => Caller.connect(gateway.port)))
  for (const caller of callers) caller.send(chat.subarray(0, 100))
  await until(async () => (await gateway.readyz()).status === 503)
  expect((await gateway.readyz()).reasons).toEqual(['worker 0 is nearly out of file descriptors'])

  const calls = upstream.calls.length
  // The first that were let in: with them low numbers come free, and it is as crowded as before.
  for (const caller of callers.splice(0, 4)) {
    caller.send(chat.subarray(100))
    const answer = await caller.answer()
    expect([answer.status, answer.json()]).toMatchObject([503, { error: { code: 'overloaded' } }])
    expect(answer.header('connection')).toBe('close')
    expect(Number(answer.header('retry-after'))).toBeWithin(1, 61)
    expect(await gateway.request(answer.header('x-request-id'))).toMatchObject({ status: 503, outcome: 'refused' })
    expect(await caller.ended()).toBe(false)
    expect((await gateway.readyz()).status).toBe(503)
  }
  expect(upstream.calls.length).toBe(calls)

  for (const caller of callers) caller.close()
  await until(async () => (await gateway.readyz()).status === 200)
  expect((await ask(gateway.port, chat)).status).toBe(200)
})

test('idle kept-alive connections are closed first', async () => {
  await using upstream = await Upstream.start({ m: does.answersText('Hello') })
  await using gateway = await start(upstream)
  const callers = await Promise.all(Array.from({ length: 110 }, () => Caller.connect(gateway.port)))
  // One after the other, so that the provider's connection serves again: theirs are the descriptors that are taken.
  for (const caller of callers) {
    caller.send(chat)
    await caller.answer()
  }
  // By itself it would stay open for 120 s.
  expect(await callers[0]?.ended()).toBe(false)
  await until(async () => (await gateway.readyz()).status === 200)
  expect((await ask(gateway.port, chat)).status).toBe(200)
})

test('beyond the limit other connections wait, and no worker dies', async () => {
  await using upstream = await Upstream.start({ m: does.answersText('Hello') })
  await using gateway = await start(upstream)
  const callers = await Promise.all(Array.from({ length: 2 * DESCRIPTORS }, () => Caller.connect(gateway.port)))
  for (const caller of callers) caller.send(chat.subarray(0, 100))
  await until(async () => (await gateway.readyz()).status === 503)
  for (const caller of callers) caller.close()
  await until(async () => (await gateway.readyz()).status === 200)
  expect((await ask(gateway.port, chat)).status).toBe(200)
  expect(gateway.lines.filter(({ msg }) => msg === 'worker died')).toEqual([])
})

/** What of requests that wait for room at a provider is not theirs: their deadlines, and the errors of the provider. */

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { slowTicker } from '../../src/core/ticker.ts'
import { ask, Caller, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { type Scenario, Upstream } from '../support/upstream.ts'

async function stage(scenario: Scenario, config: JsonObject, limits?: JsonObject) {
  const upstream = await Upstream.start({ a: scenario })
  const up = { dialect: 'openai', base_url: upstream.url, api_key: 'k', ...(limits && { limits }) }
  const serving = new Serving({ providers: { up }, models: { m: ['up/a'] }, config })
  return {
    serving,
    upstream,
    async [Symbol.asyncDispose]() {
      await serving[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
      expect(serving.ledger.wrong).toEqual([])
    },
  }
}

const messages = [{ role: 'user', content: 'hi' }]
const bytes = (body: JsonObject = {}, fields = {}) =>
  requestBytes('/v1/chat/completions', { key: KEY, body: { model: 'm', messages, ...body }, fields })

test('the time of a wait is not of routing.total_timeout_ms, and the reservation is kept', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const frames = does.chatFrames(['Hi'])
  const held = does.waits(frames.slice(0, 2), promise, does.rest(frames.slice(2)))
  const scenario = does.inTurn(held, does.json(200, does.chatBody('Hello.')))
  const config = { routing: { max_attempts: 3, total_timeout_ms: 500 } }
  await using on = await stage(scenario, config, { concurrent_requests: 1 })
  const { serving } = on
  await using stream = await Caller.connect(serving.port)
  stream.send(bytes({ stream: true }))
  await stream.until('Hi')
  const waiting = ask(serving.port, bytes())
  const { queue } = serving.service.state.current.gateway.capacity ?? {}
  while (queue?.size !== 1) await Bun.sleep(5)
  // Longer than all attempts together may take.
  await Bun.sleep(700)
  resolve()
  const answer = await waiting
  expect(answer.status).toBe(200)
  const { waited_ms, total_ms } = await serving.lineOf(answer.header('x-request-id'))
  expect(waited_ms).toBeWithin(700, Number(total_ms))
  expect(serving.lines.map((line) => 'waited_ms' in line).sort()).toEqual([false, true])
  expect(serving.ledger.reserved).toHaveLength(2)
})

test('with limits and without queue, the caller gets a 429 of the provider at once', async () => {
  const limited = does.json(429, '{"error":{"message":"slow down"}}', { 'retry-after': '1' })
  await using on = await stage(limited, {}, { requests_per_minute: 600 })
  const answer = await ask(on.serving.port, bytes())
  expect([answer.status, answer.header('retry-after'), on.upstream.calls.length]).toEqual([429, '1', 1])
})

test('a worker that is short of CPU time answers 503 to new requests of batch alone', async () => {
  await using on = await stage(does.json(200, does.chatBody('Hello.')), {}, { requests_per_minute: 600 })
  const { queue } = on.serving.service.state.current.gateway.capacity ?? {}
  if (queue === undefined) throw new Error('There is no queue.')
  // The event loop is late again and again, and not in time in between.
  slowTicker.remove(queue.strain)
  for (let late = 0; late < 4; late++) queue.strain.tick(performance.now() + late * 10_000)
  const batch = await ask(on.serving.port, bytes({}, { 'x-gateway-priority': 'batch' }))
  expect([batch.status, JSON.parse(batch.text).error.code]).toEqual([503, 'overloaded'])
  expect(Number(batch.header('retry-after'))).toBeGreaterThan(0)
  expect((await ask(on.serving.port, bytes())).status).toBe(200)
})

test.each([400, 500])('a call that fails with %d takes none of the money of its provider', async (status) => {
  const failing = does.json(status, '{"error":{"message":"no"}}')
  const answers = does.inTurn(failing, failing, does.json(200, does.chatBody('Hi')))
  await using upstream = await Upstream.start({ a: answers })
  // A token costs a cent: some 40 are in, and 9 may come out.
  const price = { input: 10_000, output: 10_000 }
  const up = { dialect: 'openai', base_url: upstream.url, api_key: 'k', limits: { spend: { total: 1 } } }
  const targets = [{ provider: 'up', model: 'a' }]
  await using serving = new Serving({ providers: { up }, models: { m: { targets, price, max_output_tokens: 9 } } })
  const long = bytes({ messages: [{ role: 'user', content: 'What is that? '.repeat(10) }] })
  for (const expected of [status, status, 200])
    expect((await ask(serving.port, long)).status).toBe(expected === 500 ? 502 : expected)
})

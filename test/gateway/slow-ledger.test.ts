/** A ledger that is slow to settle, or fails to: no caller waits for it. */

import { expect, test } from 'bun:test'
import { ask, requestBytes } from '../support/caller.ts'
import { KEY } from '../support/gateway.ts'
import { answersText, chatBody, json } from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { Upstream } from '../support/upstream.ts'

const request = (model: string, stream: boolean) =>
  requestBytes('/v1/chat/completions', {
    key: KEY,
    body: { model, stream, messages: [{ role: 'user', content: 'Hi' }] },
  })

const setup = (upstream: Upstream) => ({ providers: { up: upstream.url }, models: { m: ['up/m'], bad: ['up/bad'] } })

test('an answer, whole or streamed, and an error arrive before their settlement is done', async () => {
  await using upstream = await Upstream.start({
    m: answersText('Hello.'),
    bad: json(400, '{"error":{"message":"no"}}'),
  })
  await using serving = new Serving(setup(upstream))
  const settling = Promise.withResolvers<void>()
  serving.ledger.settling = settling.promise
  const answer = await ask(serving.port, request('m', false))
  expect(answer.status).toBe(200)
  expect((await serving.lineOf(answer.header('x-request-id')))['cost_micro_usd']).toBe(9 + 30)
  expect((await ask(serving.port, request('m', true))).end).toBe('whole')
  expect((await ask(serving.port, request('bad', false))).status).toBe(400)
  expect(serving.ledger.wrong).toEqual([])
  settling.resolve()
  await serving.idle()
})

test('a settlement that fails is logged for the operator, and the answer stands', async () => {
  await using upstream = await Upstream.start({ m: json(200, chatBody('Hello.')) })
  await using serving = new Serving(setup(upstream))
  const settling = Promise.withResolvers<void>()
  serving.ledger.settling = settling.promise
  const answer = await ask(serving.port, request('m', false))
  expect(answer.status).toBe(200)
  settling.reject(new Error('no such table'))
  await new Promise((resolve) => setImmediate(resolve))
  const errors = serving.lines.filter((line) => line['msg'] === 'internal error')
  expect(errors.map((line) => line['request_id'])).toEqual([answer.header('x-request-id')])
})

/** An answer does not wait for the ledger's store: the charge is in the log line, whatever the store takes or says. */

import { expect, test } from 'bun:test'
import { ask } from '../support/caller.ts'
import { answersText } from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { Upstream } from '../support/upstream.ts'
import { chat } from './stage.ts'

test('a store that never answers holds no whole answer up', async () => {
  await using upstream = await Upstream.start({ m: answersText('Hello.') })
  await using serving = new Serving({ providers: { up: upstream.url } })
  let settling = 0
  serving.ledger.settle = () => {
    settling++
    return new Promise(() => undefined)
  }
  const answer = await ask(serving.port, chat('m'))
  expect(answer.status).toBe(200)
  expect((await serving.lineOf(answer.header('x-request-id')))['cost_micro_usd']).toBe(9 + 30)
  expect(settling).toBe(1)
})

test('a store that fails is told to the operator, not to a caller who has his answer', async () => {
  await using upstream = await Upstream.start({ m: answersText('Hello.') })
  await using serving = new Serving({ providers: { up: upstream.url } })
  serving.ledger.settle = () => Promise.reject(new Error('the store is broken'))
  const answer = await ask(serving.port, chat('m'))
  expect(answer.status).toBe(200)
  await serving.idle()
  const told = serving.lines.filter(({ level }) => level === 'error')
  expect(told.map((line) => [line['msg'], line['request_id']])).toEqual([
    ['internal error', answer.header('x-request-id')],
  ])
})

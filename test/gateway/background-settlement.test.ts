/**
 * An answer does not wait for the ledger's store: the charge is in the log line, however long the store takes, and
 * whatever it answers.
 */

import { expect, test } from 'bun:test'
import { Later, laterOf } from '../../src/core/later.ts'
import { ask } from '../support/caller.ts'
import { answersText } from '../support/scenarios.ts'
import { Serving } from '../support/serving.ts'
import { Upstream } from '../support/upstream.ts'
import { chat } from './stage.ts'

test('a store that never answers delays no whole answer', async () => {
  await using upstream = await Upstream.start({ m: answersText('Hello.') })
  await using serving = new Serving({ providers: { up: upstream.url } })
  let settling = 0
  serving.ledger.settle = () => {
    settling++
    return new Later<'settled'>()
  }
  const answer = await ask(serving.port, chat('m'))
  expect(answer.status).toBe(200)
  expect((await serving.lineOf(answer.header('x-request-id')))['cost_micro_usd']).toBe(9 + 30)
  expect(settling).toBe(1)
})

test('the error of a store is logged for the operator, and does not reach a caller that has its answer', async () => {
  await using upstream = await Upstream.start({ m: answersText('Hello.') })
  await using serving = new Serving({ providers: { up: upstream.url } })
  serving.ledger.settle = () => laterOf(Promise.reject(new Error('the store is broken')))
  const answer = await ask(serving.port, chat('m'))
  expect(answer.status).toBe(200)
  await serving.idle()
  const errors = serving.lines.filter(({ level }) => level === 'error')
  expect(errors.map((line) => [line['msg'], line['request_id']])).toEqual([
    ['internal error', answer.header('x-request-id')],
  ])
})

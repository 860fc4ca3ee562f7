/** The end of the process as callers and the log see it. */

import { expect, test } from 'bun:test'
import { Caller } from '../support/caller.ts'
import * as does from '../support/scenarios.ts'
import { chat, STREAM, Stage, seen } from './stage.ts'

const [role = '', hello = '', ...restOf] = does.chatFrames(['Hello'])

test('running requests finish, and new ones are rejected', async () => {
  const release = Promise.withResolvers<void>()
  await using stage = await Stage.start(
    { m: does.waits([role, hello], release.promise, does.rest(restOf)), other: does.answersText('other') },
    { config: { drain_seconds: 20 } },
  )
  const bytes = chat('other')
  await using running = await stage.caller('m', STREAM)
  await using idle = await stage.caller('other')
  await using again = await stage.caller('other')
  await using fresh = await Caller.connect(stage.gateway.port)
  await using begun = await Caller.connect(stage.gateway.port)
  await Promise.all([running.until('Hello'), idle.answer(), again.answer()])
  // Halves of a head, on a connection that served before and on a fresh one; and of a body, which is a request that
  // is running.
  for (const caller of [again, fresh]) caller.send(bytes.subarray(0, 40))
  begun.send(bytes.subarray(0, bytes.length - 10))
  await stage.ask('other')
  stage.gateway.signal('SIGTERM')
  await stage.gateway.line(({ msg }) => msg === 'draining')
  expect(await idle.ended()).toBe(false)
  for (const caller of [again, fresh]) {
    caller.send(bytes.subarray(40))
    const answer = await caller.answer()
    expect([answer.status, answer.header('connection'), answer.json()]).toMatchObject([
      ...[503, 'close', { error: { code: 'shutting_down' } }],
    ])
    expect(Number(answer.header('retry-after'))).toBeWithin(1, 61)
    expect(await stage.lineOf(answer)).toMatchObject({ outcome: 'refused', error: 'shutting_down', status: 503 })
    expect(await caller.ended()).toBe(false)
  }
  begun.send(bytes.subarray(bytes.length - 10))
  expect((await begun.answer()).status).toBe(200)
  release.resolve()
  const answer = await running.answer()
  expect([answer.end, seen(answer.text)]).toEqual(['whole', { text: 'Hello', finish: 'stop', done: true }])
  expect(await stage.lineOf(answer)).toMatchObject({ outcome: 'completed', usage: 'provider' })
  expect(await stage.gateway.exit).toEqual({ code: 0, signal: null })
})

test('after drain_seconds running requests are cut, settled and logged, and the calls to providers end', async () => {
  await using stage = await Stage.start(
    { stream: does.stalls([role, hello]), held: does.stalls([role]), whole: does.silent() },
    { config: { drain_seconds: 1 } },
  )
  await using stream = await stage.caller('stream', STREAM)
  await using held = await stage.caller('held', STREAM)
  await using whole = await stage.caller('whole')
  await Promise.all([stream.until('Hello'), stage.call('held'), stage.call('whole')])
  const exit = stage.gateway.stop()
  const cut = await stream.answer()
  expect([cut.end, seen(cut.text)]).toEqual(['cut', { text: 'Hello', finish: undefined, done: false }])
  for (const caller of [held, whole]) {
    const answer = await caller.answer()
    expect([answer.status, answer.json()]).toMatchObject([503, { error: { code: 'shutting_down' } }])
    expect(answer.header('retry-after')).toBe('1')
  }
  expect(await exit).toEqual({ code: 0, signal: null })
  for (const model of ['stream', 'held', 'whole']) {
    await (await stage.call(model)).aborted
    const line = await stage.line(model)
    expect(line).toMatchObject({
      outcome: 'drained',
      usage: 'estimated',
      status: model === 'stream' ? 200 : 503,
      error: 'shutting_down',
    })
    expect(line['cost_micro_usd']).toBeGreaterThan(0)
  }
})

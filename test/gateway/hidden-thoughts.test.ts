/**
 * A model that thinks without sending it: who leaves before the usage comes, or whose answer is cut, is charged for the
 * time before the first content.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { TargetUsage } from '../../src/gateway/target-usage.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'
import * as does from '../support/scenarios.ts'
import type { Scenario } from '../support/upstream.ts'
import { STREAM, Stage } from './stage.ts'

const target = { provider: 'p', model: 'm' }

describe('the measure of a target', () => {
  test('is its hidden tokens over the time before the first content, newer answers first', () => {
    const usage = new TargetUsage()
    expect(usage.hiddenIn(target, 1000)).toBe(0)
    usage.thoughtHidden(target, 500, 1000)
    expect(usage.hiddenIn(target, 3000)).toBe(1500)
    for (let answers = 0; answers < 50; answers++) usage.thoughtHidden(target, 100, 1000)
    expect(usage.hiddenIn(target, 3000)).toBeWithin(300, 310)
    for (let answers = 0; answers < 100; answers++) usage.thoughtHidden(target, 0, 1000)
    expect(usage.hiddenIn(target, 3000)).toBe(0)
    expect(usage.hiddenIn({ ...target, model: 'other' }, 3000)).toBe(0)
  })

  test('is of configured targets alone', () => {
    const usage = new TargetUsage()
    usage.thoughtHidden(target, 500, 1000)
    usage.keep(() => true)
    expect(usage.hiddenIn(target, 1000)).toBe(500)
    usage.keep(() => false)
    expect(usage.hiddenIn(target, 1000)).toBe(0)
  })
})

describe('an answer', () => {
  function meterAt() {
    const clock = { ms: 5000 }
    const meter = new UsageMeter(7, undefined, () => clock.ms)
    const hello = () => meter.add({ type: 'text', text: 'Hello there' })
    const report = (output: number, reasoning?: number) =>
      meter.add({ type: 'usage', usage: { input: 7, output, ...(reasoning === undefined ? {} : { reasoning }) } })
    return { clock, meter, hello, report }
  }
  /** One token a millisecond. */
  const rate = (ms: number) => ms

  test('that is complete shows what was hidden until its first content', () => {
    const { clock, meter, hello, report } = meterAt()
    clock.ms += 4000
    hello()
    clock.ms += 1000
    report(18_009, 18_000)
    expect(meter.hidden(true)).toEqual({ tokens: 18_000, ms: 4000 })
    // Of a whole answer nothing is seen before its end.
    expect(meter.hidden(false)).toEqual({ tokens: 18_009, ms: 5000 })
  })

  test('shows nothing if its thoughts were sent, or not reported', () => {
    const sent = meterAt()
    for (let words = 0; words < 100; words++) sent.meter.add({ type: 'reasoning', text: 'word ' })
    sent.hello()
    sent.report(112, 110)
    expect(sent.meter.hidden(true)?.tokens).toBe(0)
    const silent = meterAt()
    silent.hello()
    silent.report(300)
    expect(silent.meter.hidden(true)).toBeUndefined()
  })

  test('that breaks off is charged for the time before its first content, as an estimate', () => {
    const { clock, meter, hello } = meterAt()
    clock.ms += 2000
    hello()
    clock.ms += 9000
    const { usage, estimated } = meter.countCut(rate, 4096)
    expect([usage.output, usage.reasoning, estimated]).toEqual([2000 + meter.written, 2000, true])
  })

  test('that breaks off before its content is charged for all of its time', () => {
    const { clock, meter } = meterAt()
    clock.ms += 3000
    expect(meter.countCut(rate, 4096).usage.output).toBe(3000)
  })

  test('is charged at most what is held, and at least what was received', () => {
    const { clock, meter, hello } = meterAt()
    clock.ms += 60_000
    hello()
    expect(meter.countCut(rate, 4096).usage.output).toBe(4096)
    expect(meter.countCut(rate, 1)).toEqual(meter.count(false))
  })

  test('whose usage came is charged by it', () => {
    const { clock, meter, hello, report } = meterAt()
    clock.ms += 2000
    hello()
    report(50, 40)
    expect(meter.countCut(rate, 4096).usage).toMatchObject({ output: 50, reasoning: 40 })
  })

  test('of a target that hides nothing is charged as it was received', () => {
    const { clock, meter, hello } = meterAt()
    clock.ms += 2000
    hello()
    expect(meter.countCut(() => 0, 4096)).toEqual(meter.count(false))
  })
})

describe('between a caller and a provider', () => {
  const [role = '', hello = '', finish = '', , done = ''] = does.chatFrames(['Hello'])
  const usage = { prompt_tokens: 9, completion_tokens: 18_009, completion_tokens_details: { reasoning_tokens: 18_000 } }
  const report = `data: ${JSON.stringify({ choices: [], usage })}\n\n`
  const complete = does.stream([role, hello, finish, report, done])
  const model = (then: Scenario): Scenario => does.inTurn(complete, then)
  let stage: Stage

  beforeAll(async () => {
    stage = await Stage.start({
      left: model(does.stalls([role, hello, finish])),
      cut: model(does.withoutLastChunk([role, hello])),
      silent: model(does.silent()),
      'silent-whole': model(does.silent()),
      reported: model(does.withoutLastChunk([role, hello, finish, report])),
      never: does.stalls([role, hello, finish]),
    })
  })
  afterAll(async () => await stage[Symbol.asyncDispose]())

  /** The log line of a caller that leaves a stream after `text`. */
  async function leaves(name: string, text: string): Promise<JsonObject> {
    const caller = await stage.caller(name, STREAM)
    const seen = await caller.until(text)
    caller.close()
    return await stage.gateway.request(/x-request-id: (\S+)/i.exec(seen)?.[1])
  }

  test('a caller that leaves one event before the usage pays what is held', async () => {
    expect((await stage.ask('left', STREAM)).status).toBe(200)
    const line = await leaves('left', 'Hello')
    expect(line).toMatchObject({ outcome: 'caller_left', usage: 'estimated' })
    expect(Number(line['output_tokens'])).toBeWithin(100, 4097)
  })

  test.each([true, false])('and so does one that leaves while nothing came (streamed: %p)', async (stream) => {
    const name = stream ? 'silent' : 'silent-whole'
    await stage.ask(name, STREAM)
    const caller = await stage.caller(name, { stream })
    await stage.call(name, 0, 1)
    caller.close()
    const line = await stage.gateway.line((one) => one['requested_model'] === name && one['status'] === 499)
    expect(line).toMatchObject({ usage: 'estimated' })
    expect(Number(line['output_tokens'])).toBeWithin(1, 4097)
  })

  test('so does a caller whose stream is cut', async () => {
    await stage.ask('cut', STREAM)
    const answer = await stage.ask('cut', STREAM)
    const line = await stage.lineOf(answer)
    expect(line).toMatchObject({ outcome: 'provider_cut', usage: 'estimated' })
    expect(Number(line['output_tokens'])).toBeWithin(100, 4097)
  })

  test('the usage counts if it came', async () => {
    await stage.ask('reported', STREAM)
    const line = await stage.lineOf(await stage.ask('reported', STREAM))
    expect(line).toMatchObject({ outcome: 'provider_cut', output_tokens: 18_009, usage: 'provider' })
  })

  test('of a target that never reported hidden thoughts nothing is charged for them', async () => {
    expect(await leaves('never', 'Hello')).toMatchObject({ output_tokens: 2, usage: 'estimated' })
  })
})

/** Every way in which a provider's stream can break: the caller has exactly the events that came before, and sees that it is a cut. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import * as does from '../support/scenarios.ts'
import type { Call, Scenario } from '../support/upstream.ts'
import { STREAM, Stage, seen } from './stage.ts'

const PIECES = ['one ', 'two ', 'three']
const TEXT = PIECES.join('')
const frames = does.chatFrames(PIECES, { usage: false })
const content = frames.slice(0, 1 + PIECES.length)
const finish = frames[1 + PIECES.length] ?? ''
const MIB = 1024 * 1024

/** What breaks a stream once the caller has all three pieces. */
type Break = (call: Call) => Promise<void> | void

const more =
  (text: string, then: Break = (call) => call.end()): Break =>
  async (call) => {
    await call.chunk(text)
    await then(call)
  }
const reset: Break = (call) => call.reset()
const close: Break = (call) => call.close()

const breaks: readonly (readonly [name: string, how: Break, finish?: string])[] = [
  ['reset', reset],
  ['no-last-chunk', close],
  ['clean-end', (call) => call.end()],
  ['no-last-chunk-after-finish', more(finish, close), 'stop'],
  ['reset-after-finish', (call) => call.chunk(finish).then(() => undefined), 'stop'],
  ['half-an-event', more('data: {"choices":[{"index":0,"delta":{"content":"lost')],
  ['half-a-character', more('data: {"choices":[{"index":0,"delta":{"content":"\u00e9', close)],
  ['no-json', more('data: {"choices":[}\n\n')],
  ['no-object', more('data: 17\n\n')],
  ['error-event', more('data: {"error":{"message":"x","type":"server_error"}}\n\n')],
  ['finish-error', more('data: {"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}\n\n')],
  [
    'endless-event',
    async (call) => {
      await call.chunk('data: {"choices":[{"index":0,"delta":{"content":"')
      const piece = 'x'.repeat(MIB / 16)
      while (await call.chunk(piece));
    },
  ],
  [
    'endless-comment',
    async (call) => {
      const piece = `:${'x'.repeat(MIB / 16)}`
      while (await call.chunk(piece));
    },
  ],
  ['broken-chunks', (call) => call.write('zz\r\nnot a chunk\r\n').then(() => undefined)],
]

/** The pieces; then, once the caller has seen them, the break. */
function breaking(how: Break, name: string): Scenario {
  return does.waits(content, arrived(name), how)
}

const arrivals = new Map<string, PromiseWithResolvers<void>>()
function arrived(name: string): Promise<void> {
  const arrival = Promise.withResolvers<void>()
  arrivals.set(name, arrival)
  return arrival.promise
}

let stage: Stage

beforeAll(async () => {
  const models = breaks.map(([name, how]) => [name, [breaking(how, name), does.says('never')]] as const)
  stage = await Stage.start({
    ...Object.fromEntries(models),
    short: does.tooShort(content),
    'close-delimited': does.closeDelimited(content),
    'close-delimited-whole': does.closeDelimited([...content, finish]),
    'no-done': does.stream([...content, finish]),
    'open-after-done': does.stalls(frames),
    'reset-after-done': does.inOneBreath(frames, 'zz\r\n'),
    'more-after-done': does.stream([...frames, ...content]),
  })
})

afterAll(async () => await stage[Symbol.asyncDispose]())

describe('a cut', () => {
  test.each(breaks)('%s', async (name, _, finished) => {
    await using caller = await stage.caller(name, STREAM)
    await caller.until('three')
    arrivals.get(name)?.resolve()
    const call = await stage.call(name)
    if (name === 'reset-after-finish') {
      await caller.until('"finish_reason":"stop"')
      call.reset()
    }
    const answer = await caller.answer()
    expect([answer.status, answer.end]).toEqual([200, 'cut'])
    expect(seen(answer.text)).toEqual({ text: TEXT, finish: finished, done: false })
    await call.ended
    expect(stage.calls(name, 1)).toBe(0)
    const line = await stage.lineOf(answer)
    expect(line).toMatchObject({
      outcome: 'provider_cut',
      usage: 'estimated',
      status: 200,
      streamed: true,
      provider: 'p0',
    })
    expect(line).not.toHaveProperty('error')
    expectCharged(line)
  })

  test.each(['short', 'close-delimited'])('%s', async (name) => {
    const answer = await stage.ask(name, STREAM)
    expect([answer.status, answer.end]).toEqual([200, 'cut'])
    expect(TEXT).toStartWith(seen(answer.text).text)
    expect(seen(answer.text).done).toBe(false)
    expectCharged(await stage.lineOf(answer))
  })
})

describe('no cut', () => {
  test.each(['close-delimited-whole', 'no-done', 'open-after-done', 'reset-after-done', 'more-after-done'])(
    '%s',
    async (name) => {
      const answer = await stage.ask(name, STREAM)
      expect([answer.status, answer.end]).toEqual([200, 'whole'])
      expect(seen(answer.text)).toEqual({ text: TEXT, finish: 'stop', done: true })
      // No provider's figure: our own count, and it says so.
      const line = await stage.lineOf(answer)
      expect(line).toMatchObject({ outcome: 'completed', usage: 'estimated' })
      expectCharged(line)
    },
  )

  test('a provider that does not end its answer after its final marker is not waited for', async () => {
    await (await stage.call('open-after-done')).ended
  })
})

test('nothing of all this is an error of our own', () => {
  expect(stage.gateway.lines.filter(({ level }) => level !== 'info')).toEqual([])
})

/** Input and output by our own count, at 1 and 10 dollars a million. */
function expectCharged(line: Readonly<Record<string, unknown>>): void {
  const input = Number(line['input_tokens'])
  const output = Number(line['output_tokens'])
  expect(Math.min(input, output)).toBeGreaterThan(0)
  expect(line['cost_micro_usd']).toBe(input + 10 * output)
}

/**
 * Every way in which a provider's stream can break: the caller gets exactly the events before it, and sees that it is
 * a cut.
 */

import { describe, expect, test } from 'bun:test'
import * as does from '../support/scenarios.ts'
import type { Call, Scenario } from '../support/upstream.ts'
import { lastingStage, STREAM, seen } from './stage.ts'

const PIECES = ['one ', 'two ', 'three']
const TEXT = PIECES.join('')
const frames = does.chatFrames(PIECES, { usage: false })
const content = frames.slice(0, 1 + PIECES.length)
const finish = frames[1 + PIECES.length] ?? ''
const MIB = 1024 * 1024

/** What breaks a stream after the caller has all three pieces. */
type Break = (call: Call) => Promise<void> | void

/** Sends some content and leaves the rest, the end too, to `then`. */
const more =
  (text: string, then: Break): Break =>
  async (call) => {
    await call.chunk(text)
    await then(call)
  }
/** The gateway ends the connection. */
const stay: Break = () => {}
const end: Break = (call) => call.end()
const reset: Break = (call) => call.reset()
const close: Break = (call) => call.close()

const breaks: readonly (readonly [name: string, how: Break])[] = [
  ['reset', reset],
  ['no-last-chunk', close],
  ['clean-end', end],
  ['no-last-chunk-after-finish', more(finish, close)],
  ['reset-after-finish', more(finish, reset)],
  ['half-an-event', more('data: {"choices":[{"index":0,"delta":{"content":"lost', end)],
  ['half-a-character', more('data: {"choices":[{"index":0,"delta":{"content":"\u00e9', close)],
  ['no-json', more('data: {"choices":[}\n\n', stay)],
  ['no-object', more('data: 17\n\n', stay)],
  ['error-event', more('data: {"error":{"message":"x","type":"server_error"}}\n\n', stay)],
  ['finish-error', more('data: {"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}\n\n', stay)],
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

/** Their HTTP is complete: the connection may be reused. */
const ENDED: ReadonlySet<string> = new Set(['clean-end', 'half-an-event'])

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

const models = breaks.map(([name, how]) => [name, [breaking(how, name), does.answersText('never')]] as const)
const stage = await lastingStage({
  ...Object.fromEntries(models),
  short: async (call) => {
    await call.status(200, { 'content-type': 'text/event-stream', 'content-length': '100000' })
    await call.write(content.join(''))
  },
  'close-delimited': does.closeDelimited(content),
  'close-delimited-whole': does.closeDelimited([...content, finish]),
  'no-done': does.stream([...content, finish]),
  'open-after-done': does.stalls(frames),
  'more-after-done': does.stream([...frames, ...content]),
})

describe('a cut', () => {
  test.each(breaks)('%s', async (name) => {
    await using caller = await stage.caller(name, STREAM)
    await caller.until('three')
    arrivals.get(name)?.resolve()
    const call = await stage.call(name)
    const answer = await caller.answer()
    expect([answer.status, answer.end]).toEqual([200, 'cut'])
    expect(seen(answer.text)).toEqual({ text: TEXT, finish: undefined, done: false })
    if (!ENDED.has(name)) await call.ended
    expect(stage.calls(name, 1)).toBe(0)
    const line = await stage.lineOf(answer)
    expect(line).toMatchObject({
      outcome: 'provider_cut',
      usage: 'estimated',
      status: 200,
      streamed: true,
      provider: 'p0',
      error: 'upstream_failed',
    })
    expectCharged(line)
  })

  test('short of its declared length', async () => {
    await using caller = await stage.caller('short', STREAM)
    await caller.until('three')
    ;(await stage.call('short')).close()
    const answer = await caller.answer()
    expect([answer.end, seen(answer.text)]).toEqual(['cut', { text: TEXT, finish: undefined, done: false }])
    expectCharged(await stage.lineOf(answer))
  })

  test('a clean end that only the close shows, without a finish', async () => {
    const answer = await stage.ask('close-delimited', STREAM)
    expect([answer.end, seen(answer.text)]).toEqual(['cut', { text: TEXT, finish: undefined, done: false }])
    expectCharged(await stage.lineOf(answer))
  })
})

describe('no cut', () => {
  test.each(['close-delimited-whole', 'no-done', 'open-after-done', 'more-after-done'])('%s', async (name) => {
    const answer = await stage.ask(name, STREAM)
    expect([answer.status, answer.end]).toEqual([200, 'whole'])
    expect(seen(answer.text)).toEqual({ text: TEXT, finish: 'stop', done: true })
    // Without the provider's figure it is our own count, and is marked as one.
    const line = await stage.lineOf(answer)
    expect(line).toMatchObject({ outcome: 'completed', usage: 'estimated' })
    expectCharged(line)
  })

  test('a provider that does not end its answer after its final marker is not waited for', async () => {
    await (await stage.call('open-after-done')).ended
  })
})

test('no cut above is logged as more than a request', () => {
  expect(stage.gateway.lines.filter(({ level }) => level !== 'info')).toEqual([])
})

/** Input and output by our own count, at 1 and 10 dollars a million. */
function expectCharged(line: Readonly<Record<string, unknown>>): void {
  const input = Number(line['input_tokens'])
  const output = Number(line['output_tokens'])
  expect(Math.min(input, output)).toBeGreaterThan(0)
  expect(line['cost_micro_usd']).toBe(input + 10 * output)
}

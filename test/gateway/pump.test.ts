/**
 * One stream against a clock and a socket that the test controls: keep-alive, the hold, stalls, writes and cuts.
 */

import { describe, expect, test } from 'bun:test'
import { ProviderError } from '../../src/core/provider-error.ts'
import { ticker } from '../../src/core/ticker.ts'
import { ChatEncoder } from '../../src/dialects/chat/stream.ts'
import { MessagesEncoder } from '../../src/dialects/messages/stream.ts'
import { Pump } from '../../src/gateway/pump.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import * as does from '../support/scenarios.ts'
import { attached, HandCall, HandSink, type Hearing, opened } from './by-hand.ts'
import { seen } from './stage.ts'

const SECOND = 1000
const [role = '', hello = '', world = '', ...restOf] = does.chatFrames(['Hello', ' world'])
const KEEP_ALIVE = ': keep-alive\n\n'
/** About what a stream decodes and encodes at a time: its frames are as long as ours. */
const SLICE = 64 * 1024

const USAGE = { input: 9, output: 2 }

interface Made {
  readonly call: HandCall
  readonly meter: UsageMeter
  readonly sink: HandSink
  readonly pump: Pump
  readonly ended: Hearing['ended']
  /** Resolves with `open`, or with the error that came instead. */
  readonly opened: Promise<unknown>
}

function make(call = new HandCall()): Made {
  const encoder = new ChatEncoder({ model: 'm', createdAt: 1 }, false)
  const meter = new UsageMeter(7)
  const pump = new Pump(call, undefined, openai, encoder, meter)
  const { open, ended } = opened(pump)
  return {
    call,
    meter,
    sink: new HandSink(),
    pump,
    ended,
    opened: open.then(
      () => 'open',
      (fault: unknown) => fault,
    ),
  }
}

/** How the caller's side ends, once the headers went out. */
async function outcomeOf({ opened, pump, sink }: Made): Promise<string> {
  await opened
  return await attached(pump, sink).then(
    () => 'ended',
    () => 'cut',
  )
}

/** Lets everything happen that needs no further input. */
async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
  await new Promise((resolve) => setImmediate(resolve))
}

/** When something last went to the caller, by the ticker's clock, which may be a tick late. */
const progressOf = (sink: HandSink) => sink.stream?.progressMs ?? Number.NaN
const later = (seconds: number) => performance.now() + seconds * SECOND

describe('headers', () => {
  test('go out 5 s after the first valid event, and not before', async () => {
    const it = make()
    let open = false
    void it.opened.then(() => {
      open = true
    })
    it.pump.tick(later(60))
    await settled()
    expect(open).toBe(false)
    const beforeEvent = performance.now()
    it.call.give(': a comment\n\n', role)
    await settled()
    it.pump.tick(beforeEvent + 4.9 * SECOND)
    await settled()
    expect(open).toBe(false)
    it.pump.tick(later(5))
    await settled()
    expect(open).toBe(true)
    void outcomeOf(it)
    await settled()
    // Without a byte of a body Bun would keep them.
    expect(it.sink.writes).toEqual([KEEP_ALIVE])
  })

  test.each([
    ['a fault', (it: Made) => it.call.give(new ProviderError('cut', 'x'))],
    ['the end of the process', (it: Made) => it.pump.interrupt('drained')],
  ])(
    'that are out reach the caller before a cut for %s, though the stream was not attached before it',
    async (_, leave) => {
      const it = make()
      it.call.give(role)
      await settled()
      it.pump.tick(later(5))
      expect(await it.opened).toBe('open')
      leave(it)
      await it.ended
      expect(await outcomeOf(it)).toBe('cut')
      expect([it.sink.text, it.sink.ended]).toEqual([KEEP_ALIVE, false])
    },
  )

  test('do not go out for a finish that writes nothing yet: its cut is a failure before the content', async () => {
    const call = new HandCall()
    const encoder = new ChatEncoder({ model: 'm', createdAt: 1 }, false)
    const pump = new Pump(call, undefined, anthropic, encoder, new UsageMeter(7))
    const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
    call.give(
      event('message_start', { message: { usage: { input_tokens: 1, output_tokens: 0 } } }),
      event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 0 } }),
      undefined,
    )
    await expect(opened(pump).open).rejects.toMatchObject({ kind: 'cut' })
  })

  test('do not go out for a role and an error', async () => {
    const it = make()
    it.call.give(role, new ProviderError('overloaded', 'x'))
    expect(await it.opened).toMatchObject({ kind: 'overloaded' })
    expect(it.call.done).toContain('abort')
  })
})

describe('the tokens of the input, to a caller of Messages', () => {
  const usages = (text: string) =>
    [...text.matchAll(/"usage":(\{[^}]*\})/g)].map(([, usage]) => JSON.parse(usage ?? '').input_tokens)
  const rows: readonly (readonly [string, string, readonly string[], number[]])[] = [
    ['reported at the end: our estimate, then what is true', 'openai', does.chatFrames(['Hello']), [7, 9]],
    ['never reported: our estimate', 'openai', does.chatFrames(['Hello'], { usage: false }), [7, 7]],
    ['reported first', 'anthropic', claudeFrames(11), [11, 11]],
    ['reported first as 0: our estimate', 'anthropic', claudeFrames(0), [7, 7]],
  ]
  test.each(rows)('%s', async (_, dialect, frames, expected) => {
    const call = new HandCall()
    const meter = new UsageMeter(7)
    const encoder = new MessagesEncoder({ model: 'm', createdAt: 1 }, meter)
    const pump = new Pump(call, undefined, dialect === 'openai' ? openai : anthropic, encoder, meter)
    const sink = new HandSink()
    call.give(...frames, undefined)
    await opened(pump).open
    await attached(pump, sink)
    expect(usages(sink.text)).toEqual(expected)
  })

  function claudeFrames(input: number): string[] {
    const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`
    return [
      event('message_start', { message: { usage: { input_tokens: input, output_tokens: 1 } } }),
      event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
      event('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hello' } }),
      event('content_block_stop', { index: 0 }),
      event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2 } }),
      event('message_stop', {}),
    ]
  }
})

describe('keep-alive', () => {
  test('every 15 s of silence, and never if something else goes out', async () => {
    const it = make()
    it.call.give(role + hello)
    expect(await it.opened).toBe('open')
    const end = outcomeOf(it)
    await settled()
    expect(it.sink.writes.length).toBe(1)
    it.pump.tick(progressOf(it.sink) + 14.9 * SECOND)
    expect(it.sink.writes.length).toBe(1)
    await Bun.sleep(300)
    it.pump.tick(later(15))
    expect(it.sink.writes.slice(1)).toEqual([KEEP_ALIVE])
    // The silence counts from the comment on.
    it.pump.tick(progressOf(it.sink) + 14.9 * SECOND)
    expect(it.sink.writes.length).toBe(2)
    it.call.give(world)
    await settled()
    expect(it.sink.writes.length).toBe(3)
    it.pump.tick(later(15))
    expect(it.sink.writes.at(-1)).toBe(KEEP_ALIVE)
    it.call.give(restOf.join(''))
    expect(await end).toBe('ended')
    const after = it.sink.writes.length
    it.pump.tick(later(60))
    expect(it.sink.writes.length).toBe(after)
    expect(seen(it.sink.text)).toEqual({ text: 'Hello world', finish: 'stop', done: true })
  })

  test('not before the headers, and not to a caller whose socket is full', async () => {
    const it = make()
    it.pump.tick(later(30))
    it.sink.fill()
    it.call.give(role + hello)
    void outcomeOf(it)
    await settled()
    it.pump.tick(later(100))
    expect(it.sink.writes.length).toBe(1)
    it.pump.interrupt('caller_left')
  })
})

describe('a caller that does not read', () => {
  test('nothing is read from the provider meanwhile, and its deadline is paused', async () => {
    const it = make()
    it.sink.fill()
    it.call.give(role + hello)
    const end = outcomeOf(it)
    await settled()
    expect(it.call.done).toEqual(['pause'])
    it.call.give(world, restOf.join(''))
    await settled()
    expect(it.sink.writes.length).toBe(1)
    it.sink.take()
    expect(await end).toBe('ended')
    expect(it.call.done).toEqual(['pause', 'resume', 'release'])
    expect(it.sink.writes.length).toBe(3)
    expect(seen(it.sink.text)).toEqual({ text: 'Hello world', finish: 'stop', done: true })
  })

  test('gets the whole of an answer whose provider fails after its final marker', async () => {
    const it = make()
    it.sink.fill()
    it.call.give(role + hello)
    const end = outcomeOf(it)
    await settled()
    it.call.giveWhilePaused(world, restOf.join(''), new ProviderError('cut', 'x'))
    await settled()
    it.sink.take()
    expect(await end).toBe('ended')
    expect(await it.ended).toMatchObject({ outcome: 'completed' })
    expect(seen(it.sink.text)).toEqual({ text: 'Hello world', finish: 'stop', done: true })
  })

  test('is cut after 120 s, not before', async () => {
    const it = make()
    it.sink.fill()
    it.call.give(role + hello)
    const end = outcomeOf(it)
    await settled()
    it.pump.tick(later(119))
    await settled()
    expect(it.call.done).toEqual(['pause'])
    it.pump.tick(later(120))
    expect(await end).toBe('cut')
    expect(await it.ended).toMatchObject({ outcome: 'timed_out' })
    expect(it.call.done).toContain('abort')
    expect(it.sink.ended).toBe(false)
  })

  test('a large chunk is made into text and written piece by piece', async () => {
    const it = make()
    const many = hello.repeat(3000)
    it.sink.fill()
    it.call.give(role + many)
    void outcomeOf(it)
    await settled()
    expect(it.sink.writes.length).toBe(1)
    expect(it.sink.text.length).toBeLessThan(128 * 1024)
    it.sink.take()
    it.call.give(restOf.join(''))
    expect(await it.ended).toMatchObject({ outcome: 'completed' })
    expect(seen(it.sink.text)).toMatchObject({ text: 'Hello'.repeat(3000), done: true })
  })
})

describe('ways out', () => {
  const rows = [
    [
      'the caller leaves',
      (it: Made) => {
        it.pump.interrupt('caller_left')
        // The call ends by itself a moment later.
        it.call.give(new ProviderError('cut', 'x'))
      },
      'caller_left',
    ],
    ['the process ends', (it: Made) => it.pump.interrupt('drained'), 'drained'],
    ['the provider resets', (it: Made) => it.call.give(new ProviderError('cut', 'x')), 'provider_cut'],
    ['the provider falls silent', (it: Made) => it.call.give(new ProviderError('timeout', 'x')), 'timed_out'],
    ['the provider ends too early', (it: Made) => it.call.give(undefined), 'provider_cut'],
    ['the provider sends nonsense', (it: Made) => it.call.give('data: {\n\n'), 'provider_cut'],
  ] as const

  test.each(rows)('%s while the stream runs', async (_, leave, outcome) => {
    const it = make()
    it.call.give(role + hello)
    const end = outcomeOf(it)
    await settled()
    leave(it)
    expect(await end).toBe('cut')
    expect(await it.ended).toMatchObject({ outcome, bug: undefined })
    expect([it.sink.ended, it.call.done.includes('abort')]).toEqual([false, true])
    expect(seen(it.sink.text)).toEqual({ text: 'Hello', finish: undefined, done: false })
  })

  test.each(rows.slice(0, 2))('%s before the stream is attached', async (_, leave, outcome) => {
    for (const whole of [true, false]) {
      const it = make()
      it.call.give(role + hello, ...(whole ? [world + restOf.join('')] : []))
      expect(await it.opened).toBe('open')
      await settled()
      leave(it)
      expect(await it.ended).toMatchObject({ outcome, bug: undefined })
      expect(it.pump.takeWhole()).toBeUndefined()
      expect(await outcomeOf(it)).toBe('cut')
      expect(it.sink.ended).toBe(false)
    }
  })

  test('the first way out counts', async () => {
    const it = make()
    it.call.give(role + hello)
    void outcomeOf(it)
    await settled()
    it.pump.interrupt('caller_left')
    it.pump.interrupt('drained')
    expect(await it.ended).toMatchObject({ outcome: 'caller_left' })
    expect(it.call.done).toEqual(['read on', 'abort'])
    it.pump.interrupt('drained')
    expect(await it.ended).toMatchObject({ outcome: 'caller_left' })
  })

  test('an error of our own is a cut, and is reported', async () => {
    const call = new HandCall()
    class Broken extends ChatEncoder {
      override encodeTexts(insides: readonly string[]): string {
        if (insides.includes(' world')) throw new RangeError('a bug')
        return super.encodeTexts(insides)
      }
    }
    const pump = new Pump(call, undefined, openai, new Broken({ model: 'm', createdAt: 1 }, false), new UsageMeter(7))
    call.give(role, hello, world)
    const { open, ended } = opened(pump)
    await open
    const sink = new HandSink()
    await expect(attached(pump, sink)).rejects.toThrow('cut')
    expect(await ended).toMatchObject({ outcome: 'provider_cut', bug: expect.any(RangeError) })
    expect([sink.ended, call.done]).toEqual([false, ['abort']])
  })
})

describe('after the caller has left', () => {
  const bytes = role + hello + world + restOf.join('')

  test('all that still comes counts, wherever the stream was, and nothing is written', async () => {
    for (let at = 0; at <= bytes.length; at += 7) {
      const it = make()
      it.call.give(bytes.slice(0, at))
      void outcomeOf(it)
      await settled()
      const { writes } = it.sink
      const before = writes.length
      const wasWhole = it.pump.isComplete
      it.pump.interrupt('caller_left')
      it.call.give(bytes.slice(at), undefined)
      if (wasWhole) continue
      expect([at, it.pump.isComplete, writes.length, it.sink.ended]).toEqual([at, true, before, false])
      expect(it.meter.countCut(() => 1000, 4096)).toEqual({ usage: { ...USAGE }, estimated: false })
      expect(it.call.done.at(-1)).toBe('release')
    }
  })

  test('also what a slow caller kept the provider from sending', async () => {
    const it = make()
    it.sink.fill()
    it.call.give(role + hello)
    void outcomeOf(it)
    await settled()
    it.call.giveWhilePaused(world)
    it.call.give(restOf.join(''), undefined)
    expect(it.call.done).toEqual(['pause'])
    it.pump.interrupt('caller_left')
    expect(await it.ended).toMatchObject({ outcome: 'caller_left' })
    expect(it.call.done).toEqual(['pause', 'read on', 'resume', 'release'])
    expect(it.meter.countCut(() => 1000, 4096).estimated).toBe(false)
    expect(it.sink.writes.length).toBe(1)
  })

  test('nothing is read if too many calls read on', async () => {
    const it = make(new HandCall(false))
    it.call.give(role + hello)
    void outcomeOf(it)
    await settled()
    it.pump.interrupt('caller_left')
    expect(await it.ended).toMatchObject({ outcome: 'caller_left' })
    expect(it.call.done).toEqual(['read on', 'abort'])
  })

  test('a stream that may not be charged more ends', async () => {
    const it = make()
    it.call.give(role + hello)
    void outcomeOf(it)
    await settled()
    it.pump.interrupt('caller_left')
    it.pump.interrupt('refused')
    expect(await it.ended).toMatchObject({ outcome: 'caller_left' })
    expect(it.call.done).toEqual(['read on', 'abort'])
  })

  test('a stream that is attached only then is cut', async () => {
    const it = make()
    it.call.give(role + hello)
    expect(await it.opened).toBe('open')
    it.pump.interrupt('caller_left')
    expect(await outcomeOf(it)).toBe('cut')
    it.call.give(world, restOf.join(''))
    expect(await it.ended).toMatchObject({ outcome: 'caller_left' })
    expect(it.sink.writes).toEqual([])
  })
})

describe('providers that never pause', () => {
  test('each turn of the loop encodes a bounded number of bytes, however many streams there are', async () => {
    const streams = Array.from({ length: 8 }, () => make())
    const chunk = hello.repeat(3000)
    for (const it of streams) {
      // Reads that are there at once, and a socket that takes all: nothing here ever waits for input or output.
      it.call.give(role + hello, ...Array.from({ length: 4 }, () => chunk), restOf.join(''))
      void outcomeOf(it)
    }
    let written = 0
    for (const { sink } of streams) {
      const write = sink.write.bind(sink)
      sink.write = (text) => {
        written += text.length
        return write(text)
      }
    }
    let others = 0
    let most = 0
    let running = true
    const whole = Promise.all(streams.map(({ ended }) => ended)).finally(() => {
      running = false
    })
    for (let before = written; running; before = written) {
      await new Promise((resolve) => setImmediate(resolve))
      others++
      most = Math.max(most, written - before)
    }
    for (const end of await whole) expect(end).toMatchObject({ outcome: 'completed' })
    expect(seen(streams[0]?.sink.text ?? '')).toMatchObject({ text: 'Hello'.repeat(12_001), done: true })
    expect(chunk.length).toBeGreaterThan(3 * SLICE)
    // One slice, and what the eight streams took before their first wait.
    expect(most).toBeLessThan(4 * SLICE)
    expect(others).toBeGreaterThan(written / (4 * SLICE))
  })

  test('does not count the bytes that came before a tick', async () => {
    const it = make()
    const most = hello.repeat(Math.floor((0.6 * SLICE) / hello.length))
    it.call.give(role, hello)
    const ended = outcomeOf(it)
    const writesOf = (piece: string): number => {
      const before = it.sink.writes.length
      it.call.give(piece)
      return it.sink.writes.length - before
    }
    await ticked()
    expect(writesOf(most)).toBe(1)
    await ticked()
    expect(writesOf(most)).toBe(1)
    expect(writesOf(most)).toBe(0)
    it.pump.interrupt('drained')
    expect(await ended).toBe('cut')
  })
})

/** Resolves with the next tick of the ticker. */
function ticked(): Promise<void> {
  return new Promise((resolve) => {
    const ticking = {
      place: -1,
      tick() {
        ticker.remove(ticking)
        resolve()
      },
    }
    ticker.add(ticking)
  })
}

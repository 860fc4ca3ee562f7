/** How an endless answer is found: by its events and by our own count, because neither is certain alone. */

import { describe, expect, test } from 'bun:test'
import { ProviderError } from '../../src/core/provider-error.ts'
import type { Usage } from '../../src/core/token-usage.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'
import { OutputCount } from '../../src/ledger/estimate.ts'
import { property } from '../support/random.ts'

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz'

/** Adds `pieces` texts to the meter of an answer that may have 300 tokens. */
function adding(pieces: number, piece: (at: number) => string): void {
  const meter = new UsageMeter(7, 300)
  for (let at = 0; at < pieces; at++) meter.add({ type: 'text', text: piece(at) })
}

describe('an answer of 300 tokens', () => {
  test('may come letter by letter, in letters that we count too high', () => {
    adding(2000, (at) => ALPHABET[at % 26] ?? '')
  })

  test('may come in few pieces that we count too high', () => {
    adding(500, () => '\u8a9e'.repeat(20))
  })

  test('is cut once both go on beyond it', () => {
    expect(() => adding(2000, () => 'word ')).toThrow(ProviderError)
    expect(() => adding(100_000, (at) => ALPHABET[at % 26] ?? '')).toThrow(ProviderError)
  })

  test('may come with any number of thoughts', () => {
    const meter = new UsageMeter(7, 300)
    for (let at = 0; at < 5000; at++) meter.add({ type: 'reasoning', text: 'word ' })
    for (let at = 0; at < 300; at++) meter.add({ type: 'text', text: 'word ' })
    expect(meter.count(true).usage.output).toBeGreaterThan(4000)
    // The reservation grows with them.
    expect(meter.written).toBe(meter.count(true).usage.output)
  })
})

describe('the count of an answer', () => {
  test('takes the inside of a JSON string as the text that it encodes', () => {
    const [parsed, copied] = [new UsageMeter(7), new UsageMeter(7)]
    for (const piece of ['Hel', 'lo, ', '世界', ' and', ' more']) {
      parsed.add({ type: 'text', text: piece })
      copied.addInsides(1, piece === '世界' ? '\\u4e16\\u754c' : piece)
    }
    expect(copied.written).toBe(parsed.written)
  })

  property('is that of all its text, however it comes and whenever it is asked for', 500, (random) => {
    const meter = new UsageMeter(7)
    const counted = new OutputCount()
    for (let pieces = random.between(0, 20); pieces > 0; pieces--) {
      const text = random.pick(PIECES).repeat(random.pick([1, 1, 1, 30, 400]))
      if (random.chance(0.5)) meter.add({ type: 'text', text })
      else meter.addInsides(1, JSON.stringify(text).slice(1, -1))
      counted.addText(text)
      expect(meter.writtenAtMost).toBeGreaterThanOrEqual(counted.tokens)
      if (random.chance(0.1)) expect(meter.written).toBe(counted.tokens)
    }
    expect(meter.count(false).usage.output).toBe(counted.tokens)
    expect(meter.writtenAtMost).toBe(counted.tokens)
  })

  test('is made at the end if the provider reported no figure', () => {
    const meter = new UsageMeter(7)
    meter.add({ type: 'text', text: 'Two words' })
    expect(meter.count(true)).toMatchObject({ usage: { output: meter.written }, estimated: true })
    expect(meter.written).toBeGreaterThan(0)
  })
})

const PIECES = ['word ', 'a', '1', ' 1', '\n', ' \t ', '"x"', '\\', '世', '🙂', 'ﷺ', 'zq', '\u0000', 'Ǆ'] as const

describe('reasoning that a provider leaves out of its output', () => {
  const rows: readonly (readonly [string, Usage, output: number, reasoning: number | undefined])[] = [
    ['is in the total only, as xAI counts', { input: 14, output: 10, reasoning: 312, total: 336 }, 322, 312],
    ['is not reported, whatever the total is', { input: 20, output: 424, total: 1016 }, 424, undefined],
    ['is all of the output', { input: 21, output: 0, reasoning: 60, total: 81 }, 60, 60],
    ['is a part of it, as OpenAI counts', { input: 14, output: 322, reasoning: 312, total: 336 }, 322, 312],
    ['explains only some of the total', { input: 14, output: 10, reasoning: 3, total: 336 }, 10, 3],
    ['is there without a total', { input: 14, output: 10, reasoning: 312 }, 10, 10],
    ['cannot be in a total that is too small', { input: 14, output: 10, total: 12 }, 10, undefined],
  ]
  test.each(rows)('%s', (_, usage, output, reasoning) => {
    const meter = new UsageMeter(10)
    meter.add({ type: 'usage', usage })
    const counted = meter.count(true)
    expect([counted.usage.input, counted.usage.output, counted.usage.reasoning]).toEqual([
      usage.input,
      output,
      reasoning,
    ])
    expect(counted.estimated).toBe(false)
  })

  test('is judged by the total that came with the output', () => {
    const meter = new UsageMeter(10)
    meter.add({ type: 'usage', usage: { input: 9, output: 1, total: 10 } })
    meter.add({ type: 'usage', usage: { input: 3, output: 1 } })
    expect(meter.count(true).usage).toMatchObject({ input: 3, output: 1 })
  })
})

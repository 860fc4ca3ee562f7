/** How an endless answer is found: by its events and by our own count, because neither is certain alone. */

import { describe, expect, test } from 'bun:test'
import { ProviderError } from '../../src/core/provider-error.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'

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

/** When an answer has no end: judged by its events and by our own count, neither of which is sure alone. */

import { describe, expect, test } from 'bun:test'
import { ProviderError } from '../../src/core/provider-error.ts'
import { UsageMeter } from '../../src/gateway/usage-meter.ts'

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz'

/** Adds so many pieces to the tally of an answer that may have 300 tokens. */
function adding(pieces: number, piece: (at: number) => string): void {
  const tally = new UsageMeter(7, 300)
  for (let at = 0; at < pieces; at++) tally.add({ type: 'text', text: piece(at) })
}

describe('an answer of 300 tokens', () => {
  test('may come letter by letter, in letters that we count dearly', () => {
    adding(2000, (at) => ALPHABET[at % 26] ?? '')
  })

  test('may come in few pieces that we count dearly', () => {
    adding(500, () => '\u8a9e'.repeat(20))
  })

  test('is cut once both go on beyond it', () => {
    expect(() => adding(2000, () => 'word ')).toThrow(ProviderError)
    expect(() => adding(100_000, (at) => ALPHABET[at % 26] ?? '')).toThrow(ProviderError)
  })

  test('may have been thought about for as long as the server likes', () => {
    const tally = new UsageMeter(7, 300)
    for (let at = 0; at < 5000; at++) tally.add({ type: 'reasoning', text: 'word ' })
    for (let at = 0; at < 300; at++) tally.add({ type: 'text', text: 'word ' })
    expect(tally.count(true).usage.output).toBeGreaterThan(4000)
    // What is held for the request grows with it.
    expect(tally.written).toBe(tally.count(true).usage.output)
  })
})

/** Text in pieces: all of it, and in little more memory than its characters. */

import { heapStats } from 'bun:jsc'
import { expect, test } from 'bun:test'
import { GatheredText } from '../../src/core/gathered-text.ts'

test('every piece is there, and half a character too', () => {
  const pieces = Array.from({ length: 5000 }, (_, at) => (at % 2 === 0 ? `a\u{1f600}`.slice(0, 2) : '\ude00"é\n'))
  const text = new GatheredText()
  for (const piece of pieces) text.add(piece)
  expect(text.length).toBe(pieces.join('').length)
  expect(text.toString()).toBe(pieces.join(''))
})

test('pieces take little more than their characters', () => {
  const texts = Array.from({ length: 50 }, () => new GatheredText())
  Bun.gc(true)
  const before = heapStats().heapSize
  for (let at = 0; at < 20_000; at++) for (const text of texts) text.add(JSON.parse(`" w${at % 1000}"`))
  Bun.gc(true)
  const chars = texts.reduce((sum, { length }) => sum + length, 0)
  expect((heapStats().heapSize - before) / chars).toBeLessThan(2)
})

/** Long strings of JSON text that arrives in pieces lose their rest, wherever the pieces are cut. */

import { expect } from 'bun:test'
import { StringShortener } from '../../src/wire/string-shortener.ts'
import { property } from '../support/random.ts'

const STRING_CHARS_MAX = 1024
const PARTS = ['{"a":', '"', '"', '\\', '\\"', '\\\\"', '},[1', 'x'.repeat(700), 'y'.repeat(1023), '"":"'] as const

/** One character after the other. */
function shortened(text: string, from: number): string {
  let [kept, inString, escapes, length] = ['', false, false, 0]
  for (const [at, character] of [...text].entries()) {
    if (at === from) length = Math.min(length, STRING_CHARS_MAX)
    const isQuote = character === '"' && !escapes
    escapes = inString && character === '\\' && !escapes
    if (inString && !isQuote) length++
    if (at >= from && (isQuote || length <= STRING_CHARS_MAX || !inString)) kept += character
    else if (at >= from && length === STRING_CHARS_MAX + 1) kept += '\0'
    if (!isQuote) continue
    inString = !inString
    length = 0
  }
  return kept
}

property('the same for every cut, and as one character after the other gives it', 400, (random) => {
  const text = random.list(12, () => random.pick(PARTS)).join('')
  const from = random.below(text.length + 1)
  const shortener = new StringShortener(text.slice(0, from))
  let kept = ''
  const size = random.pick([1, 2, 50, 5000])
  for (let at = from; at < text.length; at += size) kept += shortener.take(text.slice(at, at + size))
  expect(kept).toBe(shortened(text, from))
})

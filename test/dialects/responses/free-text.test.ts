/** The text of a free-form call is the same however its arguments are cut into pieces. */

import { expect, test } from 'bun:test'
import { callText, FreeText, textOf } from '../../../src/dialects/free-text.ts'

const TEXT = '*** "q" \\ \n é 😀 \u2028 end'

test.each([
  [JSON.stringify({ input: TEXT }), TEXT],
  [`\n {  "input" : ${JSON.stringify(TEXT)} , "more": 1 }`, TEXT],
  [JSON.stringify({ input: TEXT }).replace('😀', String.raw`\ud83d\ude00`), TEXT],
  [JSON.stringify({ other: 1, input: TEXT }), TEXT],
  [String.raw`{"input":"\ud83d\n"}`, '\ud83d\n'],
  [String.raw`{"input":"\ud83d"}`, '\ud83d'],
  ['{"input":""}', ''],
  ['{}', ''],
  ['{"input":5}', '{"input":5}'],
  [`{"in\\u0070ut":${JSON.stringify(TEXT)}}`, TEXT],
])('%s', (json, text) => {
  expect(textOf(json)).toBe(text)
  for (const size of [1, 2, 3, 7, json.length]) {
    const reader = new FreeText()
    let inside = ''
    for (let at = 0; at < json.length; at += size) {
      const piece = reader.add(json.slice(at, at + size), at + size >= json.length)
      // Each piece is a string of whole characters, on one line.
      expect(JSON.parse(`"${piece}"`).isWellFormed()).toBe(
        text.isWellFormed() || piece === '' || !piece.includes('d83d'),
      )
      expect(piece).not.toMatch(/[\n\u2028]/)
      inside += piece
    }
    expect(JSON.parse(`"${inside}"`)).toBe(text)
  }
})

test.each([
  ['{"input":"abc', 'abc'],
  ['{"in', ''],
  [String.raw`{"input":"ab\n`, 'ab\n'],
  [String.raw`{"input":"ab\\`, 'ab\\'],
  ['{"input":"ab\\', 'ab'],
  [String.raw`{"input":"ab\u00e`, 'ab'],
  [String.raw`{"input":"ab\ud83d\ude`, 'ab'],
  ['{"input":"ab\ud83d', 'ab'],
  ['{"input":"ab"', 'ab'],
  ['{"input":"a\nb\u2028', 'a\nb\u2028'],
  [String.raw`{"input":"a\qb`, String.raw`a\qb`],
  [String.raw`{"input":"a\u12", "`, String.raw`a\u12", `],
])('the arguments %j, which are cut', (json, text) => {
  expect(callText({ json, isWhole: false })).toBe(text)
  for (const size of [1, 2, 3, 7]) {
    const reader = new FreeText()
    let inside = ''
    for (let at = 0; at < json.length; at += size) inside += reader.add(json.slice(at, at + size), false)
    expect(inside).not.toMatch(/[\n\u2028]/)
    expect(JSON.parse(`"${inside}"`)).toBe(text)
  }
})

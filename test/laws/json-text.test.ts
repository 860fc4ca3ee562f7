/** The law of JSON within strings: the kernel counts and unescapes as the loops over each byte do. */

import { describe, expect, test } from 'bun:test'
import { DEPTH_MAX } from '../../src/wire/json-shape.ts'
import {
  plainUnescaped,
  plainValues,
  type UnescapedText,
  unescapedWithin,
  valuesWithin,
} from '../../src/wire/json-text.ts'
import { STRING_BYTES_MAX, stringKernel } from '../../src/wire/string-kernel.ts'
import { property, type Random } from '../support/random.ts'

const PIECES = [
  '{',
  ...['}', '[', ']', ',', ':', '1', 'x', 'é', '設', '🙂', ' ', '\\"', '\\"', '\\"', '\\\\', '\\\\\\"'],
  ...['\\\\\\\\', '\\\\n', '\\n', '\\t', '\\r', '\\b', '\\f', '\\/', '\\\\u0041', '{[', ']}', 'plain text of a file'],
] as const

/** The inside of a string, of any length around those of the kernel's blocks. */
function textOf(random: Random): string {
  const parts = Array.from({ length: random.below(120) }, () =>
    random.chance(0.1) ? 'y'.repeat(random.below(70)) : random.pick(PIECES),
  )
  if (random.chance(0.1)) parts.splice(random.below(parts.length + 1), 0, '\\u00e9')
  return parts.join('')
}

const textIn = ({ buffer, size }: UnescapedText) => buffer.toString('utf8', 0, size)

/** Both of a text within other bytes. */
function expectSame(text: string, before = 'z'.repeat(7)): void {
  const bytes = new Uint8Array(Buffer.from(`${before}${text}"\\u,[[`))
  const [start, end] = [Buffer.byteLength(before), Buffer.byteLength(before + text)]
  expect(valuesWithin(bytes, start, end)).toBe(plainValues(bytes, start, end))
  const [one, other] = [unescapedWithin(bytes, start, end), plainUnescaped(bytes, start, end)]
  expect(one && textIn(one)).toBe(other && textIn(other))
}

test('the kernel is what runs here', () => expect(stringKernel()).toBeDefined())

property('texts are counted and unescaped as byte by byte', 5000, (random) => {
  const text = textOf(random)
  expectSame(text)
  // What the parser makes of it.
  const bytes = Buffer.from(`"${text}"`)
  const unescaped = unescapedWithin(bytes, 1, bytes.length - 1)
  if (unescaped !== undefined) expect(textIn(unescaped)).toBe(JSON.parse(`"${text}"`))
})

describe('also', () => {
  test('every escape, at every place of a block', () => {
    for (const letter of '"\\/bfnrtu') {
      for (let at = 0; at < 40; at++) {
        const text = `\\"${'x'.repeat(100 + at)}\\${letter}${'y'.repeat(40 - at)}[1,2:\\",{3:4}`
        expectSame(text)
      }
    }
  })

  test('texts that end within a string, or after a backslash of theirs', () => {
    for (let length = 90; length < 140; length++) {
      expectSame(`{\\"a\\":\\"${'x'.repeat(length)}`)
      expectSame(`{\\"a\\":\\"${'x'.repeat(length)}\\\\`)
    }
  })

  test('texts of the most levels, and of one more', () => {
    for (const levels of [DEPTH_MAX, DEPTH_MAX + 1]) {
      for (const brackets of ['{', '[']) expectSame(brackets.repeat(levels))
      expectSame(`${']'.repeat(50)}${'['.repeat(levels + 50)}`)
      expectSame(`\\"${'['.repeat(2 * levels)}\\"${'[{'.repeat(levels / 2)}`)
    }
    const deep = Buffer.from('['.repeat(DEPTH_MAX + 1))
    expect(valuesWithin(deep, 0, deep.length - 1)).toBe(0)
    expect(valuesWithin(deep, 0, deep.length)).toBe(-1)
  })

  test('the longest text that fits, and longer ones', () => {
    for (const length of [STRING_BYTES_MAX, STRING_BYTES_MAX + 1, STRING_BYTES_MAX + 1000]) {
      const text = '{\\"a\\":\\"\\\\n,'.padEnd(length - 3, ':')
      expectSame(`${text}\\n,`, '')
      expectSame(`${text}yyy`, '')
    }
  })
})

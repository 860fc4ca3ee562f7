/** Which numbers keep their digits, wherever they are in a text. */

import { expect, test } from 'bun:test'
import { parseExact, parseExactBody } from '../../src/core/exact-json.ts'
import { property } from '../support/random.ts'

const DIGITS = '12345678901234567890123456789'
const STAND_IN = '"@"'
/** Strings that only look like long integers. */
const WORDS = ['', 'a', ': 1', ` ${DIGITS}`, `,-${DIGITS} `, `\n${DIGITS}`] as const

property('an integer keeps its digits, and all else is as JSON.parse reads it', 2000, (random) => {
  const looks = random.chance(0.5)
  const words = () => (looks ? random.pick(WORDS) : '') + 'x'.repeat(random.below(40))
  const others = { words: words(), list: [words(), 0.12345678901234566, null], [words()]: { a: words() } }
  const space = random.pick([0, 1, 2])
  const written = JSON.stringify(others, null, space)
  expect(parseExact(written)).toEqual(others)

  const from = random.below(8)
  const number = `${random.pick(['', '-'])}9${DIGITS.slice(from, from + random.between(15, 20))}`
  const whole = JSON.stringify({ others, a: [1, { b: '@' }], c: 1 }, null, space).replaceAll(STAND_IN, number)
  const compact = JSON.stringify({ others, a: [1, { b: '@' }], c: 1 }).replaceAll(STAND_IN, number)
  expect(JSON.stringify(parseExact(whole))).toBe(compact)
})

test.each(['9007199254740991', '-9007199254740991', '0.12345678901234567', '1e21', '-1'])(
  '%s is a number',
  (number) => {
    expect(parseExact(`{"a":${number},"b":${DIGITS}}`)).toHaveProperty('a', Number(number))
  },
)

test('the own fields of a body are numbers, and those within them keep their digits', () => {
  const body = parseExactBody(`{"max_tokens":${DIGITS},"tools":[{"maximum":${DIGITS}}]}`)
  expect(body).toHaveProperty('max_tokens', Number(DIGITS))
  expect(JSON.stringify(body)).toEndWith(`"tools":[{"maximum":${DIGITS}}]}`)
})

test('a long row of minus signs is read, too', () => {
  const text = '-'.repeat(1_000_000) + DIGITS
  expect(parseExact(JSON.stringify(text))).toBe(text)
})

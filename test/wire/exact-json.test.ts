/** Which numbers keep their text, wherever they are in a JSON text. */

import { describe, expect, test } from 'bun:test'
import { isExactNumber, parseExact, parseExactBody } from '../../src/core/exact-json.ts'
import { isObject } from '../../src/core/json.ts'
import { UNPARSED } from '../../src/dialects/chat/request.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { CallInputs } from '../../src/providers/call-arguments.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { parseBody } from '../../src/wire/body.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { property } from '../support/random.ts'

const DIGITS = '12345678901234567890123456789'
const STAND_IN = '"@"'
/** Strings that only look like such numbers. */
const WORDS = [
  '',
  'a',
  ': 1',
  ` ${DIGITS}`,
  `,-${DIGITS} `,
  `\n${DIGITS}`,
  ' -0',
  ': 1e400',
  ': 0.1.2.3.4.5.6.7.8',
] as const

property('a long integer keeps its digits, and all else is as JSON.parse reads it', 2000, (random) => {
  const looks = random.chance(0.5)
  const words = () => (looks ? random.pick(WORDS) : '') + 'x'.repeat(random.below(40))
  const others = { words: words(), list: [words(), 0.12345678901234566, null, 1e21], [words()]: { a: words() } }
  const space = random.pick([0, 1, 2])
  const written = JSON.stringify(others, null, space)
  expect(parseExact(written)).toEqual(others)

  const from = random.below(8)
  const number = `${random.pick(['', '-'])}9${DIGITS.slice(from, from + random.between(15, 20))}`
  const whole = JSON.stringify({ others, a: [1, { b: '@' }], c: 1 }, null, space).replaceAll(STAND_IN, number)
  const compact = JSON.stringify({ others, a: [1, { b: '@' }], c: 1 }).replaceAll(STAND_IN, number)
  expect(JSON.stringify(parseExact(whole))).toBe(compact)
})

/** Places of a number, in texts that are searched in both ways. */
const PLACES: readonly (readonly [before: string, after: string])[] = [
  ['', ''],
  ['[', ']'],
  ['{"a":', '}'],
  ['{"a": ', ' }'],
  ['{"a":\n', '\n}'],
  ['[0.1,', ',2]'],
  ['["\\"",', ',"\\\\"]'],
  ['["\\\\",', ',"\\\\\\""]'],
]
const FILL = 'a'.repeat(70_000)

test.each([
  '9007199254740992',
  '10000000000000000000000',
  '-0',
  '-0.0',
  '-0e1',
  '1e400',
  '-1E+400',
  '1e00400',
  '1e-400',
  '1.2345e-323',
  '0.1234567890123456789',
  '12345678901234567.5',
  '1234567890.12345678',
  '1.00000000000000000001',
  '123456789012345678e-2',
])('%s keeps its text', (number) => {
  for (const [before, after] of PLACES) {
    expect(JSON.stringify(parseExact(`${before}${number}${after}`))).toBe(
      `${before}${number}${after}`.replace(/[ \n]/g, ''),
    )
    const long = `["${FILL}",${before}${number}${after}]`
    expect(JSON.stringify(parseExact(long))).toBe(long.replace(/[ \n]/g, ''))
  }
})

test.each([
  '9007199254740991',
  '-9007199254740991',
  '0.12345678901234568',
  '-0.30000000000000004',
  '0.10000000000000000000',
  '-0.5',
  '0',
  '0e400',
  '1e21',
  '1E+21',
  '1e-007',
  '100e100',
  '1.7976931348623157e308',
  '5e-324',
  '-1',
])('%s is a number, beside others that keep their text', (number) => {
  for (const other of [DIGITS, '1', '1e400'])
    expect(parseExact(`{"a":${number},"b":${other}}`)).toHaveProperty('a', Number(number))
  expect(parseExact(`["${FILL}",${number}]`)).toEqual([FILL, Number(number)])
})

/** Compares decimals by long addition to a common exponent, which the code does not do. */
function isSameDecimal(one: string, other: string): boolean {
  const [first, second] = [scaled(one), scaled(other)]
  const least = Math.min(first.exponent, second.exponent)
  const up = ({ digits, exponent }: typeof first) => digits * 10n ** BigInt(exponent - least)
  return up(first) === up(second) && one.startsWith('-') === other.startsWith('-')
}

function scaled(number: string): { readonly digits: bigint; readonly exponent: number } {
  const [mantissa = '', exponent = '0'] = number.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.split('.')
  return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length }
}

property('any number is the same number after it was parsed and written', 5000, (random) => {
  const digits = (count: number) => Array.from({ length: count }, () => random.below(10)).join('')
  const some = () => digits(random.between(1, random.pick([2, 10, 25]))) + '0'.repeat(random.pick([0, 0, 3, 20]))
  const fraction = random.chance(0.5) ? `.${random.pick(['', '000'])}${some()}` : ''
  const exponent = random.chance(0.5)
    ? `${random.pick(['e', 'E'])}${random.pick(['', '+', '-'])}${random.pick(['', '0'])}${random.below(350)}`
    : ''
  const whole = some().replace(/^0+(?=[0-9])/, '')
  const number = `${random.pick(['', '-'])}${whole}${fraction}${exponent}`
  const fill = random.chance(0.3) ? FILL : ''
  const [, written = ''] = /^\["a*",(.*)\]$/.exec(JSON.stringify(parseExact(`["${fill}",${number}]`))) ?? []
  if (!isSameDecimal(number, written)) throw new Error(`${number} was written as ${written}`)
})

/** By a function for each value, which is simple and slow. */
function revived(text: string): string {
  const revive = (_: string, value: unknown, context?: { readonly source?: string }) =>
    typeof value === 'number' && !isExactNumber(context?.source ?? '0') ? JSON.rawJSON(context?.source ?? '0') : value
  return JSON.stringify(JSON.parse(text, revive as (name: string, value: unknown) => unknown))
}

const outcome = (read: () => string) => {
  try {
    return read()
  } catch (error) {
    return error instanceof SyntaxError ? 'SyntaxError' : error
  }
}

const MARKS = ['{', '}', '[', ']', ',', ':', ' ', '"a"', '"__proto__"', '"1"', '"#"', '""', '"\\""', 'null'] as const
const NUMBERS = [DIGITS, `-${DIGITS}`, '1e400', '-0', '01', '1.', '-', '+', `0.${DIGITS}`, `.${DIGITS}`, '1e'] as const

property('what is valid has the same members and numbers as written, and nothing else is', 20_000, (random) => {
  const value = (depth: number): string => {
    const kind = random.below(depth > 3 ? 2 : 4)
    if (kind === 0) return random.pick([DIGITS, '-0', '1e400', '1', '0.5', `1${DIGITS}`, `-0.${DIGITS}`])
    if (kind === 1) return random.pick(['"a"', '"#x"', 'null', 'true', `" ${DIGITS}"`])
    const items = Array.from({ length: random.below(4) }, () => value(depth + 1))
    if (kind === 2) return `[${items.join(' ,')}]`
    return `{${items.map((item) => `${random.pick(['"a"', '"b"', '"__proto__"', '"2"', '"1"'])} :${item}`).join()}}`
  }
  let text = value(0)
  for (let edits = random.chance(0.5) ? random.between(1, 3) : 0; edits > 0; edits--) {
    const at = random.below(text.length + 1)
    text = text.slice(0, at) + random.pick(random.chance(0.5) ? MARKS : NUMBERS) + text.slice(at + random.below(3))
  }
  expect(outcome(() => JSON.stringify(parseExact(text)))).toEqual(outcome(() => revived(text)))
})

describe('a body is rejected', () => {
  const rest = '"model":"m","messages":[{"role":"user","content":"Hi"}]'
  const read = (member: string) => () => readRequestBody(Buffer.from(`{${rest},${member}}`), UNPARSED)
  const LONG = '1'.repeat(1024)

  test('for a number of more than 1,024 characters, wherever it is', () => {
    for (const number of [LONG, `0.${'0'.repeat(1022)}`, `1${'0'.repeat(1023)}`]) {
      expect(read(`"a":${number}`)).not.toThrow()
      expect(read(`"a":[${number}1]`)).toThrow('it holds a number of more than 1024 characters')
      expect(read(`"metadata":{"x":"${FILL}"},"a":${number}1`)).toThrow('a number of more than 1024 characters')
    }
    expect(read(`"user":"${LONG}1"`)).not.toThrow()
  })

  test('for too many numbers that keep their text, also if a later member of the name counts', () => {
    const many = (count: number) => `[${Array.from({ length: count }, () => DIGITS).join()}]`
    expect(read(`"a":${many(10_000)}`)).not.toThrow()
    expect(read(`"a":${many(10_001)}`)).toThrow('more than 10000 numbers')
    expect(read(`"a":${many(5001)},"a":${many(5000)}`)).toThrow('more than 10000 numbers')
    expect(read(`"a":[${'1e400,'.repeat(10_000)}1e400]`)).toThrow('more than 10000 numbers')
  })
})

test('the own fields of a body are numbers, but for the seed, and those within them keep their text', () => {
  const body = parseExactBody(`{"seed":${DIGITS},"max_tokens":${DIGITS},"tools":[{"maximum":${DIGITS}}]}`)
  expect(JSON.stringify(body)).toStartWith(`{"seed":${DIGITS},`)
  expect(body).toHaveProperty('max_tokens', Number(DIGITS))
  expect(JSON.stringify(body)).toEndWith(`"tools":[{"maximum":${DIGITS}}]}`)
})

test('a number that keeps its text is no object', () => {
  expect(isObject(parseExact(DIGITS))).toBe(false)
  expect(isObject(parseExact(`{"rawJSON":${DIGITS}}`))).toBe(true)
})

test('a long row of minus signs is read, too', () => {
  const text = '-'.repeat(1_000_000) + DIGITS
  expect(parseExact(JSON.stringify(text))).toBe(text)
})

test('an event of a stream keeps them where the caller may get them', () => {
  const digits = '-0.12345678901234567890'
  const decoded = (provider: Provider, event: string, data: string) =>
    JSON.stringify(provider.decoder().decode(event, data))
  const content = `{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a","logprob":${digits}}]}}`
  expect(decoded(openai, '', `{"choices":[{"index":1},${content}]}`)).toContain(digits)
  const block = `{"type":"tool_use","id":"c","name":"n","input":{"of":${digits}}}`
  const start = `{"type":"content_block_start","index":0,"content_block":${block}}`
  const decoder = anthropic.decoder()
  const events = [...decoder.decode('', start), ...decoder.decode('', '{"type":"content_block_stop","index":0}')]
  expect(JSON.stringify(events)).toContain(digits)
})

describe('a request may hold 10,000 numbers that keep their text', () => {
  const list = (count: number, number: string) => `[${Array.from({ length: count }, () => number).join()}]`
  const toolsOf = (values: string) =>
    `{"model":"m","messages":[{"role":"user","content":"${'x'.repeat(20_000)}"}],` +
    `"tools":[{"type":"function","function":{"name":"f","parameters":{"enum":${values}}}}]}`

  test.each(['12345678901234567890', '-0', '1e400', '0.123456789012345678901'])('such as %s', (number) => {
    const bytes = (count: number) => Buffer.from(toolsOf(list(count, number)))
    expect(parseBody(bytes(10_000))).toBeObject()
    expect(() => parseBody(bytes(10_001))).toThrow('it holds more than 10000 numbers')
    // What is not parsed has the same limit.
    expect(() => readRequestBody(bytes(10_001), UNPARSED)).toThrow('it holds more than 10000 numbers')
    expect(readRequestBody(bytes(10_000), UNPARSED)).toBeObject()
  })

  test('and any number of others', () => {
    const bytes = Buffer.from(toolsOf(list(100_000, '0.12345')))
    expect([parseBody(bytes), readRequestBody(bytes, UNPARSED)]).toEqual([expect.anything(), expect.anything()])
  })

  test('in the arguments of all calls together', () => {
    const inputs = new CallInputs()
    const json = `{"a":${list(6000, '12345678901234567890')}}`
    expect(JSON.stringify(inputs.of(json))).toBe(json)
    expect(() => inputs.of(json)).toThrow('The arguments of tool calls cannot be read')
  })
})

/** The cursor accepts exactly the JSON that a parser accepts, and finds the values that a parser finds. */

import { describe, expect, test } from 'bun:test'
import { END, JsonCursor, UNKNOWN, Unusual, words } from '../../src/wire/json-cursor.ts'
import { DEPTH_MAX } from '../../src/wire/json-shape.ts'
import { structureFinder } from '../../src/wire/json-structure.ts'
import { property, type Random } from '../support/random.ts'

function cursorOf(bytes: Uint8Array): JsonCursor {
  const finder = structureFinder()
  const found = finder.find(bytes)
  return new JsonCursor(bytes, finder.positions.slice(0, Math.max(0, found)))
}

/** Whether all of the text is one value. */
function isRead(text: string): boolean {
  const bytes = Buffer.from(text)
  if (structureFinder().find(bytes) === -1) return false
  const cursor = cursorOf(bytes)
  try {
    cursor.value(0)
  } catch (error) {
    if (error instanceof Unusual) return false
    throw error
  }
  return /^[ \t\r\n]*$/.test(bytes.toString('utf8', cursor.offset))
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

const BLANKS = ['', '', '', ' ', '\n', '\t\r'] as const
const SCALARS = [
  ...['0', '-0', '1', '-12', '1.5', '0.25', '1e9', '-1.5E+10', '2e-3', 'true', 'false', 'null', '""', '"a"', '"\\""'],
  ...['"{,]"', '"\\u00e9"', '"é設🙂"'],
] as const

function jsonOf(random: Random, depth: number): string {
  const blank = () => random.pick(BLANKS)
  const inner = () => `${blank()}${jsonOf(random, depth - 1)}${blank()}`
  const kind = depth === 0 ? 0 : random.below(3)
  if (kind === 0) return random.pick(SCALARS)
  const values = random.list(4, inner)
  if (kind === 1) return `[${values.length === 0 ? blank() : values.join(',')}]`
  const members = values.map((value) => `${blank()}"${random.pick(['a', '', 'é'])}"${blank()}:${value}`)
  return `{${members.length === 0 ? blank() : members.join(',')}}`
}

const CHARACTERS = [
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '"',
  '0',
  '-',
  '.',
  'e',
  '1',
  'true',
  'nul',
  ' ',
  '+',
  'x',
  '\u00a0',
] as const

describe('any value', () => {
  property('that is JSON is read', 3000, (random) => {
    expect(isRead(`${random.pick(BLANKS)}${jsonOf(random, 4)}${random.pick(BLANKS)}`)).toBe(true)
  })

  property('that is damaged is read if it is JSON, and only then', 20_000, (random) => {
    const text = jsonOf(random, 3)
    const at = random.below(text.length + 1)
    const put = random.chance(0.3) ? '' : random.pick(CHARACTERS)
    const damaged = text.slice(0, at) + put + text.slice(at + random.below(2))
    expect([damaged, isRead(damaged)]).toEqual([damaged, isJson(damaged)])
  })

  test('is not read beyond the depth that a body may have', () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
    expect(isRead(nested(DEPTH_MAX))).toBe(true)
    expect(isRead(nested(DEPTH_MAX + 1))).toBe(false)
    expect(isRead(`${'{"a":'.repeat(DEPTH_MAX + 1)}0${'}'.repeat(DEPTH_MAX + 1)}`)).toBe(false)
  })
})

describe('an object', () => {
  const NAMES = words('role', 'content')

  test('has its members in order, known or not', () => {
    const cursor = cursorOf(Buffer.from('{ "content" : "a\\"b" , "x":[1,{"role":0}],"role":null}'))
    expect(cursor.object()).toBe(0)
    expect(cursor.member(NAMES)).toBe(1)
    cursor.string()
    expect(cursor.bytes.subarray(cursor.from, cursor.to).toString()).toBe('a\\"b')
    expect(cursor.member(NAMES)).toBe(UNKNOWN)
    cursor.value(1)
    expect(cursor.member(NAMES)).toBe(0)
    expect(cursor.literal(words('null'))).toBe(0)
    expect(cursor.member(NAMES)).toBe(END)
  })

  test('is unusual if a name is written with an escape', () => {
    const cursor = cursorOf(Buffer.from('{"rol\\u0065":"system"}'))
    cursor.object()
    expect(() => cursor.member(NAMES)).toThrow(Unusual)
  })

  test.each(['{,"a":1}', '{"a":1,}', '{"a" 1}', '{"a":1 "b":2}', '{1:2}', '{"a":1]'])('%s is unusual', (text) => {
    const cursor = cursorOf(Buffer.from(text))
    const read = () => {
      cursor.object()
      while (cursor.member(NAMES) !== END) cursor.value(1)
    }
    expect(read).toThrow(Unusual)
  })
})

test('a number that a parser would read as infinite is unusual', () => {
  expect([isRead('1e308'), isRead('1e309'), isRead('-1e999')]).toEqual([true, false, false])
})

test('a number that would be written in another way is noticed', () => {
  const isRewritten = (text: string) => {
    const cursor = cursorOf(Buffer.from(`[${text}]`))
    cursor.value(0)
    return cursor.isRewritten
  }
  for (const text of ['0', '7', '10', '-12', '600000', '999999999999999', '1234567890123456', '1.5', 'true'])
    expect([text, isRewritten(text)]).toEqual([text, false])
  for (const text of ['-0', '1.0', '1e2', '12345678901234567890'])
    expect([text, isRewritten(text)]).toEqual([text, true])
  for (const text of ['01', '00', '-', '-01', '1a']) expect([text, isRead(text)]).toEqual([text, false])
})

test('a literal is no string with the same letters', () => {
  expect(() => cursorOf(Buffer.from('"true"')).literal(words('true'))).toThrow(Unusual)
})

test('the cursor can return to a place', () => {
  const cursor = cursorOf(Buffer.from('[1,[2,3],"a"]'))
  cursor.list()
  cursor.value(1)
  expect(cursor.isItem()).toBe(true)
  const [position, offset] = [cursor.position, cursor.offset]
  cursor.value(1)
  expect(cursor.offset).toBe(8)
  cursor.moveTo(position, offset)
  cursor.value(1)
  expect(cursor.offset).toBe(8)
  expect(cursor.isItem()).toBe(true)
})

/** JSON written within a string, from its bytes: the same as parsed and written twice. */

import { describe, expect, test } from 'bun:test'
import { JsonInString } from '../../src/core/json-in-string.ts'
import { property } from '../support/random.ts'
import { inputOfAgent } from './agent-json.ts'

/** Undefined if it must be parsed. */
function writtenFrom(json: string): string | undefined {
  const source = Buffer.from(`[${json}]`)
  const target = Buffer.alloc(2 * source.length)
  const end = new JsonInString(source).write(1, source.length - 1, target, 1)
  return end === -1 ? undefined : target.toString('utf8', 1, end)
}

function usual(json: string): string {
  return JSON.stringify(JSON.stringify(JSON.parse(json))).slice(1, -1)
}

describe('inputs of agents', () => {
  const counts = { written: 0, all: 0 }

  property('are the same text as if they were parsed', 5000, (random) => {
    const json = inputOfAgent(random)
    const written = writtenFrom(json)
    counts.all++
    if (written === undefined) return
    counts.written++
    expect(written).toBe(usual(json))
  })

  test('are seldom parsed', () => expect(counts.written).toBeGreaterThan(counts.all * 0.6))
})

const many = (count: number) => Array.from({ length: count }, (_, at) => `"n${at}":${at}`).join(',')
const deep = (levels: number) => `${'{"a":'.repeat(levels)}{}${'}'.repeat(levels)}`

test.each([
  '{}',
  ' { "a" : [ ] , "b" : { } } ',
  '{"a":{"a":{"a":1}},"b":{"a":2}}',
  '{"a":[{"b":1},{"b":2}],"c":-1}',
  '{"":"","__proto__":{"x":null}}',
  `{${many(64)}}`,
  deep(63),
])('is written from its bytes: %p', (json) => {
  expect(writtenFrom(json)).toBe(usual(json))
})

test.each([
  ['a name twice', '{"a":1,"b":2,"a":3}'],
  ['a name twice in an inner object', '{"a":[{"b":1,"b":2}]}'],
  ['a name with an escape', '{"a":1,"\\u0061":2}'],
  ['a short escape in a name', '{"a\\n":1}'],
  ['a number as a name', '{"b":1,"2":2}'],
  ['an escape by its code', '{"a":"\\u0041"}'],
  ['an escape that nobody needs', '{"a":"\\/"}'],
  ['a number in another form', '{"a":1.0}'],
  ['a negative zero', '{"a":-0}'],
  ['a number that is rounded', '{"a":12345678901234567890}'],
  ['many names', `{${many(65)}}`],
  ['a long name', `{"${'n'.repeat(65)}":1}`],
  ['many levels', deep(64)],
])('is left to the parser: %s', (_, json) => {
  expect(writtenFrom(json)).toBeUndefined()
})

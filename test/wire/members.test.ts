import { expect, test } from 'bun:test'
import type { JsonValue } from '../../src/core/json.ts'
import { membersOf, writeMembers } from '../../src/wire/members.ts'
import { bytesOf, joined, textOf } from '../support/bytes.ts'
import { property, type Random } from '../support/random.ts'

const spelled = (text: string) => membersOf(bytesOf(text)).map(({ name, bytes }) => [name, textOf(bytes)])

test.each([
  ['{}', []],
  [' \n{ } ', []],
  ['\ufeff{"a":1}', [['a', '"a":1']]],
  [
    '{"a":1,"b":[1,{"c":"}"}]}',
    [
      ['a', '"a":1'],
      ['b', '"b":[1,{"c":"}"}]'],
    ],
  ],
  [
    '{"a" : "x,y" , "b":null}',
    [
      ['a', '"a" : "x,y" '],
      ['b', '"b":null'],
    ],
  ],
  [
    '{"a\\"":"\\\\","b":"\\\\\\""}',
    [
      ['a"', '"a\\"":"\\\\"'],
      ['b', '"b":"\\\\\\""'],
    ],
  ],
  [
    '{"a":1,"b":2,"\\u0061":3}',
    [
      ['b', '"b":2'],
      ['a', '"\\u0061":3'],
    ],
  ],
  [
    '{"":{"":{}},"日":"本"}',
    [
      ['', '"":{"":{}}'],
      ['日', '"日":"本"'],
    ],
  ],
])('%s', (text, members) => {
  expect(spelled(text)).toEqual(members)
})

test('members are views, not copies', () => {
  const bytes = bytesOf('{"a":1}')
  expect(membersOf(bytes)[0]?.bytes.buffer).toBe(bytes.buffer)
})

property('an object of all members is the object, but for the first', 300, (random) => {
  const body = Object.fromEntries(random.list(6, () => [`k${random.below(9)}`, value(random, 3)]))
  const text = JSON.stringify(body, null, random.below(3))
  const written = textOf(joined(writeMembers(['model', 'a "b"'], membersOf(bytesOf(text)))))
  expect(JSON.parse(written)).toEqual({ model: 'a "b"', ...body })
})

function value(random: Random, depth: number): JsonValue {
  const text = random.list(6, () => random.pick(['"', '\\', '{', '}', '[', ']', ',', ':', 'ü', ' '])).join('')
  switch (random.below(depth > 0 ? 5 : 3)) {
    case 0:
      return text
    case 1:
      return random.below(1000) - 500.5
    case 2:
      return random.pick([true, false, null])
    case 3:
      return random.list(4, () => value(random, depth - 1))
    default:
      return Object.fromEntries(random.list(4, () => [text + random.below(9), value(random, depth - 1)]))
  }
}

import { describe, expect, test } from 'bun:test'
import { isObject } from '../../src/core/json.ts'
import { type ObjectState, ObjectText } from '../../src/wire/object-text.ts'
import { property } from '../support/random.ts'

const rows: readonly (readonly [pieces: readonly string[], state: ObjectState])[] = [
  [[], 'open'],
  [[' \n'], 'open'],
  [['{'], 'open'],
  [['{"a":"}'], 'open'],
  [['{"a":"\\"}'], 'open'],
  [['"x"'], 'open'],
  [['12'], 'open'],
  [['{}'], 'whole'],
  [[' {', '}', ' \n'], 'whole'],
  [['{"a":{"b":[{}]}}'], 'whole'],
  [['[1]'], 'invalid'],
  [['{a}'], 'invalid'],
  [['x{}'], 'invalid'],
  [['{}x'], 'overrun'],
  [['{}{'], 'overrun'],
  [['{}', ' ', '{}'], 'overrun'],
  [['{}', '\u00a0'], 'overrun'],
]
test.each(rows)('%j is %s', (pieces, state) => {
  const text = new ObjectText()
  for (const piece of pieces) text.add(piece)
  expect(text.state).toBe(state)
  expect(text.value !== undefined).toBe(state === 'whole' || state === 'overrun')
  expect(text.isEmpty).toBe(pieces.length === 0)
})

describe('against a parser', () => {
  const PARTS = [
    '{',
    '}',
    '[',
    ']',
    '"',
    '\\',
    ':',
    ',',
    ' ',
    '\n',
    'a',
    '1',
    '"a":',
    '{}',
    '[{}]',
    'true',
    '\u00a0',
  ] as const

  property('the pieces of an object up to its last brace are whole, and nothing before is', 500, (random) => {
    const value = { [random.list(4, () => random.pick(PARTS)).join('')]: random.list(5, () => random.pick(PARTS)) }
    const json = JSON.stringify(value, null, random.below(3))
    const text = new ObjectText()
    let kept = ''
    for (const piece of random.pieces(`${json} \n`, 9)) {
      kept += piece.slice(0, text.add(piece))
      expect(text.state).toBe(kept === json ? 'whole' : 'open')
    }
    expect(kept).toBe(json)
    expect(text.value).toEqual(value)
  })

  property('random text is whole only if a parser takes it for an object', 3000, (random) => {
    const json = random.list(7, () => random.pick(PARTS)).join('')
    const text = new ObjectText()
    for (const piece of random.pieces(json, 5)) text.add(piece)
    expect([json, text.state === 'whole']).toEqual([json, isObjectText(json)])
  })
})

function isObjectText(text: string): boolean {
  try {
    return isObject(JSON.parse(text))
  } catch {
    return false
  }
}

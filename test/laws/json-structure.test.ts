/** The law of the structure of JSON: the kernel finds, and rejects, the same as the loop over each byte. */

import { describe, expect, test } from 'bun:test'
import { PlainFinder, POSITIONS_MAX, type StructureFinder, structureFinder } from '../../src/wire/json-structure.ts'
import { CHUNK } from '../../src/wire/structure-kernel.ts'
import { property, type Random } from '../support/random.ts'

function structureOf(finder: StructureFinder, bytes: Uint8Array): readonly number[] | 'invalid' {
  const found = finder.find(bytes)
  return found === -1 ? 'invalid' : [...finder.positions.subarray(0, found)]
}

const VALID = [
  ...['{', '}', '[', ']', ',', ':', ' ', '\n', 'é', '設', '🙂', '0', 'x', '"a"', '"\\\\"', '"\\u00eF"', '"{,"'],
  ...['"\\n"', '"\\t\\/\\n"', '"\\u0041\\"\\b"'],
]
const ANY = [
  ...VALID,
  '"',
  '\\',
  '\\\\',
  '\\"',
  '\\u',
  '\\u00',
  'n',
  'u',
  'F',
  'g',
  '\u0001',
  '\x1f',
  '\x7f',
  '`',
  ':@/',
]

function textOf(random: Random): string {
  const parts = random.chance(0.5) ? VALID : ANY
  const some = () => Array.from({ length: random.below(200) }, () => parts[random.below(parts.length)]).join('')
  // What one block, or one chunk, leaves to the next.
  const filler = random.pick([0, 0, 0, 0, 1]) * (CHUNK - random.below(100))
  return `${JSON.stringify('x'.repeat(filler + random.below(70)))}${some()}${JSON.stringify(some())}${some()}`
}

describe('the kernel', () => {
  test('is what runs here', () => {
    expect(structureFinder()).not.toBeInstanceOf(PlainFinder)
  })

  property('finds what the loop finds', 3000, (random) => {
    // Ends outside an escape, which only one of the two reports.
    const bytes = Buffer.from(`${textOf(random)}     `)
    expect(structureOf(structureFinder(), bytes)).toEqual(structureOf(new PlainFinder(), bytes))
  })

  test('finds nothing of a text before', () => {
    for (const before of ['"', '"\\', '"\\u00']) {
      structureFinder().find(Buffer.from(before.padStart(64)))
      expect(structureOf(structureFinder(), Buffer.from('{"a":0}'))).toEqual([0, 1, 3, 4, 6])
    }
  })

  test('finds more positions than stay in the memory of the kernel', () => {
    const bytes = Buffer.from('[""],'.repeat(POSITIONS_MAX / 2))
    const expected = new PlainFinder()
    const count = expected.find(bytes)
    const finder = structureFinder()
    expect(finder.find(bytes)).toBe(count)
    expect(Buffer.compare(Buffer.from(finder.positions.buffer), Buffer.from(expected.positions.buffer))).toBe(0)
    expect(structureOf(finder, Buffer.from('{"a":0}'))).toEqual([0, 1, 3, 4, 6])
    expect(finder.find(Buffer.concat([bytes, Buffer.from('"\\x"')]))).toBe(-1)
  })

  test('accepts every escape there is, and no other', () => {
    for (let code = 0; code < 256; code++) {
      const bytes = Buffer.concat([Buffer.from('"\\'), Uint8Array.of(code), Buffer.from('0041"')])
      const isEscape = '"\\/bfnrtu'.includes(String.fromCharCode(code))
      const found = structureOf(structureFinder(), bytes)
      if (isEscape) expect(found).toEqual([0, 7])
      else expect(found).toBe('invalid')
    }
  })

  test('accepts every byte but control characters in a string, and finds the structural ones outside', () => {
    for (let byte = 0; byte < 256; byte++) {
      if (byte === 0x22 || byte === 0x5c) continue
      const inside = structureOf(structureFinder(), Uint8Array.of(0x22, byte, 0x22))
      expect(inside).toEqual(byte < 0x20 ? 'invalid' : [0, 2])
      const isStructural = '{}[],:'.includes(String.fromCharCode(byte))
      expect(structureOf(structureFinder(), Uint8Array.of(0x20, byte))).toEqual(isStructural ? [1] : [])
    }
  })

  test('accepts every hexadecimal digit, and no other, in every place of an escape', () => {
    for (let code = 0; code < 256; code++) {
      for (let digit = 0; digit < 4; digit++) {
        const bytes = Buffer.from('"\\u0041"')
        bytes[3 + digit] = code
        const isDigit = /[0-9a-f]/i.test(String.fromCharCode(code))
        expect(structureOf(structureFinder(), bytes)).toEqual(isDigit ? [0, 7] : 'invalid')
      }
    }
  })
})

import { describe, expect, test } from 'bun:test'
import { patchKey, readKey } from '../../src/config/key-input.ts'
import { KeyProblem } from '../../src/core/key-problem.ts'
import type { KeyDescription } from '../../src/core/organization-config.ts'

const NOW_MS = Date.UTC(2026, 10, 22)

function key(limits?: object): KeyDescription {
  return readKey({ organization: 'acme', id: 'ci', ...(limits === undefined ? {} : { limits }) }, [], NOW_MS)
}

const budget = key({ requests_per_minute: 9, spend: { day: 5, strict: true } })

test.each([
  [{ strict: true }, 'limits.spend: needs at least one of day, month, total'],
  [{ day: 0.0000001 }, 'limits.spend.day: is less than a micro-dollar; it must be 0 or at least 0.000001'],
])('a new key with spend %j is a problem', (spend, problem) => {
  expect(() => readKey({ organization: 'acme', id: 'ci', limits: { spend } }, [], NOW_MS)).toThrow(
    new KeyProblem('invalid', problem),
  )
})

describe('a change of spend limits', () => {
  test.each<[string, KeyDescription, unknown, string]>([
    ['a mistyped name', key(), { day_: 5 }, 'limits.spend.day_: unknown key'],
    ['a name that every object has', key(), { constructor: 5 }, 'limits.spend.constructor: unknown key'],
    ['a number', key(), 5, 'limits.spend: must be a group of keys'],
    ['a text', budget, 'none', 'limits.spend: must be a group of keys'],
    ['a list', budget, [5], 'limits.spend: must be a group of keys'],
    ['a mistyped name instead of the last amount', budget, { day: null, moth: 5 }, 'limits.spend.moth: unknown key'],
    ['a setting without an amount', key(), { strict: true }, 'limits.spend: needs at least one of day, month, total'],
    ['less than a micro-dollar', budget, { month: 1e-9 }, 'limits.spend.month: is less than a micro-dollar'],
  ])('%s is a problem, also if the key has no amount', (_, before, spend, problem) => {
    expect(() => patchKey(before, { limits: { spend } }, [], NOW_MS)).toThrow(problem)
  })

  test.each<[string, unknown]>([
    ['null', null],
    ['null for the last amount', { day: null }],
    ['null for all', { day: null, strict: null }],
    ['null for the last amount, with a setting', { day: null, on_exhausted: 'cut' }],
  ])('%s removes them', (_, spend) => {
    const changed = patchKey(budget, { limits: { spend } }, [], NOW_MS)
    expect(changed).toEqual(key({ requests_per_minute: 9 }))
  })

  test('null for an amount that the key lacks changes nothing', () => {
    expect(patchKey(key(), { limits: { spend: { day: null } } }, [], NOW_MS)).toEqual(key())
  })
})

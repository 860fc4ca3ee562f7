/** When a budget is refusing, by what it has and the cheapest request that it refused. */

import { expect, test } from 'bun:test'
import { isRefusing } from '../../src/ledger/refusal-mark.ts'

test.each([
  ['nothing was refused', 100, 100, 0, false],
  ['more than is left was refused', 100, 61, 40, true],
  ['it would pass now', 100, 60, 40, false],
  ['dearer than the whole limit', 100, 61, 101, false],
  ['dearer than the whole limit, which is used up', 100, 100, 101, true],
  ['overdrawn', 100, 130, 1, true],
  ['a limit of 0', 0, 0, 5, true],
  ['a limit of 0 that refused nothing', 0, 0, 0, false],
  ['dearer than the whole limit, of which nothing is spent', 100, 0, 101, false],
])('%s', (_, limit, spent, refused, expected) => {
  expect(isRefusing(limit, spent, refused)).toBe(expected)
})

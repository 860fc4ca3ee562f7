import { expect, test } from 'bun:test'
import { fuzz } from './fuzzing.ts'

test('damaged responses are read as llhttp reads them, or the difference is in a table', () => {
  const { unexplained, agreed, refused } = fuzz(10_000)
  expect(unexplained).toEqual([])
  // Enough of both, or the inputs prove nothing.
  expect(agreed).toBeGreaterThan(2000)
  expect(refused).toBeGreaterThan(2000)
})

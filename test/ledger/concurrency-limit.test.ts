/** The adaptive concurrency limit: how many calls run at once, and in which order. */

import { expect, test } from 'bun:test'
import { ConcurrencyLimit } from '../../src/redis/concurrency-limit.ts'

/** Starts `count` calls at once; the test ends each of them. */
function calls(limit: ConcurrencyLimit, count: number) {
  const begun: number[] = []
  const ends: (() => void)[] = []
  for (let i = 0; i < count; i++) {
    limit.enter({
      start: () => {
        begun.push(i)
        ends.push(() => limit.leave())
      },
    })
  }
  return { begun, ends }
}

test('few calls run at once; when one ends, the next begins in order of arrival', () => {
  const { begun, ends } = calls(new ConcurrencyLimit(4), 12)
  expect(begun).toEqual([0, 1, 2, 3])
  for (let ended = 1; ended <= 12; ended++) {
    ends[ended - 1]?.()
    expect(begun).toEqual(Array.from({ length: Math.min(12, 4 + ended) }, (_, i) => i))
  }
})

test('when many wait, more run at once: completions keep up with arrivals', () => {
  const { begun, ends } = calls(new ConcurrencyLimit(4), 800)
  expect(begun.length).toBeGreaterThan(80)
  expect(begun.length).toBeLessThan(110)
  // Four at a time would take 200 rounds.
  for (let round = 0; round < 40; round++) {
    for (const end of ends.splice(0)) end()
  }
  expect(begun).toEqual(Array.from({ length: 800 }, (_, i) => i))
})

test('however many wait, concurrency does not grow unless calls complete in time', () => {
  const { begun, ends } = calls(new ConcurrencyLimit(4), 10_000)
  expect(begun).toHaveLength(256)
  while (begun.length < 10_000) {
    for (const end of ends.splice(0)) end()
    expect(ends.length).toBeLessThanOrEqual(256)
  }
  for (const end of ends) end()
})

test('any number of calls that end at once begin', () => {
  const limit = new ConcurrencyLimit(1)
  const first = calls(limit, 1)
  let begun = 0
  const call = {
    start: () => {
      begun += 1
      limit.leave()
    },
  }
  for (let i = 0; i < 100_000; i++) limit.enter(call)
  for (const end of first.ends) end()
  expect(begun).toBe(100_000)
})

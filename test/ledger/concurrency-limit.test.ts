/** The adaptive concurrency limit: how many calls run at once, and in which order. */

import { expect, test } from 'bun:test'
import { ConcurrencyLimit } from '../../src/ledger/redis/client/concurrency-limit.ts'

/** Starts `count` calls at once; the test ends each of them. */
function calls(lanes: ConcurrencyLimit, count: number) {
  const begun: number[] = []
  const ends: (() => void)[] = []
  const all = Array.from({ length: count }, (_, i) =>
    lanes.run(() => {
      begun.push(i)
      const { promise, resolve } = Promise.withResolvers<void>()
      ends.push(resolve)
      return promise
    }),
  )
  return { begun, ends, all }
}

/** Runs all pending microtasks and timers. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

test('few calls run at once; when one ends, the next begins in order of arrival', async () => {
  const { begun, ends, all } = calls(new ConcurrencyLimit(4), 12)
  await settled()
  expect(begun).toEqual([0, 1, 2, 3])
  for (let ended = 1; ended <= 12; ended++) {
    ends[ended - 1]?.()
    await settled()
    expect(begun).toEqual(Array.from({ length: Math.min(12, 4 + ended) }, (_, i) => i))
  }
  await Promise.all(all)
})

test('when many wait, more run at once: completions keep up with arrivals', async () => {
  const { begun, ends, all } = calls(new ConcurrencyLimit(4), 800)
  await settled()
  expect(begun.length).toBeGreaterThan(80)
  expect(begun.length).toBeLessThan(110)
  // Four at a time would take 200 rounds.
  for (let round = 0; round < 40; round++) {
    for (const end of ends.splice(0)) end()
    await settled()
  }
  expect(begun).toEqual(Array.from({ length: 800 }, (_, i) => i))
  await Promise.all(all)
})

test('however many wait, concurrency does not grow unless calls complete in time', async () => {
  const { begun, ends, all } = calls(new ConcurrencyLimit(4), 10_000)
  await settled()
  expect(begun).toHaveLength(256)
  while (begun.length < 10_000) {
    for (const end of ends.splice(0)) end()
    await settled()
    expect(ends.length).toBeLessThanOrEqual(256)
  }
  for (const end of ends) end()
  await Promise.all(all)
})

test('a call that fails frees its slot, too', async () => {
  const lanes = new ConcurrencyLimit(1)
  await expect(lanes.run(() => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await lanes.run(async () => 'next')).toBe('next')
})

/**
 * No request holds the others up: for bodies that are as dear as their size allows, what a request takes of the thread grows in proportion
 * to its size at the most, and stays below a bound. CPU time is measured, not the clock's: a busy machine changes little of it.
 */

import { describe, expect, setDefaultTimeout, test } from 'bun:test'
import { heavyBodies, LARGEST, mixed } from '../support/heavy-bodies.ts'
import { property } from '../support/random.ts'
import { type Body, type Walked, walk } from '../support/request-path.ts'

setDefaultTimeout(60_000)

const SMALLER = LARGEST / 4
/** Three times what the dearest takes where nothing else runs. */
const MS_MAX = 350
/** Four times the size may take so many times as long; below so many milliseconds nothing is told from noise. */
const GROWTH_MAX = 7
const NOISE_MS = 12
/** A measurement that is too high is repeated: the collector, or a neighbour of the processor's cache, may have been in it. */
const TRIES = 5

describe('what a request takes', () => {
  for (const { name, make } of heavyBodies) {
    test(name, async () => {
      const small = await best(make(SMALLER, false), (ms) => ms < NOISE_MS)
      const allowed = Math.min(MS_MAX, GROWTH_MAX * Math.max(small.ms, NOISE_MS))
      const large = await best(make(LARGEST, false), (ms) => ms <= allowed)
      if (large.ms > allowed) throw new Error(`${Math.round(large.ms)} ms: ${JSON.stringify(large.steps)}`)
      const dense = await best(make(LARGEST / 8, true), (ms) => ms <= MS_MAX)
      expect(dense.ms).toBeLessThanOrEqual(MS_MAX)
    })
  }

  property('of everything at once', 12, async (random) => {
    const walked = await best(mixed(random), (ms) => ms <= MS_MAX)
    expect(walked.ms).toBeLessThanOrEqual(MS_MAX)
  })
})

async function best(body: Body, isEnough: (ms: number) => boolean): Promise<Walked> {
  let least = await walk(body)
  for (let tries = 1; tries < TRIES && !isEnough(least.ms); tries++) {
    const again = await walk(body)
    if (again.ms < least.ms) least = again
  }
  return least
}

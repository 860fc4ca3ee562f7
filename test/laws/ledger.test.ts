/**
 * The law of the ledger: whatever happens, in any order, twice, late or never, both stores give the replies and the
 * figures of a model that computes them by adding up. `WEIR_LAW_HISTORIES` sets the number of histories of 100 steps;
 * `WEIR_SEED` repeats a run.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { runHistory, type UsageMeter } from '../ledger/history.ts'
import { Random, randomSeed } from '../ledger/random.ts'
import { subjects } from '../ledger/subject.ts'

const HISTORIES = Number(process.env['WEIR_LAW_HISTORIES'] ?? 160)

for (const subject of subjects()) {
  describe(`the store in ${subject.name}`, () => {
    beforeAll(() => subject.open())
    afterAll(() => subject.close())

    test(`${HISTORIES} random histories`, async () => {
      const seed = randomSeed(`ledger, ${subject.name}`)
      const tally: UsageMeter = { operations: 0, outcomes: new Map() }
      for (let i = 0; i < HISTORIES; i++) {
        try {
          await runHistory(subject, new Random(seed + i), tally)
        } catch (error) {
          throw new Error(`History ${i} of seed ${seed}: ${String(error)}`, { cause: error })
        }
      }
      console.log(
        `${tally.operations} operations:`,
        [...tally.outcomes]
          .map(([name, n]) => `${name} ${n}`)
          .sort()
          .join(', '),
      )
      expect(tally.operations).toBe(HISTORIES * 100)
    }, 900_000)
  })
}

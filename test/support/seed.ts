/**
 * The seed of all random tests: fixed unless `WEIR_SEED` is set, so that a failure is caused by the code and not by the
 * seed. `WEIR_SEED=random` draws a new one, `WEIR_SEED=N` repeats a run.
 */

const FIXED_SEED = 1
const SEEDS = 2 ** 32

export function seedOf(given: string | undefined): number {
  if (given === undefined || given === '') return FIXED_SEED
  if (given === 'random') return crypto.getRandomValues(new Uint32Array(1))[0] ?? FIXED_SEED
  const seed = Number(given)
  if (!/^\d+$/.test(given) || seed >= 2 * SEEDS) {
    throw new Error(`WEIR_SEED is '${given}': set it to a whole number or to 'random'.`)
  }
  return seed
}

/** The seed of this process: every test of a file has the same. */
export const SEED = seedOf(process.env['WEIR_SEED'])

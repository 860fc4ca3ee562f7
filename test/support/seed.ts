/**
 * Where every random test gets its seed: a fixed one unless `WEIR_SEED` says otherwise, so that a failure tells of the code and not of
 * the draw. `WEIR_SEED=random` draws a new one, `WEIR_SEED=N` repeats a run.
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

/** The seed of this process, drawn once: all tests of a file name the same one. */
export const SEED = seedOf(process.env['WEIR_SEED'])

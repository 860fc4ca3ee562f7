/**
 * The part of a long list of cases that a run tests, because CI has no time for all: each seed has its part, and
 * `WEIR_WHOLE=1` tests all of them.
 */

import { SEED } from './seed.ts'

const IS_WHOLE = process.env['WEIR_WHOLE'] === '1'

/** One of each `parts` neighbours of a list. */
export function partOf<T>(all: readonly T[], parts: number): readonly T[] {
  return IS_WHOLE ? all : all.filter((_, at) => at % parts === SEED % parts)
}

/** What standard output shows: the width of the terminal, and whether it takes colour. */

import { environment } from '../config/load.ts'
import type { Display } from './text-table.ts'

/** A terminal that does not report its width. */
const WIDTH = 80

/**
 * On a terminal its width; in a pipe `COLUMNS`, if it is set. `isWide`: the flag `--wide`. No colour with `NO_COLOR`,
 * whatever its value, or on a terminal that has none.
 */
export function displayOf(isWide: boolean): Display {
  const { COLUMNS, NO_COLOR, TERM } = environment()
  const { isTTY, columns } = process.stdout
  const given = /^[1-9]\d{0,4}$/.test(COLUMNS ?? '') ? Number(COLUMNS) : undefined
  const width = isTTY ? columns || given || WIDTH : (given ?? Number.POSITIVE_INFINITY)
  return {
    width: isWide ? Number.POSITIVE_INFINITY : width,
    isColoured: isTTY && (NO_COLOR ?? '') === '' && TERM !== 'dumb',
  }
}

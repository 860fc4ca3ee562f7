/** Cache marks, and how an entry of a conversation has one in its kind. */

import type { Ttl } from './model-config.ts'

/**
 * A cache breakpoint after the part, tool or system text that carries it. Without `ttl`, the provider's default
 * applies.
 */
export interface CacheMark {
  readonly ttl?: Ttl | undefined
  /** The caller's field (`input[0].content[1].cache_control`), if a mark that the model cannot honour is an error. */
  readonly path?: string | undefined
}

/** Bits below the index of a cache mark. */
const MARK_SHIFT = 11
/** Added, times the index of its mark in `MARKS`, to the kind of a text, an image, a result or a call. */
export const MARKED: number = 1 << MARK_SHIFT

const MARKS: readonly (CacheMark | undefined)[] = [undefined, {}, { ttl: '5m' }, { ttl: '1h' }]

/** The cache mark of an entry with this kind. */
export function markOf(bits: number): CacheMark | undefined {
  return MARKS[markIndexOf(bits)]
}

/** Its index in `MARKS`. */
export function markIndexOf(bits: number): number {
  return bits >> MARK_SHIFT
}

/** The index of an equal mark in `MARKS`. */
export function indexOfMark(mark: CacheMark | undefined): number {
  if (mark === undefined) return 0
  return mark.ttl === undefined ? 1 : mark.ttl === '5m' ? 2 : 3
}

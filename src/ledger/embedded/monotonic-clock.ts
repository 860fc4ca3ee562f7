/**
 * The clock of the embedded ledger: the time of day, but carried by the monotonic clock, so that one wrong reading of
 * the time of day gives no budget away.
 */

import type { Clock } from './memory-store.ts'

/** Steps up to this are followed at once: they are what time servers do. */
const FOLLOWED_MS = 60_000
/** A greater step is believed where it still stands after this long. */
const BELIEVED_AFTER_MS = 1000

export class SteadyClock implements Clock {
  /** What is added to the monotonic clock. */
  private offset: number
  private doubted: { readonly offset: number; readonly sinceMs: number } | undefined

  constructor(
    private readonly wall: () => number = Date.now,
    private readonly monotonic: () => number = performance.now.bind(performance),
  ) {
    this.offset = wall() - monotonic()
  }

  now(): number {
    const steady = this.monotonic()
    const offset = this.wall() - steady
    if (Math.abs(offset - this.offset) <= FOLLOWED_MS) {
      this.offset = offset
      this.doubted = undefined
    } else if (this.doubted === undefined || Math.abs(offset - this.doubted.offset) > FOLLOWED_MS) {
      this.doubted = { offset, sinceMs: steady }
    } else if (steady - this.doubted.sinceMs >= BELIEVED_AFTER_MS) {
      this.offset = offset
      this.doubted = undefined
    }
    return Math.floor(steady + this.offset)
  }
}

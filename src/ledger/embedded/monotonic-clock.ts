/**
 * The clock of the embedded ledger: the monotonic clock plus an offset to the system time. A single wrong reading of
 * the system time would otherwise open new budget windows early, and budgets would be spent twice.
 */

import type { Clock } from './memory-store.ts'

/** Steps of the system time up to this are followed at once: time servers make them. */
const FOLLOWED_MS = 60_000
/** A larger step is followed if it persists for this long. */
const BELIEVED_AFTER_MS = 1000

export class SteadyClock implements Clock {
  /** Added to the monotonic clock. */
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

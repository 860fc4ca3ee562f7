/**
 * The clock of the embedded ledger: the monotonic clock plus an offset to the system time. A single wrong reading of
 * the system time would otherwise open new budget windows early, and budgets would be spent twice.
 */

/** The clock of a store, in Unix milliseconds. It may step back. */
export interface Clock {
  now(): number
  /** The clock stays as it is in large steps of the system time until this is called; returns such a step, or 0. */
  follow?(): number
}

/** Steps of the system time up to this are followed at once: time servers make them. */
const FOLLOWED_MS = 60_000

export class SteadyClock implements Clock {
  /** Added to the monotonic clock. */
  private offset: number
  /** A larger step that the last call of `follow` saw. */
  private doubted: number | undefined

  constructor(
    private readonly wall: () => number = Date.now,
    private readonly monotonic: () => number = performance.now.bind(performance),
  ) {
    this.offset = wall() - monotonic()
  }

  now(): number {
    const steady = this.monotonic()
    const offset = this.wall() - steady
    if (isSmall(offset - this.offset)) this.offset = offset
    return Math.floor(steady + this.offset)
  }

  /**
   * Follows a larger step, such as that of a machine that was suspended, if the call before saw it, too: call it every
   * few seconds. Returns the step in milliseconds; 0 without one.
   */
  follow(): number {
    const offset = this.wall() - this.monotonic()
    const step = offset - this.offset
    const isSure = this.doubted !== undefined && isSmall(offset - this.doubted)
    this.doubted = isSmall(step) || isSure ? undefined : offset
    if (isSmall(step) || !isSure) return 0
    this.offset = offset
    return Math.round(step)
  }
}

function isSmall(stepMs: number): boolean {
  return Math.abs(stepMs) <= FOLLOWED_MS
}

/**
 * Adaptive concurrency limit: a fixed number in flight, plus one for each 8 that wait, at most 256. With a fixed limit
 * alone the queue would grow whenever calls begin faster than they end; without the maximum the last call in flight
 * would time out.
 */

/** One more call is in flight for so many that wait. */
const WAITING_A_LANE = 8
const LANES_MAX = 256

export class ConcurrencyLimit {
  private taken = 0
  private readonly waiting: (() => void)[] = []

  constructor(private readonly least: number) {}

  /** Runs a call as soon as one may be in flight, first come first served. */
  async run<T>(call: () => Promise<T> | T): Promise<T> {
    await new Promise<void>((resolve) => {
      this.waiting.push(resolve)
      this.admit()
    })
    try {
      return await call()
    } finally {
      this.taken -= 1
      this.admit()
    }
  }

  private get open(): number {
    return Math.max(this.least, Math.min(LANES_MAX, this.waiting.length / WAITING_A_LANE))
  }

  private admit(): void {
    while (this.waiting.length > 0 && this.taken < this.open) {
      this.taken += 1
      this.waiting.shift()?.()
    }
  }
}

/**
 * Adaptive concurrency limit: a fixed number in flight, plus one for each 8 that wait, at most 256. With a fixed limit
 * alone the queue would grow whenever calls begin faster than they end; without the maximum the last call in flight
 * would time out.
 */

/** One more call may be in flight for each 8 that wait. */
const WAITING_PER_CALL = 8
const IN_FLIGHT_MAX = 256

export class ConcurrencyLimit {
  private inFlight = 0
  private readonly waiting: (() => void)[] = []

  constructor(private readonly min: number) {}

  /** Runs a call as soon as the limit allows, in the order of arrival. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      this.waiting.push(resolve)
      this.admit()
    })
    try {
      return await call()
    } finally {
      this.inFlight -= 1
      this.admit()
    }
  }

  private get limit(): number {
    return Math.max(this.min, Math.min(IN_FLIGHT_MAX, this.waiting.length / WAITING_PER_CALL))
  }

  private admit(): void {
    while (this.waiting.length > 0 && this.inFlight < this.limit) {
      this.inFlight += 1
      this.waiting.shift()?.()
    }
  }
}

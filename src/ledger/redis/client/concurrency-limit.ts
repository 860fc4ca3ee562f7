/**
 * So much at once and no more; the rest waits its turn. Where much waits more goes at once: what is begun must end as fast as it comes, or
 * it would wait longer and longer. But never so much that the last of it would time out.
 */

/** For so many that wait there is a lane more. */
const WAITING_A_LANE = 8
const LANES_MAX = 256

export class ConcurrencyLimit {
  private taken = 0
  private readonly waiting: (() => void)[] = []

  constructor(private readonly least: number) {}

  /** Runs a call as soon as a lane is free, in the order of asking. */
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

/** So much at once and no more; the rest waits its turn. */

export class Lanes {
  private taken = 0
  private readonly waiting: (() => void)[] = []

  constructor(private readonly most: number) {}

  /** Runs a call as soon as a lane is free, in the order of asking. */
  async run<T>(call: () => Promise<T> | T): Promise<T> {
    if (this.taken < this.most) this.taken += 1
    else await new Promise<void>((resolve) => this.waiting.push(resolve))
    try {
      return await call()
    } finally {
      const next = this.waiting.shift()
      if (next === undefined) this.taken -= 1
      else next()
    }
  }
}

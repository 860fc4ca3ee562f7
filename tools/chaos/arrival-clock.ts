/**
 * Bounds when bytes arrived that this process reads. It runs callers, the provider and the faults of all setups in one
 * thread: with a load of 20 on two cores, almost a second passed between two looks at its sockets, and answers from
 * before a kill seemed to have come long after it.
 */

const TICK_MS = 10

export class ArrivalClock implements Disposable {
  private last = performance.now()
  private beforeLast = this.last
  private readonly timer = setInterval(() => this.tick(), TICK_MS)

  /**
   * What is read now arrived after this time (`performance.now`): sockets are read after each tick, so what had arrived
   * before the tick before the last was read before the last.
   */
  get earliestMs(): number {
    return this.beforeLast
  }

  [Symbol.dispose](): void {
    clearInterval(this.timer)
  }

  private tick(): void {
    this.beforeLast = this.last
    this.last = performance.now()
  }
}

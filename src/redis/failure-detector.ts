/** Whether Redis is worth asking: after failures in a row, over some time, nobody waits for the next one to time out. */

/** So many failures in a row open it, … */
const FAILURES = 5
/** … and so long from the first: when this process itself stood still, all that was in flight times out at once, and says nothing of Redis. */
const FAILING_MS = 400
/** While it is open one call in this time goes through, to see. */
const PROBE_MS = 250

export class Breaker {
  private failures = 0
  private sinceMs = 0
  private probedMs = Number.NEGATIVE_INFINITY

  /** Milliseconds of a clock that never goes back. */
  constructor(private readonly now: () => number = performance.now.bind(performance)) {}

  get isOpen(): boolean {
    return this.failures >= FAILURES && this.now() - this.sinceMs >= FAILING_MS
  }

  /** True where a call may be made. */
  admits(): boolean {
    if (!this.isOpen) return true
    const now = this.now()
    if (now - this.probedMs < PROBE_MS) return false
    this.probedMs = now
    return true
  }

  succeeded(): void {
    this.failures = 0
  }

  failed(): void {
    if (this.failures === 0) this.sinceMs = this.now()
    this.failures += 1
  }
}

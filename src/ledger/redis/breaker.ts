/** Whether Redis is worth asking: after failures in a row nobody waits for the next one to time out. */

/** This many failures in a row open it. */
const FAILURES = 5
/** While it is open one call in this time goes through, to see. */
const PROBE_MS = 250

export class Breaker {
  private failures = 0
  private probedMs = Number.NEGATIVE_INFINITY

  /** Milliseconds of a clock that never goes back. */
  constructor(private readonly now: () => number = performance.now.bind(performance)) {}

  get isOpen(): boolean {
    return this.failures >= FAILURES
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
    this.failures += 1
  }
}

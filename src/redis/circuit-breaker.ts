/**
 * A circuit breaker in front of Redis: after several failures in a row, commands fail at once instead of timing out one
 * by one.
 */

/** The breaker opens after this many failures in a row … */
const FAILURES_MIN = 5
/**
 * … that span this time. When this process was suspended, all commands in flight time out at the same moment, which is
 * no evidence against Redis.
 */
const FAILING_MS_MIN = 400
/** While open, the breaker lets one command through in this time, to test the server. */
const PROBE_MS = 250

export class CircuitBreaker {
  private failures = 0
  private firstFailureMs = 0
  private probedMs = Number.NEGATIVE_INFINITY

  /** `now`: milliseconds of a monotonic clock. */
  constructor(private readonly now: () => number = performance.now.bind(performance)) {}

  get isOpen(): boolean {
    return this.failures >= FAILURES_MIN && this.now() - this.firstFailureMs >= FAILING_MS_MIN
  }

  /** True if a command may be sent now. */
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
    if (this.failures === 0) this.firstFailureMs = this.now()
    this.failures += 1
  }
}

/** How long a process that has died stays down before it is started again. */

/** After a life this long a process counts as healthy: its next pause is the shortest again. */
const HEALTHY_AFTER_MS = 10_000

/** Pauses that double from one death to the next. One for each process that is restarted. */
export class RestartBackoff {
  private ms: number

  constructor(
    private readonly minMs: number,
    private readonly maxMs: number,
  ) {
    this.ms = minMs
  }

  /** The pause after the death of a process that was started at `startedMs` (`performance.now()`). */
  pauseMs(startedMs: number): number {
    if (performance.now() - startedMs >= HEALTHY_AFTER_MS) this.ms = this.minMs
    const pause = this.ms
    this.ms = Math.min(2 * this.ms, this.maxMs)
    return pause
  }
}

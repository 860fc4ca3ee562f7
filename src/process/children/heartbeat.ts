/**
 * Detects a worker whose event loop stands still. Such a worker keeps its connections and gets its share of new ones,
 * but answers no request; nor does it take a message or SIGTERM.
 */

/** The time between two pings. */
const PERIOD_MS = 4000
/** A worker that leaves this many pings in a row unanswered, 20 s, is considered lost. */
const UNANSWERED_MAX = 5

interface HeartbeatEvents {
  /** Sends a ping. */
  readonly ask: () => void
  /** Called once, if the worker is lost. */
  readonly lost: (silentMs: number) => void
}

/** One for each worker process. */
export class Heartbeat {
  private timer: NodeJS.Timeout | undefined
  private unanswered = 0
  private askedMs = 0

  constructor(
    private readonly events: HeartbeatEvents,
    /** Milliseconds of a monotonic clock. */
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Sends pings from now on. */
  start(): void {
    this.stop()
    this.unanswered = 0
    this.ask()
    this.timer = setInterval(() => this.tick(), PERIOD_MS)
    this.timer.unref()
  }

  stop(): void {
    clearInterval(this.timer)
    this.timer = undefined
  }

  /** Call on every message of the worker; each counts as an answer. */
  heard(): void {
    this.unanswered = 0
  }

  /** Counts pings, not time: if this process itself was stopped, the answers have arrived and are not read yet. */
  tick(): void {
    const wasStopped = this.nowMs() - this.askedMs >= 2 * PERIOD_MS
    if (wasStopped) this.unanswered = 0
    if (this.unanswered < UNANSWERED_MAX) return this.ask()
    this.stop()
    this.events.lost(UNANSWERED_MAX * PERIOD_MS)
  }

  private ask(): void {
    this.unanswered++
    this.askedMs = this.nowMs()
    this.events.ask()
  }
}

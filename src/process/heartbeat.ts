/**
 * Whether a worker still answers. One whose event loop stands still keeps its connections and its share of new ones, and nobody is
 * answered on them; it cannot be told to end, either.
 */

/** How often a worker is asked. */
const PERIOD_MS = 4000
/** So many questions in a row without an answer, 20 s, and it is given up. */
const UNANSWERED_MAX = 5

interface HeartbeatEvents {
  /** Sends the question. */
  readonly ask: () => void
  /** No answer came; called once. */
  readonly lost: (silentMs: number) => void
}

/** One a worker process. */
export class Heartbeat {
  private timer: NodeJS.Timeout | undefined
  private unanswered = 0
  private askedMs = 0

  constructor(
    private readonly events: HeartbeatEvents,
    /** Milliseconds of a clock that never goes back. */
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Asks from now on. */
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

  /** Any message of the worker's is an answer. */
  heard(): void {
    this.unanswered = 0
  }

  /** Questions are counted rather than time: where this process itself was stopped, the answers are there and not read yet. */
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

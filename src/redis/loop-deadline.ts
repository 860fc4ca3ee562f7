/**
 * A deadline that counts only time in which this process' event loop runs. When the process was suspended for a second
 * (a long computation, a machine with more work than cores), a plain timer fires before the socket is read and reports
 * a reply as late that has already arrived.
 */

/** Something with a deadline: a command, a place in a queue. */
export interface Limited {
  readonly isSettled: boolean
  /** Called at the deadline, unless it has settled before. */
  expire(): void
}

/** Milliseconds of a monotonic clock, and its ticks. */
export interface LoopTime {
  now(): number
  /** Calls `call` every `ms`; the returned function stops that. */
  every(ms: number, call: () => void): () => void
}

/** Calls a function every `ms` milliseconds, which does not keep the process alive. The returned function stops it. */
export function every(ms: number, call: () => void): () => void {
  const timer = setInterval(call, ms)
  timer.unref()
  return () => clearInterval(timer)
}

const realTime: LoopTime = { now: performance.now.bind(performance), every }

/** Ticks in one limit, if they are not more than `INTERVAL_MS_MAX` apart. */
const TICKS = 10
/**
 * A limit of 2 s with 10 ticks would count 400 ms of each late turn: on a loop with turns of 300 ms it would count all
 * of the time, and reject reservations that wait for a Redis that replies at once.
 */
const INTERVAL_MS_MAX = 25
/** After a late tick at most this many intervals are counted: the rest of the time the loop did not run. */
const COUNTED_INTERVALS_MAX = 2

interface Entry {
  readonly limited: Limited
  readonly dueMs: number
}

export class LoopDeadline {
  /** Oldest first: all have the same limit. */
  private readonly entries: Entry[] = []
  /** How long the loop has run while there were entries. */
  private ranMs = 0
  private tickMs = 0
  private stop: (() => void) | undefined

  constructor(
    private readonly limitMs: number,
    private readonly time: LoopTime = realTime,
  ) {}

  /** Expires it unless it settles within the limit. The loop reads its sockets at least four times before that. */
  watch(limited: Limited): void {
    this.entries.push({ limited, dueMs: this.ranMs + this.limitMs })
    if (this.stop !== undefined) return
    this.tickMs = this.time.now()
    this.stop = this.time.every(this.intervalMs, () => this.tick())
  }

  private get intervalMs(): number {
    return Math.max(1, Math.min(INTERVAL_MS_MAX, Math.round(this.limitMs / TICKS)))
  }

  private tick(): void {
    const now = this.time.now()
    this.ranMs += Math.min(now - this.tickMs, COUNTED_INTERVALS_MAX * this.intervalMs)
    this.tickMs = now
    let over = 0
    for (const { limited, dueMs } of this.entries) {
      if (!limited.isSettled && dueMs > this.ranMs) break
      over += 1
      if (!limited.isSettled) limited.expire()
    }
    this.entries.splice(0, over)
    if (this.entries.length > 0) return
    this.stop?.()
    this.stop = undefined
  }
}

/** Waits for time in which the event loop runs. All waits of one length share a timer. */
export class LoopPauses {
  private readonly byMs = new Map<number, LoopDeadline>()

  constructor(private readonly time: LoopTime = realTime) {}

  /** Resolves when the loop has run for so long, and has read its sockets several times. */
  wait(ms: number): Promise<void> {
    const known = this.byMs.getOrInsertComputed(ms, () => new LoopDeadline(ms, this.time))
    return new Promise((resolve) => known.watch({ isSettled: false, expire: resolve }))
  }
}

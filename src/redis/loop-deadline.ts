/**
 * A time limit that counts only while this process' event loop runs. After a second in which the process stood still (a long computation, a
 * machine with more to do than cores) a plain timer fires before the socket is read, and calls a reply late that lies there since long.
 */

/** What has a limit: a command, a place in a queue. */
export interface Limited {
  readonly isSettled: boolean
  /** Its time is over. Not called if it was settled before. */
  expire(): void
}

/** Milliseconds of a clock that never goes back, and beats on it. */
export interface LoopTime {
  now(): number
  /** Calls a function again and again; what is returned ends it. */
  every(ms: number, call: () => void): () => void
}

const realTime: LoopTime = {
  now: performance.now.bind(performance),
  every: (ms, call) => {
    const timer = setInterval(call, ms)
    timer.unref()
    return () => clearInterval(timer)
  },
}

/** Beats in one limit. */
const BEATS = 10
/** A beat that comes later than this many of its intervals after the last one was held up here: no more than this is counted. */
const COUNTED_MAX = 2

interface Entry {
  readonly limited: Limited
  readonly dueMs: number
}

export class LoopDeadline {
  /** The oldest first: all have the same limit. */
  private readonly entries: Entry[] = []
  /** How long the loop has run, as far as anybody waited. */
  private ranMs = 0
  private beatMs = 0
  private stop: (() => void) | undefined

  constructor(
    private readonly limitMs: number,
    private readonly time: LoopTime = realTime,
  ) {}

  /** Expires it unless it is settled within the limit. The socket is read at least four times before that. */
  watch(limited: Limited): void {
    this.entries.push({ limited, dueMs: this.ranMs + this.limitMs })
    if (this.stop !== undefined) return
    this.beatMs = this.time.now()
    this.stop = this.time.every(this.intervalMs, () => this.beat())
  }

  private get intervalMs(): number {
    return Math.max(1, Math.round(this.limitMs / BEATS))
  }

  private beat(): void {
    const now = this.time.now()
    this.ranMs += Math.min(now - this.beatMs, COUNTED_MAX * this.intervalMs)
    this.beatMs = now
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

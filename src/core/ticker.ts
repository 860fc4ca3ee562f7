/** One timer for all deadlines of the process, so that thousands of streams need no timer each. */

import { type Member, MemberList } from './member-list.ts'

/** Something that watches a deadline. */
export interface Ticking extends Member {
  /** `nowMs` is monotonic (`performance.now()`), not wall time. */
  tick(nowMs: number): void
}

/** How late a deadline may be noticed. 5,000 streams cost 0.1 ms a tick. */
const PERIOD_MS = 50

/**
 * Calls `tick` of everything that was added every 50 ms until it is removed. The timer runs only while something is
 * added.
 */
class Ticker {
  private readonly watched = new MemberList<Ticking>()
  private timer: ReturnType<typeof setInterval> | undefined

  add(ticking: Ticking): void {
    this.watched.add(ticking)
    this.timer ??= setInterval(() => this.tick(), PERIOD_MS)
  }

  remove(ticking: Ticking): void {
    this.watched.remove(ticking)
  }

  private tick(): void {
    if (this.watched.size === 0) {
      clearInterval(this.timer)
      this.timer = undefined
      return
    }
    const nowMs = performance.now()
    for (const ticking of this.watched.snapshot()) if (ticking.place !== -1) ticking.tick(nowMs)
  }
}

/** Shared by all modules of the process; nothing runs before the first `add`. */
export const ticker = new Ticker()

/**
 * One timer for all deadlines of the process, so that thousands of streams need no timer each, and a slow one for what
 * an idle process looks after.
 */

import { type ListMember, MemberList } from './member-list.ts'

/** Something that watches a deadline. */
export interface Ticking extends ListMember {
  /** `nowMs` is monotonic (`performance.now()`), not wall time. */
  tick(nowMs: number): void
}

/** How late a deadline may be noticed. 5,000 streams cost 0.1 ms a tick. */
const PERIOD_MS = 50

/** The period of the slow ticker. */
export const SLOW_PERIOD_MS = 400

/**
 * Calls `tick` of everything that was added, once in a period until it is removed. The timer runs only while something
 * is added.
 */
class Ticker {
  private readonly watched = new MemberList<Ticking>()
  private timer: ReturnType<typeof setInterval> | undefined
  /** How often its timer has fired. A timer fires in a turn of the event loop of its own. */
  ticks = 0
  /**
   * When it last fired, or began to (`performance.now()`): near enough for seconds. Reading the clock for each event of
   * a stream takes 0.1 µs.
   */
  nowMs = 0

  /** `isBackground`: its timer alone does not keep the process running. */
  constructor(
    private readonly periodMs: number,
    private readonly isBackground = false,
  ) {}

  add(ticking: Ticking): void {
    this.watched.add(ticking)
    if (this.timer === undefined) this.timer = this.begin()
  }

  private begin(): ReturnType<typeof setInterval> {
    this.nowMs = performance.now()
    const timer = setInterval(() => this.tick(), this.periodMs)
    if (this.isBackground) timer.unref()
    return timer
  }

  remove(ticking: Ticking): void {
    this.watched.remove(ticking)
  }

  private tick(): void {
    this.ticks++
    if (this.watched.size === 0) {
      clearInterval(this.timer)
      this.timer = undefined
      return
    }
    this.nowMs = performance.now()
    for (const ticking of this.watched.snapshot()) if (ticking.place !== -1) ticking.tick(this.nowMs)
  }
}

/** Shared by all modules of the process; nothing runs before the first `add`. */
export const ticker = new Ticker(PERIOD_MS)
/**
 * For what an idle process does again and again. Each time that a process wakes costs it 0.1 to 0.2 ms, whatever it
 * then does: with a timer for each of these, an idle worker took 0.4 % of a core.
 */
export const slowTicker = new Ticker(SLOW_PERIOD_MS, true)

/** The wait between two rounds of a loop, such as polls or retries, which another part of the process can end early. */

import { slowTicker } from './ticker.ts'

/** One wait at a time. */
export class Pause {
  private wake: () => void = () => {}

  /** Resolves after `ms`, or when `end` is called. Its timer alone does not keep the process running. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      timer.unref()
      this.wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  /** Resolves at the next tick of the slow ticker, or when `end` is called: a timer would wake an idle process. */
  untilTick(): Promise<void> {
    return new Promise((resolve) => {
      const ticking = {
        place: -1,
        tick: () => {
          slowTicker.remove(ticking)
          resolve()
        },
      }
      this.wake = ticking.tick
      slowTicker.add(ticking)
    })
  }

  /** Ends the wait that runs; no effect without one. */
  end(): void {
    this.wake()
  }
}

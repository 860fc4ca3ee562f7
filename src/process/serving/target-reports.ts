/** Reports to the supervisor how the calls of targets go: at once if that turns, else with the next tick. */

import { slowTicker, type Ticking } from '../../core/ticker.ts'
import type { TargetTimes } from '../../gateway/breaker.ts'

/** A target that fails half of its calls turns with every one of them. */
const SOON_MS = 50

export class TargetReports implements Ticking {
  place = -1
  private soon: ReturnType<typeof setTimeout> | undefined

  constructor(
    private readonly take: () => readonly TargetTimes[],
    private readonly send: (times: readonly TargetTimes[]) => void,
  ) {}

  start(): void {
    slowTicker.add(this)
  }

  /** A target answers for the first time or again, or begins to fail. */
  turned(): void {
    this.soon ??= setTimeout(() => this.tick(), SOON_MS)
  }

  tick(): void {
    clearTimeout(this.soon)
    this.soon = undefined
    const times = this.take()
    if (times.length > 0) this.send(times)
  }

  stop(): void {
    slowTicker.remove(this)
    this.tick()
  }
}

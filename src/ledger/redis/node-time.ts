/** The time of a node with Redis, which tests simulate. */

import { every, LoopPauses, type LoopTime } from '../../redis/loop-deadline.ts'

/** The clock and the timer of this machine. Tests simulate them. */
export interface Time extends LoopTime {
  /** Resolves when the event loop has run for so long; absent = after so long. */
  readonly afterRunning?: (ms: number) => Promise<void>
}

const pauses = new LoopPauses()

export const realTime: Time = {
  now: Date.now,
  // A settlement cannot be sent, nor its reply be read, while the loop of this process is busy.
  afterRunning: (ms) => pauses.wait(ms),
  every,
}

/** Resolves after so long, or when the event loop has run for so long. */
export function after({ afterRunning, every }: Time, ms: number): Promise<void> {
  if (afterRunning !== undefined) return afterRunning(ms)
  return new Promise((resolve) => {
    const stop = every(ms, () => {
      stop()
      resolve()
    })
  })
}

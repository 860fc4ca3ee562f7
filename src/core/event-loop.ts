/**
 * Turns of the event loop for work that would otherwise never let go of it. A promise that is already settled continues as a
 * microtask: a loop over bytes that are there runs to its end before any other socket or timer is served.
 */

/** How much of one stream is worked on at a time, and the most between two turns of the loop that it waits for. */
export const SLICE_BYTES = 64 * 1024

/** Resolves in the next turn of the event loop: whatever waits is served first. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

class Turns {
  private readonly waiting: (() => void)[] = []
  private isScheduled = false

  /** Resolves in a later turn. Only one caller proceeds per turn, in the order of the calls, so that their number delays nobody else. */
  next(): Promise<void> {
    return new Promise((resolve) => {
      this.waiting.push(resolve)
      this.schedule()
    })
  }

  private schedule(): void {
    if (this.isScheduled) return
    this.isScheduled = true
    setImmediate(this.run)
  }

  private readonly run = (): void => {
    this.isScheduled = false
    this.waiting.shift()?.()
    if (this.waiting.length > 0) this.schedule()
  }
}

/** The process's own. */
const turns = new Turns()

/** The pace of one stream: free for `SLICE_BYTES`, then one turn of the loop for each slice. */
export class Pace {
  private sinceTurn = 0

  /** Whether so many bytes may be worked on at once; if so they are counted. */
  admits(bytes: number): boolean {
    if (this.sinceTurn + bytes > SLICE_BYTES) return false
    this.sinceTurn += bytes
    return true
  }

  /** Resolves when the next slice may be worked on. */
  async turn(bytes: number): Promise<void> {
    await turns.next()
    this.sinceTurn = bytes
  }
}

/**
 * Yields to the event loop within long work. An await of a settled promise continues as a microtask, so a loop over
 * bytes that are already in memory would run to its end before any other socket or timer is served.
 */

import { ticker } from './ticker.ts'

/** A stream is processed in slices of this size, with a turn of the event loop between them. */
export const SLICE_BYTES = 64 * 1024

/** Resolves in the next turn of the event loop, after waiting sockets and timers were served. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** A turn that takes no longer had nothing to do. */
const SHORT_MS = 0.5
const TURNS_MAX = 200

/**
 * Resolves after a turn in which sockets were read and nothing was to be done: what has arrived has been read. On a
 * busy machine a request may otherwise wait for many milliseconds in a socket that is then closed.
 */
export async function quietTurn(): Promise<void> {
  await turn()
  for (let i = 0; i < TURNS_MAX; i++) {
    const begun = performance.now()
    await turn()
    if (performance.now() - begun <= SHORT_MS) return
  }
}

/** Lets callers proceed one a turn. */
class LoopTurns {
  private readonly waiting: (() => void)[] = []
  private isScheduled = false

  /**
   * Resolves in a later turn. One caller proceeds per turn, in order, so that many callers do not delay everything
   * else.
   */
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

/** Shared by all streams of the process. */
const turns = new LoopTurns()

/**
 * Paces one stream: `SLICE_BYTES` pass at once, then each slice waits for a turn of the event loop. Bytes that came
 * before a tick do not count: 500 streams of 50 events a second reached `SLICE_BYTES` every 6 s, all at about the same
 * time, and the last of them waited for 500 turns.
 */
export class Pace {
  private sinceTurn = 0
  /** The tick of the ticker after which they came. */
  private tick = 0

  /** Returns true, and counts the bytes, if they may be processed without a wait. */
  admits(bytes: number): boolean {
    if (this.tick !== ticker.ticks) {
      this.tick = ticker.ticks
      this.sinceTurn = 0
    }
    if (this.sinceTurn + bytes > SLICE_BYTES) return false
    this.sinceTurn += bytes
    return true
  }

  /** Resolves when the next slice, of this many bytes, may be processed. */
  async turn(bytes: number): Promise<void> {
    await turns.next()
    this.sinceTurn = bytes
  }
}

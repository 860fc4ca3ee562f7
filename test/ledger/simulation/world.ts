/**
 * Virtual time: runs events in a seeded order, each with all that it triggers before the next. The same seed gives the
 * same history.
 */

import { Random } from '../random.ts'

interface Event {
  readonly ms: number
  readonly order: number
  readonly run: () => void
}

export class World {
  readonly random: Random
  nowMs = Date.UTC(2026, 10, 21, 9)
  steps = 0
  private made = 0
  private readonly heap: Event[] = []

  constructor(readonly seed: number) {
    this.random = new Random(seed)
  }

  /** Schedules an event. Events of the same moment run in an order that the seed decides. */
  after(ms: number, run: () => void): void {
    this.made += 1
    this.push({ ms: this.nowMs + ms, order: this.random.unit() + this.made * 1e-12, run })
  }

  /** A delay between two bounds, usually a short one. */
  delay(from: number, to: number): number {
    return from + (to - from) * this.random.unit() ** 3
  }

  /** Runs all events up to a moment from now. */
  async run(ms: number): Promise<void> {
    const end = this.nowMs + ms
    for (let event = this.pop(end); event !== undefined; event = this.pop(end)) {
      this.nowMs = event.ms
      this.steps += 1
      event.run()
      // Lets the promises of the event settle, or reach their next wait.
      await new Promise<void>((resolve) => setImmediate(resolve))
    }
    this.nowMs = end
  }

  /** Time passes, and everything that is scheduled is that much later. */
  leap(ms: number): void {
    this.nowMs += ms
    for (const [i, event] of this.heap.entries()) this.heap[i] = { ...event, ms: event.ms + ms }
  }

  private push(event: Event): void {
    const heap = this.heap
    let at = heap.length
    heap.push(event)
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = heap[parent]
      if (above === undefined || isBefore(above, event)) break
      heap[at] = above
      at = parent
    }
    heap[at] = event
  }

  private pop(end: number): Event | undefined {
    const heap = this.heap
    const first = heap[0]
    if (first === undefined || first.ms > end) return undefined
    const last = heap.pop()
    if (last === undefined || heap.length === 0) return first
    let at = 0
    for (;;) {
      let below = 2 * at + 1
      const right = heap[below + 1]
      const left = heap[below]
      if (left !== undefined && right !== undefined && isBefore(right, left)) below += 1
      const child = heap[below]
      if (child === undefined || isBefore(last, child)) break
      heap[at] = child
      at = below
    }
    heap[at] = last
    return first
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.ms !== b.ms ? a.ms < b.ms : a.order < b.order
}

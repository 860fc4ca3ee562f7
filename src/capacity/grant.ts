/** What a process holds of a limit, and what one request has taken of limits. */

import type { Demand, Meter } from './meter.ts'

/** Where a request gives back what it has taken. */
interface Room {
  /** `used`: undefined if nothing was sent. */
  end(taken: readonly Held[], demand: Demand, used: Demand | undefined): void
}

/** What a process holds of one meter. Targets of a provider share those of the provider. */
export class Held {
  /** For requests to come. Below 0: they must pay back first. */
  spare = 0
  /** Places that running requests take. */
  running = 0
  /** Before this time nothing is free (`performance.now()`). */
  emptyUntilMs = 0
  /** When what was lacking comes back by itself, as far as it is known. */
  freeMs = 0
  /** What was left of the limit when this process last asked, from 0 to 1, and when. */
  left = 1
  leftMs = 0

  /** Places that this process holds. */
  get places(): number {
    return this.running + this.spare
  }

  constructor(
    public meter: Meter,
    public slice: number,
  ) {}
}

/** What one request has taken; given back or corrected when its call ends. */
export class Grant {
  private isOpen = true

  constructor(
    private readonly room: Room,
    /** Of what it took: a new configuration may have other limits when it ends. */
    private readonly held: readonly Held[],
    private readonly demand: Demand,
  ) {}

  /** The call has ended, with what the provider counts of it; undefined if nothing was sent. */
  ended(used: Demand | undefined): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.room.end(this.held, this.demand, used)
  }

  /** It is called once more. */
  again(): void {
    if (this.isOpen) for (const held of this.held) if (held.meter.unit === 'requests') held.spare--
  }
}

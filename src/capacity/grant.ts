/** What a process holds of a limit, and what one request has taken of limits. */

import type { Demand, Meter } from './meter.ts'

/** Where a request gives back what it has taken. */
interface Room {
  /** `used`: undefined if nothing was sent. */
  end(taken: readonly Held[], demand: Demand, used: Demand | undefined): void
}

/** Ten nodes that ask for what comes back next would ask all the time. */
export const RETRY_MS_MIN = 20
/** Others may give room back, and limits change: nothing is held to be empty for longer. */
const RETRY_MS_MAX = 250

/** What a process holds of one meter. Targets of a provider share those of the provider. */
export class Held {
  /** For requests to come. Below 0: they must pay back first. */
  spare = 0
  /** Requests that have taken of it and run: of places, those that they take. */
  running = 0
  /** Asks in flight: what they are granted is not among the places yet. */
  asked = 0
  /** Before this time nothing is free (`performance.now()`). */
  emptyUntilMs = 0
  /** So much was lacking, and comes back by itself at this time, as far as it is known. */
  lacking = 0
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

  canBeAsked(): void {
    this.emptyUntilMs = 0
    this.freeMs = 0
  }

  /** It was asked for so much, which it has after `waitMs`; 0: it is not what is lacking. */
  denied(need: number, nowMs: number, waitMs: number): void {
    if (need === 0 || waitMs === 0) return
    this.lacking = need
    this.freeMs = nowMs + waitMs
    this.emptyUntilMs = nowMs + Math.min(Math.max(waitMs, RETRY_MS_MIN), RETRY_MS_MAX)
  }

  /** So much does not come back by itself before `untilMs`, and nothing runs here that may give back some of it. */
  comesTooLate(amount: number, untilMs: number): boolean {
    const lacks = amount - this.spare
    return this.running === 0 && this.freeMs > untilMs && lacks > 0 && lacks >= this.lacking
  }
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

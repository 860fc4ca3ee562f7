/** The requests that a process is busy with, and what can end one from outside: its caller, or the end of the process. */

import type { BodyShare } from './body-memory.ts'

/** Why a request was ended before its answer was whole. */
export type Interruption = 'caller_left' | 'drained'

/** One running request. Whoever works on it says how it is stopped; ending it twice is ending it once. */
export class Flight {
  private why: Interruption | undefined
  private stop: ((why: Interruption) => void) | undefined
  private body: BodyShare | undefined

  constructor(private readonly owner: InFlight) {}

  get interrupted(): Interruption | undefined {
    return this.why
  }

  /** What is to be stopped from now on; called at once where the request was ended before. */
  onInterrupt(stop: (why: Interruption) => void): void {
    this.stop = stop
    if (this.why !== undefined) stop(this.why)
  }

  /** The memory of its body, which is given back when it lands. */
  carry(body: BodyShare): void {
    this.body = body
  }

  /** A provider has taken the request. */
  sent(): void {
    this.body?.sent()
  }

  interrupt(why: Interruption): void {
    if (this.why !== undefined) return
    this.why = why
    this.stop?.(why)
  }

  /** The request is over: answered or not, and settled. */
  land(): void {
    this.stop = undefined
    this.body?.release()
    this.owner.land(this)
  }
}

export class InFlight {
  private readonly flights = new Set<Flight>()
  private waiting: (() => void)[] = []

  get size(): number {
    return this.flights.size
  }

  take(): Flight {
    const flight = new Flight(this)
    this.flights.add(flight)
    return flight
  }

  /** Resolves once no request runs. */
  idle(): Promise<void> {
    return this.flights.size === 0 ? Promise.resolve() : new Promise((resolve) => this.waiting.push(resolve))
  }

  /** Ends every running request. */
  cut(why: 'drained'): void {
    for (const flight of this.flights) flight.interrupt(why)
  }

  land(flight: Flight): void {
    this.flights.delete(flight)
    if (this.flights.size > 0) return
    const waiting = this.waiting
    this.waiting = []
    for (const resolve of waiting) resolve()
  }
}

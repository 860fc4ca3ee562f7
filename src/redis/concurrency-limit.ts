/**
 * Adaptive concurrency limit: a fixed number in flight, plus one for each 8 that wait, at most 256. With a fixed limit
 * alone the queue would grow whenever calls begin faster than they end; without the maximum the last call in flight
 * would time out.
 */

/** One more call may be in flight for each 8 that wait. */
const WAITING_PER_CALL = 8
const IN_FLIGHT_MAX = 256

export interface Startable {
  /** Begins the call, which calls `leave` when it has ended. */
  start(): void
}

export class ConcurrencyLimit {
  private inFlight = 0
  private isAdmitting = false
  private readonly waiting: Startable[] = []

  constructor(private readonly min: number) {}

  /** Starts a call as soon as the limit allows, in the order of arrival. */
  enter(call: Startable): void {
    this.waiting.push(call)
    this.admit()
  }

  /** A call has ended. */
  leave(): void {
    this.inFlight -= 1
    this.admit()
  }

  private get limit(): number {
    return Math.max(this.min, Math.min(IN_FLIGHT_MAX, this.waiting.length / WAITING_PER_CALL))
  }

  private admit(): void {
    // A call that ends at once leaves while it is started: then the loop below goes on, not one inside it.
    if (this.isAdmitting) return
    this.isAdmitting = true
    while (this.waiting.length > 0 && this.inFlight < this.limit) {
      this.inFlight += 1
      this.waiting.shift()?.start()
    }
    this.isAdmitting = false
  }
}

/**
 * Bounds how many reservations are sent to Redis at once: a burst waits here instead of in Redis' socket, where its
 * last reply would come too late. Organisations take turns. What waits too long, or finds too many waiting, is
 * rejected.
 */

import { type Limited, LoopDeadline, type LoopTime } from '../../../redis/loop-deadline.ts'

/**
 * In flight for one organisation: a script takes about 50 µs, so the last of them is answered after a few milliseconds.
 */
const ORGANIZATION_MAX = 64
/** In flight altogether. */
const IN_FLIGHT_MAX = 256
const WAITING_MAX = 4096
/**
 * At 10,000 reservations a second a full queue takes 0.4 s: after this long Redis is too slow for what is asked of it.
 */
const WAIT_MS = 2000

export class ReserveQueueFullError extends Error {
  constructor() {
    super('More reservations wait for Redis than it can answer in time.')
    this.name = 'ReserveQueueFullError'
  }
}

/** Settled once it may run, or once it has waited too long. */
class Turn implements Limited {
  isSettled = false
  private readonly resolvers = Promise.withResolvers<void>()

  get granted(): Promise<void> {
    return this.resolvers.promise
  }

  grant(): void {
    this.isSettled = true
    this.resolvers.resolve()
  }

  expire(): void {
    this.isSettled = true
    this.resolvers.reject(new ReserveQueueFullError())
  }
}

interface OfOne {
  inFlight: number
  readonly waiting: Set<Turn>
}

export class ReserveQueue {
  private readonly organizations = new Map<string, OfOne>()
  /** Organisations that wait and may have more in flight, in the order of their turns. */
  private readonly ready = new Set<string>()
  private readonly deadline: LoopDeadline
  private inFlight = 0
  private waiting = 0

  constructor(time?: LoopTime) {
    this.deadline = new LoopDeadline(WAIT_MS, time)
  }

  /** Runs a call when it may. Throws `ReserveQueueFullError`. */
  async run<T>(organization: string, call: () => Promise<T> | T): Promise<T> {
    const one = this.organizations.get(organization) ?? { inFlight: 0, waiting: new Set() }
    const isFree = this.inFlight < IN_FLIGHT_MAX && one.inFlight < ORGANIZATION_MAX && one.waiting.size === 0
    if (!isFree && this.waiting >= WAITING_MAX) throw new ReserveQueueFullError()
    this.organizations.set(organization, one)
    if (isFree) this.begin(one)
    else await this.wait(organization, one)
    try {
      return await call()
    } finally {
      this.inFlight -= 1
      one.inFlight -= 1
      this.changed(organization, one)
      this.admit()
    }
  }

  private begin(one: OfOne): void {
    this.inFlight += 1
    one.inFlight += 1
  }

  /** Resolves when its call has begun. */
  private async wait(organization: string, one: OfOne): Promise<void> {
    const turn = new Turn()
    one.waiting.add(turn)
    this.waiting += 1
    this.deadline.watch(turn)
    this.changed(organization, one)
    // Nothing may be in flight whose end would admit it: those before it may just have expired.
    this.admit()
    try {
      await turn.granted
    } catch (error) {
      one.waiting.delete(turn)
      this.waiting -= 1
      this.changed(organization, one)
      throw error
    }
  }

  /**
   * Begins what may begin, one of each organisation after the other: a set is walked in the order of insertion, what is
   * added on the way too.
   */
  private admit(): void {
    for (const organization of this.ready) {
      if (this.inFlight >= IN_FLIGHT_MAX) return
      this.ready.delete(organization)
      const one = this.organizations.get(organization)
      const turn = one === undefined ? undefined : nextOf(one)
      if (one === undefined || turn === undefined) continue
      one.waiting.delete(turn)
      this.waiting -= 1
      this.begin(one)
      turn.grant()
      this.changed(organization, one)
    }
  }

  private changed(organization: string, one: OfOne): void {
    if (one.waiting.size > 0 && one.inFlight < ORGANIZATION_MAX) this.ready.add(organization)
    else this.ready.delete(organization)
    if (one.waiting.size === 0 && one.inFlight === 0) this.organizations.delete(organization)
  }
}

/** The one that waits longest; one that has expired is on its way out. */
function nextOf({ waiting }: OfOne): Turn | undefined {
  for (const turn of waiting) if (!turn.isSettled) return turn
  return undefined
}

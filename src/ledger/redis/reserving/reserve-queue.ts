/**
 * Bounds how many reservations are sent to Redis at once: a burst waits here instead of in Redis' socket, where its
 * last reply would come too late. Organisations take turns. A reservation that waits for 2 s, or finds 4096 waiting, is
 * rejected.
 */

import { type Limited, LoopDeadline, type LoopTime } from '../../../redis/loop-deadline.ts'

/**
 * In flight for one organisation: a script takes about 50 µs, so the last of them is answered after a few milliseconds.
 */
const ORGANIZATION_MAX = 64
/** In flight for all organisations. */
const IN_FLIGHT_MAX = 256
const WAITING_MAX = 4096
/**
 * At 10,000 reservations a second a full queue drains in 0.4 s: if one waits for 2 s, Redis is overloaded.
 */
const WAIT_MS = 2000

export class ReserveQueueFullError extends Error {
  constructor() {
    super('More reservations wait for Redis than it can answer in time.')
    this.name = 'ReserveQueueFullError'
  }
}

/** Resolves when its call may run; rejects after `WAIT_MS`. */
class QueuedCall implements Limited {
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

interface OrganizationQueue {
  inFlight: number
  readonly waiting: Set<QueuedCall>
}

export class ReserveQueue {
  private readonly organizations = new Map<string, OrganizationQueue>()
  /** Organisations with waiting calls and below their maximum in flight, in the order of their turns. */
  private readonly ready = new Set<string>()
  private readonly deadline: LoopDeadline
  private inFlight = 0
  private waiting = 0

  constructor(time?: LoopTime) {
    this.deadline = new LoopDeadline(WAIT_MS, time)
  }

  /** True if a call may run now; then `leave` must follow. False if it would have to wait. */
  enter(organization: string): boolean {
    const one = this.organizations.get(organization) ?? { inFlight: 0, waiting: new Set<QueuedCall>() }
    if (!this.isFree(one)) return false
    this.organizations.set(organization, one)
    this.begin(one)
    return true
  }

  /** A call that has entered has ended. */
  leave(organization: string): void {
    const one = this.organizations.get(organization)
    if (one === undefined) return
    this.inFlight -= 1
    one.inFlight -= 1
    this.changed(organization, one)
    if (this.waiting > 0) this.admit()
  }

  /** Runs a call when its turn comes. Throws `ReserveQueueFullError`. */
  run<T>(organization: string, call: () => Promise<T>): Promise<T> {
    if (this.enter(organization)) return this.begun(organization, call())
    if (this.waiting >= WAITING_MAX) return Promise.reject(new ReserveQueueFullError())
    const one = this.organizations.get(organization) ?? { inFlight: 0, waiting: new Set<QueuedCall>() }
    this.organizations.set(organization, one)
    return this.wait(organization, one).then(() => this.begun(organization, call()))
  }

  private isFree({ inFlight, waiting }: OrganizationQueue): boolean {
    return this.inFlight < IN_FLIGHT_MAX && inFlight < ORGANIZATION_MAX && waiting.size === 0
  }

  private begun<T>(organization: string, calling: Promise<T>): Promise<T> {
    const ended = () => this.leave(organization)
    calling.then(ended, ended)
    return calling
  }

  private begin(one: OrganizationQueue): void {
    this.inFlight += 1
    one.inFlight += 1
  }

  /** Resolves when the call may run and is counted as in flight. */
  private async wait(organization: string, one: OrganizationQueue): Promise<void> {
    const turn = new QueuedCall()
    one.waiting.add(turn)
    this.waiting += 1
    this.deadline.watch(turn)
    this.changed(organization, one)
    // Otherwise this call could wait for nothing: if the calls ahead of it have just expired, none is in flight whose
    // end would admit it.
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
   * Grants as many turns as fit, one per organisation in each round: a set is iterated in the order of insertion,
   * including entries that are added meanwhile.
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

  private changed(organization: string, one: OrganizationQueue): void {
    if (one.waiting.size > 0 && one.inFlight < ORGANIZATION_MAX) this.ready.add(organization)
    else this.ready.delete(organization)
    if (one.waiting.size === 0 && one.inFlight === 0) this.organizations.delete(organization)
  }
}

/** The turn that has waited longest and has not expired. */
function nextOf({ waiting }: OrganizationQueue): QueuedCall | undefined {
  for (const turn of waiting) if (!turn.isSettled) return turn
  return undefined
}

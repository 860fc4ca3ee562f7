/**
 * The room that one request looks for among its candidates: those that lack it are passed over, and if no other can be
 * called, the request waits for them.
 */

import type { Grant } from '../capacity/grant.ts'
import type { Demand } from '../capacity/meter.ts'
import type { Contender } from '../capacity/organization-turns.ts'
import type { Rooms } from '../capacity/rooms.ts'
import type { TargetRoom } from '../capacity/target-room.ts'
import { PRIORITIES, type Priority, type Waiting, type WaitQueue } from '../capacity/wait-queue.ts'
import { type Key, publicName } from '../catalog/catalog.ts'
import type { Candidate } from '../catalog/resolve.ts'
import type { ReportedLimit } from '../core/capacity-limits.ts'
import { type Later, laterOf } from '../core/later.ts'
import { targetKey } from '../core/model-config.ts'
import { Attempt } from './attempt.ts'
import type { Breaker, Rest } from './breaker.ts'
import type { Permit } from './permit.ts'
import { estimateOf, type Quote } from './quote.ts'

/** A target whose provider refused a request, and did not report for how long, is called again after this time. */
const REFUSED_MS = 1000

/** What the limits of providers and targets, and the queue, need to know of requests. */
export interface Capacity {
  readonly rooms: Rooms
  readonly queue: WaitQueue
  /** 0: requests do not wait. */
  readonly maxWaitMs: number
  /** How many may wait in one worker. */
  readonly maxWaiting: number
  /** Requests also wait for targets whose provider answered that they are over its limit. */
  readonly waitsForProviders: boolean
}

/** A candidate that has no room now. */
interface Full {
  readonly candidate: Candidate
  /** Undefined if its provider alone limits it. */
  readonly room: TargetRoom | undefined
  readonly demand: Demand
  /** It may be called although it rests. */
  readonly isAtRest?: boolean
  /** It rests after failures: no reason to wait, but it is called if its rest ends first. */
  readonly isResting?: boolean
  /** Not before this time (`performance.now()`). */
  readonly fromMs?: number
}

/** A candidate that still has no room. */
export interface Lacking {
  readonly candidate: Candidate
  /** After so long it has room again, as far as it is known. */
  readonly waitMs: number
}

/** Hears of candidates that were passed over, and what became of a wait. */
interface RoomOwner {
  lacksRoom(candidate: Candidate, waitMs: number): void
  /** It waited, and this candidate has room. */
  entered(attempt: Attempt, waitedMs: number): void
  /** No candidate got room in time, or all rest. */
  gaveUp(lacking: readonly Lacking[]): void
}

export class RequestRoom {
  private readonly full: Full[] = []
  /** When its waiting ends; known once it has waited. */
  private untilMs: number | undefined
  /** Too many wait: it is not counted again. */
  private isTurnedAway = false
  /** A permit to probe a candidate, for the turn that it was claimed for. */
  private claimed: { readonly candidate: Candidate; readonly permit: Permit } | undefined
  private readonly priority: Priority

  constructor(
    private readonly capacity: Capacity,
    private readonly breaker: Breaker,
    private readonly key: Key,
    /** The caller lets others go first. */
    isLowered: boolean,
    private readonly quoteOf: (candidate: Candidate) => Quote,
    private readonly owner: RoomOwner,
  ) {
    this.priority = isLowered ? 'batch' : (key.priority ?? PRIORITIES[0])
  }

  /**
   * An attempt if the candidate has room, undefined if it has none; later if the room that all processes share must be
   * asked.
   */
  enter(
    candidate: Candidate,
    permit: Permit,
    isFirst: boolean,
    isAtRest = false,
  ): Attempt | Later<Attempt | undefined> | undefined {
    const room = this.capacity.rooms.of(candidate.target)
    if (room === undefined) return new Attempt(candidate, permit, isFirst)
    const demand = this.demandOf(candidate)
    const found = room.waiting > 0 ? undefined : room.enter(demand, this.isLow, () => [this.contender])
    const full = { candidate, room, demand, isAtRest }
    if (!(found instanceof Promise)) return this.attemptOf(full, found, permit, isFirst)
    return laterOf(found).map((grant) => this.attemptOf(full, grant, permit, isFirst))
  }

  /** The provider of a candidate has answered that it is over its limit: the request waits for it, like others. */
  refused(candidate: Candidate): void {
    if (this.breaker.restOf(candidate.target) !== undefined) return this.rests(candidate)
    const room = this.capacity.rooms.of(candidate.target)
    // Without a limit or a `retry-after` nothing shows when it takes requests again.
    const fromMs = room === undefined ? performance.now() + REFUSED_MS : 0
    const isResting = !this.capacity.waitsForProviders
    this.full.push({ candidate, room, demand: this.demandOf(candidate), isResting, fromMs })
  }

  /** A candidate rests. The request waits for it if its provider answered that it is over a limit. */
  rests(candidate: Candidate): void {
    const rest = this.breaker.restOf(candidate.target)
    if (rest === undefined) return
    const isResting = rest.reason !== 'rate_limited' || !this.capacity.waitsForProviders
    const room = this.capacity.rooms.of(candidate.target)
    this.full.push({ candidate, room, demand: this.demandOf(candidate), isResting })
  }

  /**
   * The provider has answered a call, `isRefused` with a 429: what it reports of its limits holds for all requests.
   * False if a limit has nothing left and it is not known how much comes back.
   */
  hear({ candidate, startedMs }: Attempt, reports: readonly ReportedLimit[], isRefused: boolean): boolean {
    if (reports.length === 0 && !isRefused) return true
    return this.capacity.rooms.hear(candidate.target, reports, performance.now() - startedMs, isRefused)
  }

  /** Lets the request wait for a candidate that lacked room. Returns what ends the wait; undefined if it must not. */
  wait(): { readonly leave: () => void } | undefined {
    const { capacity, key, full, owner, isLow } = this
    const waitMs = key.maxWaitMs ?? capacity.maxWaitMs
    if (this.isTurnedAway || waitMs <= 0) return undefined
    const sinceMs = performance.now()
    const untilMs = this.untilMs ?? sinceMs + waitMs
    this.untilMs = untilMs
    if (sinceMs >= untilMs || full.every((each) => each.isResting || this.comesTooLate(each, untilMs))) return undefined
    const count = (by: number) => {
      for (const { room } of full) if (room !== undefined) room.waiting += by
    }
    let isOver = false
    const end = () => {
      isOver = true
      count(-1)
      full.length = 0
    }
    const giveUp = () => {
      if (isOver) return
      capacity.queue.leave(waiting)
      waiting.gaveUp(false)
      // The next ones may have to give up, too.
      capacity.queue.roomChanged()
    }
    const waiting: Waiting = {
      organization: key.organization.id,
      key: key.id,
      weight: this.contender.weight,
      priority: this.priority,
      candidates: full.map(({ candidate }) => `${publicName(candidate.model)} ${targetKey(candidate.target)}`).join(),
      untilMs,
      tryNow: () => {
        const attempt = this.tryFull()
        if (attempt === undefined) {
          if (full.every((each) => this.breaksDown(each) || this.comesTooLate(each, untilMs))) queueMicrotask(giveUp)
          return false
        }
        if (this.isLow) this.capacity.rooms.of(attempt.candidate.target)?.hadLowTurn()
        end()
        // The queue is not yet done with this turn.
        queueMicrotask(() => owner.entered(attempt, performance.now() - sinceMs))
        return true
      },
      get hasTurn() {
        return full.some(({ room }) => room?.isTurnOf(this.organization, isLow) === true)
      },
      ask: (contendersOf, newcomer) => {
        for (const { room, demand } of full) room?.askFor(demand, isLow, contendersOf, newcomer)
      },
      gaveUp: () => {
        const lacking = this.lacking()
        end()
        owner.gaveUp(lacking)
      },
    }
    this.isTurnedAway = !capacity.queue.add(waiting, capacity.maxWaiting)
    if (this.isTurnedAway) return undefined
    count(1)
    capacity.queue.askForNew(waiting)
    return {
      leave: () => {
        if (isOver) return
        end()
        capacity.queue.leave(waiting)
      },
    }
  }

  /** It has begun to rest after failures: it is called at rest, or the request fails. */
  private breaksDown({ candidate, isAtRest }: Full): boolean {
    const rest = this.breaker.restOf(candidate.target)
    return isAtRest !== true && isAway(rest) && rest.reason !== 'rate_limited'
  }

  /** It has no room before the wait is over: a window of money ends later, for example, or its provider's rest. */
  private comesTooLate({ candidate, room, demand, isAtRest }: Full, untilMs: number): boolean {
    const rest = this.breaker.restOf(candidate.target)
    const isLong = isAtRest !== true && isAway(rest) && performance.now() + rest.restMs > untilMs
    return (isLong && rest.reason === 'rate_limited') || room?.comesTooLate(demand, untilMs) === true
  }

  private lacking(): readonly Lacking[] {
    const lacking = this.full.filter((each) => !this.breaksDown(each))
    return lacking.map(({ candidate, room, demand }) => {
      const restMs = this.breaker.restOf(candidate.target)?.restMs ?? 0
      return { candidate, waitMs: Math.max(restMs, room?.untilFreeMs(demand) ?? 0) }
    })
  }

  private get contender(): Contender {
    const { id, weight = 1 } = this.key.organization
    return { organization: id, weight, waitedMs: 0 }
  }

  private get isLow(): boolean {
    return this.priority === 'batch'
  }

  private demandOf(candidate: Candidate): Demand {
    const { inputTokens, outputTokens, costMicroUsd } = estimateOf(this.quoteOf(candidate), 0)
    return { tokens: inputTokens + outputTokens, microUsd: costMicroUsd }
  }

  private attemptOf(full: Full, grant: Grant | undefined, permit: Permit, isFirst: boolean): Attempt | undefined {
    if (grant !== undefined) return new Attempt(full.candidate, permit, isFirst, undefined, grant)
    permit.release()
    this.full.push(full)
    this.owner.lacksRoom(full.candidate, full.room?.untilFreeMs(full.demand) ?? 0)
    return undefined
  }

  private tryFull(): Attempt | undefined {
    const nowMs = performance.now()
    for (const { candidate, room, demand, isAtRest, fromMs = 0 } of this.full) {
      if (nowMs < fromMs || room?.has(demand) === false) continue
      const permit = isAtRest ? this.breaker.enterAnyway(candidate.target) : this.permitFor(candidate)
      if (permit !== undefined) return new Attempt(candidate, permit, true, undefined, room?.tryEnter(demand))
    }
    return undefined
  }

  private permitFor(candidate: Candidate): Permit | undefined {
    if (this.claimed?.candidate === candidate) {
      const { permit } = this.claimed
      this.claimed = undefined
      return permit
    }
    const permit = this.breaker.enter(candidate.target)
    if (permit === undefined && this.breaker.mustClaim(candidate.target)) void this.claim(candidate)
    return permit
  }

  /** Asks the other workers whether this one may probe a candidate whose rest is over. */
  private async claim(candidate: Candidate): Promise<void> {
    const permit = await this.breaker.enterByClaim(candidate.target)
    if (permit === undefined) return
    this.claimed = { candidate, permit }
    this.capacity.queue.roomChanged()
    this.claimed?.permit.release()
    this.claimed = undefined
  }
}

function isAway(rest: Rest | undefined): rest is Rest {
  return rest !== undefined && rest.restMs > 0 && !rest.probing
}

/**
 * The room of one target in one process: what requests to come may have of its limits, and what those need that lack
 * it. One ask at a time goes to the room that all processes share.
 */

import type { Amount, Ask, Taken } from './common-room.ts'
import { Grant, type Held, RETRY_MS_MIN } from './grant.ts'
import { amountOf, bucketOf, type Demand, isMoney, type Meter } from './meter.ts'
import { CONTENDERS_MAX, type Contender } from './organization-turns.ts'

const NOTHING: Demand = { tokens: 0, microUsd: 0 }
/** An ask is tried again after others took what it was granted at most this often. */
const TRIES = 3

/** What all processes share. */
export interface SharedRoom {
  /** Other processes take room, too. */
  readonly isShared: boolean
  take(asks: readonly Ask[], isLow: boolean, contenders: readonly Contender[]): Promise<Taken>
  give(amounts: readonly Amount[]): void
  /** Waiting requests may go on. */
  changed(): void
}

/** For which organisations room is asked for, when it is. */
type ContendersOf = () => readonly Contender[]

/** What a request needs, or the first of those that wait. */
interface Wanted {
  readonly demand: Demand
  readonly contendersOf: ContendersOf
}

export class TargetRoom {
  /** Requests that wait for it in the queue. Who comes later does not pass them. */
  waiting = 0
  private asking: Promise<void> | undefined
  private isLowDenied = false
  /** The organisations that the others know to wait here. */
  private named: ReadonlySet<string> = new Set()
  /** Turns of the lower class that the others do not know of. */
  private lows = 0
  /** What requests need that wait for the ask in flight, or for the next one. */
  private wanted: Wanted[] = []
  /** Which organisation was granted the room that waiting requests have not yet taken. */
  private turn: { readonly organization: string | undefined; readonly isLow: boolean } | undefined

  private held: readonly Held[] = []

  constructor(private readonly rooms: SharedRoom) {}

  /** Takes over the limits of a configuration, also for requests that wait. */
  use(held: readonly Held[]): void {
    this.held = held
  }

  /** The names of its limits. */
  get meters(): readonly string[] {
    return this.held.map(({ meter }) => meter.name)
  }

  /** Whether this process holds enough. */
  has(demand: Demand): boolean {
    return this.held.every(({ meter, spare }) => amountOf(meter, demand) <= spare)
  }

  /** Takes room; undefined if this process does not hold enough. */
  tryEnter(demand: Demand): Grant | undefined {
    if (!this.has(demand)) return undefined
    this.turn = undefined
    for (const held of this.held) {
      held.spare -= amountOf(held.meter, demand)
      held.running++
    }
    this.topUp()
    return new Grant(this, this.held, demand)
  }

  /** Takes room, and asks for more if this process holds too little. Undefined if there is none. */
  enter(demand: Demand, isLow: boolean, contendersOf: ContendersOf): Grant | Promise<Grant | undefined> | undefined {
    const grant = this.tryEnter(demand)
    if (grant !== undefined) return grant
    return this.waitMs(demand) > 0 ? undefined : this.enterLater(demand, isLow, contendersOf)
  }

  /** Whether the room that all processes share has given an organisation the next turn here. */
  isTurnOf(organization: string, isLow: boolean): boolean {
    return this.turn?.organization === organization && this.turn.isLow === isLow
  }

  /** For how long it is in vain to ask for what a request lacks. */
  waitMs(demand: Demand): number {
    return this.longest(demand, ({ emptyUntilMs }) => emptyUntilMs)
  }

  /** After how long what a request lacks comes back by itself. */
  untilFreeMs(demand: Demand): number {
    return this.longest(demand, ({ freeMs }) => freeMs)
  }

  /**
   * Nothing of what a request lacks comes back before `untilMs`: neither by itself nor from requests that run here.
   * Those that run elsewhere may give back tokens, of which they reserve many more than they use.
   */
  comesTooLate(demand: Demand, untilMs: number): boolean {
    const { isShared } = this.rooms
    return this.held.some(
      (held) => held.comesTooLate(amountOf(held.meter, demand), untilMs) && !(isShared && held.meter.unit === 'tokens'),
    )
  }

  private longest(demand: Demand, endOf: (held: Held) => number): number {
    const nowMs = performance.now()
    let ms = 0
    for (const held of this.held) if (amountOf(held.meter, demand) > held.spare) ms = Math.max(ms, endOf(held) - nowMs)
    return ms
  }

  /** A request of the lower class has had its turn. */
  hadLowTurn(): void {
    this.lows++
  }

  /**
   * Asks for what a request lacks, unless that is in vain. The queue is woken by the answer. `newcomer`: its
   * organisation, if it only begins to wait.
   */
  askFor(demand: Demand, isLow: boolean, contendersOf: ContendersOf, newcomer?: string): void {
    if (this.has(demand)) return
    const isUnknown = (this.isLowDenied && !isLow) || (newcomer !== undefined && !this.named.has(newcomer))
    // What others were denied, it may get, or the other processes learn that it waits.
    if (this.waitMs(demand) <= 0 || isUnknown) void this.ask({ demand, contendersOf }, isLow)
  }

  /** `used`: undefined if nothing was sent. */
  end(taken: readonly Held[], demand: Demand, used: Demand | undefined): void {
    const given: Amount[] = []
    for (const held of taken) {
      const { meter, slice } = held
      held.running--
      if (meter.kind === 'concurrency') held.spare++
      else if (meter.unit !== 'requests') held.spare += amountOf(meter, demand) - amountOf(meter, used ?? NOTHING)
      else if (used === undefined) held.spare++
      // What cost more than was taken is counted for all at once: this process may end before its next ask.
      if (isMoney(meter) && held.spare < 0) {
        given.push({ meter, amount: held.spare })
        held.spare = 0
      }
      const most = Math.max(slice, 0)
      // Others may wait for the place that is free now: whose turn it is, they decide together.
      const isAwaited = this.waiting > 0 && meter.kind === 'concurrency' && this.rooms.isShared
      const isMuch = held.spare > most * 2 || (meter.kind === 'concurrency' && held.spare > most)
      const kept = isAwaited ? 0 : isMuch && this.waiting === 0 ? most : held.spare
      if (held.spare <= kept) continue
      given.push({ meter, amount: held.spare - kept })
      held.spare = kept
      held.emptyUntilMs = 0
    }
    if (given.length > 0) this.rooms.give(given)
    this.rooms.changed()
  }

  /** Before a request needs it. */
  topUp(): void {
    if (this.asking !== undefined) return
    const nowMs = performance.now()
    const isLow = this.held.some(({ spare, slice, emptyUntilMs }) => spare < slice / 2 && nowMs >= emptyUntilMs)
    if (isLow) void this.ask(undefined, false)
  }

  private async enterLater(demand: Demand, isLow: boolean, contendersOf: ContendersOf): Promise<Grant | undefined> {
    for (let tries = 0; tries < TRIES; tries++) {
      await this.ask({ demand, contendersOf }, isLow)
      const grant = this.tryEnter(demand)
      if (grant !== undefined || this.waitMs(demand) > 0) return grant
    }
    return undefined
  }

  /** One ask at a time: what comes meanwhile is asked for together. */
  private async ask(wanted: Wanted | undefined, isLow: boolean): Promise<void> {
    if (wanted !== undefined) this.wanted.push(wanted)
    if (this.asking !== undefined) await this.asking
    if (wanted !== undefined && !this.wanted.includes(wanted)) return
    this.asking ??= this.askNow(isLow).finally(() => {
      this.asking = undefined
      this.rooms.changed()
    })
    await this.asking
  }

  /** What is larger than a bucket passes when that is full, also of what this process holds. */
  private giveBackFor(demand: Demand): void {
    const given = this.held.flatMap((held): Amount[] => {
      const { meter, spare } = held
      if (meter.kind !== 'rate' || spare <= 0 || amountOf(meter, demand) <= bucketOf(meter).most) return []
      held.spare = 0
      return [{ meter, amount: spare }]
    })
    if (given.length > 0) this.rooms.give(given)
  }

  private async askNow(isLow: boolean): Promise<void> {
    const { held: all } = this
    const wanted = this.wanted.map(({ demand }) => demand)
    const contenders = this.rooms.isShared ? allContenders(this.wanted) : []
    this.wanted = []
    const [first] = wanted
    if (first !== undefined) this.giveBackFor(first)
    const lows = Math.max(0, this.lows)
    this.lows = Math.min(0, this.lows)
    const asks = all.map(({ meter, slice, spare }): Ask => {
      const need = first === undefined ? 0 : Math.max(0, amountOf(meter, first) - spare)
      const sum = wanted.reduce((before, demand) => before + amountOf(meter, demand), 0) + this.forQueue(meter, first)
      // While requests wait here, none holds what others could have.
      const toCome = this.waiting > 0 ? 0 : slice
      return {
        ...(lows > 0 ? { lows } : {}),
        ...(first === undefined ? {} : { each: amountOf(meter, first) }),
        meter,
        need: Math.ceil(need),
        spare: Math.max(0, Math.ceil(sum + toCome - Math.max(0, spare) - need)),
      }
    })
    for (const held of all) held.asked++
    const taken = await this.rooms.take(asks, isLow, contenders).finally(() => {
      for (const held of all) held.asked--
    })
    this.named = new Set(taken.waitMs > 0 ? contenders.map(({ organization }) => organization) : [])
    if (this.waiting > 0 && first !== undefined && taken.waitMs === 0)
      this.turn = { organization: taken.organization, isLow }
    const { waits = [] } = taken
    // There is enough, but others go first.
    const isTurn = waits.every((ms) => ms === 0)
    const nowMs = performance.now()
    this.isLowDenied = isLow && taken.waitMs > 0
    // The turn of what was granted to the lower class is counted already.
    if (isLow && first !== undefined && taken.waitMs === 0) this.lows--
    all.forEach((held, i) => {
      held.left = taken.left[i] ?? held.left
      held.leftMs = nowMs
      if (taken.waitMs === 0) {
        held.spare += taken.granted[i] ?? 0
        held.canBeAsked()
        // Nothing for requests to come: they ask when they are there.
        if (first === undefined && (asks[i]?.spare ?? 0) > 0 && (taken.granted[i] ?? 0) === 0)
          held.emptyUntilMs = nowMs + 1
      } else held.denied(asks[i]?.need ?? 0, nowMs, isTurn ? taken.waitMs : (waits[i] ?? 0))
    })
  }

  /** What the requests in the queue can take until the next ask: at a high rate one ask is for many of them. */
  private forQueue(meter: Meter, first: Demand | undefined): number {
    if (first === undefined || this.waiting <= 1 || meter.kind !== 'rate') return 0
    return Math.min((this.waiting - 1) * amountOf(meter, first), Math.floor(bucketOf(meter).perMs * 2 * RETRY_MS_MIN))
  }
}

function allContenders(wanted: readonly Wanted[]): readonly Contender[] {
  const contenders = new Map<string, Contender>()
  for (const { contendersOf } of wanted) {
    if (contenders.size >= CONTENDERS_MAX) break
    for (const one of contendersOf()) contenders.getOrInsert(one.organization, one)
  }
  return [...contenders.values()].slice(0, CONTENDERS_MAX)
}

/**
 * The room of targets in one process: what it holds of each limit for requests to come, so that they need not wait for
 * the room that all processes share, and what running requests have taken of it.
 */

import { batchesOf } from '../core/batches.ts'
import type { CapacityConfig, ReportedLimit } from '../core/capacity-limits.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import { slowTicker, type Ticking } from '../core/ticker.ts'
import type { Amount, Ask, RoomReport, RoomSource, Taken } from './common-room.ts'
import { Grant, Held } from './grant.ts'
import { amountOf, bucketOf, type CapacityUnit, type Demand, type Meter, metersOfTarget, sliceOf } from './meter.ts'
import { ReportedRooms, type ReportedRoomsOwner, type ScarceRoom } from './reported-rooms.ts'
import { StandbyRoom } from './standby-room.ts'

/** How often held places are renewed, and what is left is read. */
const RENEW_MS = 5000
/** So many limits are read at once: a script of Redis delays all others. */
const LOOKS_MAX = 100
const NOTHING: Demand = { tokens: 0, microUsd: 0 }
/** An ask is tried again after others took what it was granted at most this often. */
const TRIES = 3

export class TargetRoom {
  /** Requests that wait for it in the queue. Who comes later does not pass them. */
  waiting = 0
  private asking: Promise<void> | undefined
  private isLowDenied = false
  /** Turns of the lower class that the others do not know of. */
  private lows = 0
  /** What requests need that wait for the ask in flight, or for the next one. */
  private wanted: Demand[] = []

  private held: readonly Held[] = []

  constructor(private readonly rooms: Rooms) {}

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
    for (const held of this.held) {
      held.spare -= amountOf(held.meter, demand)
      if (held.meter.kind === 'concurrency') held.running++
    }
    this.topUp()
    return new Grant(this, this.held, demand)
  }

  /** Takes room, and asks for more if this process holds too little. Undefined if there is none. */
  enter(demand: Demand, isLow: boolean): Grant | Promise<Grant | undefined> | undefined {
    const grant = this.tryEnter(demand)
    if (grant !== undefined) return grant
    return this.waitMs(demand) > 0 ? undefined : this.enterLater(demand, isLow)
  }

  /** For how long it is in vain to ask for what a request lacks. */
  waitMs(demand: Demand): number {
    return this.longest(demand, ({ emptyUntilMs }) => emptyUntilMs)
  }

  /** After how long what a request lacks comes back by itself. */
  untilFreeMs(demand: Demand): number {
    return this.longest(demand, ({ freeMs }) => freeMs)
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

  /** Asks for what a request lacks, unless that is in vain. The queue is woken by the answer. */
  askFor(demand: Demand, isLow: boolean): void {
    if (this.has(demand)) return
    // What the lower class was denied, the upper class may get, and others learn that it waits.
    if (this.waitMs(demand) <= 0 || (this.isLowDenied && !isLow)) void this.ask(demand, isLow)
  }

  /** `used`: undefined if nothing was sent. */
  end(taken: readonly Held[], demand: Demand, used: Demand | undefined): void {
    const given: Amount[] = []
    for (const held of taken) {
      const { meter, slice } = held
      if (meter.kind === 'concurrency') {
        held.running--
        held.spare++
      } else if (meter.unit !== 'requests') held.spare += amountOf(meter, demand) - amountOf(meter, used ?? NOTHING)
      else if (used === undefined) held.spare++
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

  private async enterLater(demand: Demand, isLow: boolean): Promise<Grant | undefined> {
    for (let tries = 0; tries < TRIES; tries++) {
      await this.ask(demand, isLow)
      const grant = this.tryEnter(demand)
      if (grant !== undefined || this.waitMs(demand) > 0) return grant
    }
    return undefined
  }

  /** One ask at a time: what comes meanwhile is asked for together. */
  private async ask(demand: Demand | undefined, isLow: boolean): Promise<void> {
    if (demand !== undefined) this.wanted.push(demand)
    if (this.asking !== undefined) await this.asking
    if (demand !== undefined && !this.wanted.includes(demand)) return
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
    const { wanted, held: all } = this
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
        meter,
        need: Math.ceil(need),
        spare: Math.max(0, Math.ceil(sum + toCome - Math.max(0, spare) - need)),
      }
    })
    const taken = await this.rooms.take(asks, isLow)
    const nowMs = performance.now()
    this.isLowDenied = isLow && taken.waitMs > 0
    // The turn of what was granted to the lower class is counted already.
    if (isLow && first !== undefined && taken.waitMs === 0) this.lows--
    all.forEach((held, i) => {
      held.left = taken.left[i] ?? held.left
      held.leftMs = nowMs
      if (taken.waitMs === 0) {
        held.spare += taken.granted[i] ?? 0
        held.emptyUntilMs = 0
        // Nothing for requests to come: they ask when they are there.
        if (first === undefined && (taken.granted[i] ?? 0) === 0) held.emptyUntilMs = nowMs + 1
      } else if ((asks[i]?.need ?? 0) > 0) {
        held.freeMs = nowMs + taken.waitMs
        held.emptyUntilMs = nowMs + Math.min(Math.max(taken.waitMs, RETRY_MS_MIN), RETRY_MS_MAX)
      }
    })
  }

  /** What the requests in the queue can take until the next ask: at a high rate one ask is for many of them. */
  private forQueue(meter: Meter, first: Demand | undefined): number {
    if (first === undefined || this.waiting <= 1 || meter.kind !== 'rate') return 0
    return Math.min((this.waiting - 1) * amountOf(meter, first), Math.floor(bucketOf(meter).perMs * 2 * RETRY_MS_MIN))
  }
}

/** Ten nodes that ask for what comes back next would ask all the time. */
const RETRY_MS_MIN = 20
/** Others may give room back, and limits change: nothing is held to be empty for longer. */
const RETRY_MS_MAX = 250

/** A node that knows of no fleet takes 2 % of a limit while Redis is away: no more than it may hold in advance. */
const NODES_UNKNOWN = 50

export class Rooms implements Ticking, ReportedRoomsOwner {
  place = -1
  private readonly rooms = new Map<string, TargetRoom>()
  private readonly held = new Map<string, Held>()
  private listener: RoomListener | undefined
  private renewedMs = performance.now()
  /** The configured limits of each target of the configuration. */
  private configured = new Map<string, readonly Meter[]>()
  private processes = 1
  private nodes = 1
  private readonly source: StandbyRoom
  private readonly reported: ReportedRooms

  /** `publish` takes what the other processes should know. */
  constructor(source: RoomSource, publish: (room: ScarceRoom) => void = () => {}) {
    this.source = new StandbyRoom(
      source,
      () => [...this.held.values()],
      () => this.nodes * this.processes,
    )
    this.reported = new ReportedRooms(this, publish)
  }

  /** `nodes`: how many share the limits; undefined if that is not known. */
  shareAmong(nodes: number | undefined): void {
    this.nodes = nodes ?? NODES_UNKNOWN
  }

  /**
   * Takes over the limits of a configuration with its targets; what running requests have taken stays taken.
   * `processes`: how many of this node take room.
   */
  use(config: CapacityConfig, targets: readonly TargetRef[], processes: number): void {
    const isFirst = this.rooms.size === 0
    this.processes = processes
    this.configured = new Map(targets.map((target) => [targetKey(target), metersOfTarget(target, config)]))
    this.reported.keep((target) => this.configured.has(targetKey(target)))
    const gone = new Set(this.rooms.keys())
    for (const target of targets) {
      this.equip(target)
      gone.delete(targetKey(target))
    }
    // Who waits for a target that has no limits any more goes on.
    for (const key of gone) {
      this.rooms.get(key)?.use([])
      this.rooms.delete(key)
    }
    this.forgetUnused()
    if (isFirst && this.rooms.size > 0) this.renew()
    this.changed()
  }

  /** Gives a target the room of its limits, configured and reported. */
  private equip(target: TargetRef): void {
    const key = targetKey(target)
    const configured = this.configured.get(key) ?? []
    const reported = this.reported.metersOf(target)
    const room = this.rooms.get(key) ?? new TargetRoom(this)
    room.use([
      ...configured.map((meter) => this.heldOf(meter, sliceOf(meter, this.processes))),
      ...reported.map((meter) => this.heldOf(meter, 0)),
    ])
    if (configured.length + reported.length === 0) this.rooms.delete(key)
    else this.rooms.set(key, room)
    if (this.rooms.size > 0) slowTicker.add(this)
    room.topUp()
  }

  private forgetUnused(): void {
    const used = new Set([...this.rooms.values()].flatMap((room) => room.meters))
    for (const name of this.held.keys()) if (!used.has(name)) this.held.delete(name)
  }

  limitOf({ provider, model }: TargetRef, unit: CapacityUnit): number | undefined {
    const meters = this.configured.get(targetKey({ provider, model })) ?? []
    return meters.find((meter) => meter.kind === 'rate' && meter.unit === unit)?.limit
  }

  scarceChanged(target: TargetRef): void {
    if (!this.configured.has(targetKey(target))) return
    this.equip(target)
    this.forgetUnused()
    this.changed()
  }

  /** The provider of a target has answered a call: as `ReportedRooms.hear`. */
  hear(target: TargetRef, reports: readonly ReportedLimit[], ageMs: number, isRefused: boolean): boolean {
    return this.reported.hear(target, reports, ageMs, isRefused)
  }

  /** Another process has heard that a limit is scarce. */
  receive(room: ScarceRoom): void {
    if (this.configured.has(targetKey(room))) this.reported.receive(room)
  }

  report(reports: readonly RoomReport[]): void {
    this.source.report(reports)
  }

  /** Undefined for a target without limits. */
  of(target: TargetRef): TargetRoom | undefined {
    return this.rooms.size === 0 ? undefined : this.rooms.get(targetKey(target))
  }

  listen(listener: RoomListener): void {
    this.listener = listener
  }

  changed(): void {
    this.listener?.roomChanged()
  }

  give(amounts: readonly Amount[]): void {
    this.source.give(amounts)
  }

  /** Other processes take room, too. */
  get isShared(): boolean {
    return this.nodes * this.processes > 1 && !this.source.isAlone
  }

  take(asks: readonly Ask[], isLow: boolean): Promise<Taken> {
    return this.source.take(asks, isLow)
  }

  /** What was left of each limit, from 0 to 1, within the last few seconds; by the name of the meter. */
  left(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.held.values()].map(({ meter, left }) => [meter.name, left]))
  }

  tick(nowMs: number): void {
    this.reported.tick(nowMs)
    if (this.rooms.size === 0) slowTicker.remove(this)
    if (nowMs - this.renewedMs < RENEW_MS) return
    this.renew()
    void this.look(nowMs)
  }

  /** Reads what is left of limits that this process has not asked for lately: others take room of them, too. */
  private async look(sinceMs: number): Promise<void> {
    const old = [...this.held.values()].filter(({ leftMs }) => sinceMs - leftMs >= RENEW_MS)
    for (const some of batchesOf(old, LOOKS_MAX)) {
      const left = await this.source.left(some.map(({ meter }) => meter))
      const nowMs = performance.now()
      some.forEach((held, i) => {
        held.left = left[i] ?? held.left
        held.leftMs = nowMs
      })
    }
  }

  private renew(): void {
    this.renewedMs = performance.now()
    const held = [...this.held.values()].filter(({ meter }) => meter.kind === 'concurrency')
    if (held.length > 0) this.source.renew(held.map(({ meter, places }) => ({ meter, amount: places })))
  }

  /** The process ends: gives back what it holds for requests to come. */
  close(): void {
    slowTicker.remove(this)
    const given = [...this.held.values()].flatMap((held): Amount[] => {
      const amount = Math.max(0, held.spare)
      held.spare -= amount
      return amount === 0 ? [] : [{ meter: held.meter, amount }]
    })
    if (given.length > 0) this.give(given)
  }

  private heldOf(meter: Meter, slice: number): Held {
    const known = this.held.get(meter.name)
    if (known !== undefined) {
      known.meter = meter
      known.slice = slice
      // What was held in advance of a larger limit.
      const surplus = known.spare - Math.max(1, slice)
      if (surplus > 0) {
        known.spare -= surplus
        this.give([{ meter, amount: surplus }])
      }
      return known
    }
    const held = new Held(meter, slice)
    this.held.set(meter.name, held)
    return held
  }
}

/** Hears that there may be room again. */
export interface RoomListener {
  roomChanged(): void
}

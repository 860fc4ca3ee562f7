/**
 * The room of targets in one process: what it holds of each limit for requests to come, so that they need not wait for
 * the room that all processes share, and what running requests have taken of it.
 */

import { batchesOf } from '../core/batches.ts'
import type { CapacityConfig, ReportedLimit } from '../core/capacity-limits.ts'
import { type TargetRef, targetKey } from '../core/model-config.ts'
import { slowTicker, type Ticking } from '../core/ticker.ts'
import type { Amount, Ask, RoomReport, RoomSource, Taken } from './common-room.ts'
import { Held } from './grant.ts'
import { type CapacityUnit, type Meter, metersOfTarget, sliceOf } from './meter.ts'
import type { Contender } from './organization-turns.ts'
import { ReportedRooms, type ReportedRoomsOwner, type ScarceRoom } from './reported-rooms.ts'
import { NODES_UNKNOWN, StandbyRoom } from './standby-room.ts'
import { type SharedRoom, TargetRoom } from './target-room.ts'

/** How often held places are renewed, and what is left is read. */
const RENEW_MS = 5000
/** So many limits are read at once: a script of Redis delays all others. */
const LOOKS_MAX = 100

export class Rooms implements Ticking, ReportedRoomsOwner, SharedRoom {
  place = -1
  private readonly rooms = new Map<string, TargetRoom>()
  private readonly held = new Map<string, Held>()
  private onChange: (() => void) | undefined
  private renewedMs = performance.now()
  /** Whose places are to be renewed. */
  private due: readonly Held[] = []
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
      () => ({ nodes: this.nodes, processes: this.processes }),
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
    if (isFirst && this.rooms.size > 0) this.renewAll(performance.now())
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

  /** `changed` is called when there may be room again. */
  listen(changed: () => void): void {
    this.onChange = changed
  }

  changed(): void {
    this.onChange?.()
  }

  give(amounts: readonly Amount[]): void {
    this.source.give(amounts)
  }

  /** Other processes take room, too. */
  get isShared(): boolean {
    return this.nodes * this.processes > 1 && !this.source.isAlone
  }

  take(asks: readonly Ask[], isLow: boolean, contenders: readonly Contender[]): Promise<Taken> {
    return this.source.take(asks, isLow, contenders)
  }

  /** What was left of each limit, from 0 to 1, within the last few seconds; by the name of the meter. */
  left(): Readonly<Record<string, number>> {
    return Object.fromEntries([...this.held.values()].map(({ meter, left }) => [meter.name, left]))
  }

  tick(nowMs: number): void {
    this.reported.tick(nowMs)
    if (this.rooms.size === 0) slowTicker.remove(this)
    if (this.due.length > 0) this.renewDue()
    if (nowMs - this.renewedMs < RENEW_MS) return
    this.renewAll(nowMs)
    void this.look(nowMs)
  }

  /** Reads what is left of limits that this process has not asked for lately: others take room of them, too. */
  private async look(sinceMs: number): Promise<void> {
    const old = [...this.held.values()].filter(({ leftMs }) => sinceMs - leftMs >= RENEW_MS)
    for (const some of batchesOf(old, LOOKS_MAX)) {
      const left = await this.source.left(some.map(({ meter }) => meter))
      const nowMs = performance.now()
      some.forEach((held, i) => {
        const found = left[i]
        if (found === undefined) return
        held.left = found
        held.leftMs = nowMs
      })
    }
  }

  private renewAll(nowMs: number): void {
    this.renewedMs = nowMs
    this.due = [...this.held.values()].filter(({ meter }) => meter.kind === 'concurrency')
    this.renewDue()
  }

  /** What an ask in flight is granted must not be taken back: later, then. The ask renews, too. */
  private renewDue(): void {
    const { due } = this
    this.due = due.filter(({ asked }) => asked > 0)
    const free = due.filter(({ asked }) => asked === 0)
    if (free.length > 0) this.source.renew(free.map(({ meter, places }) => ({ meter, amount: places })))
  }

  /** The process ends: gives back what it holds for requests to come, or takes what it has used beyond that. */
  close(): void {
    slowTicker.remove(this)
    const given = [...this.held.values()].flatMap((held): Amount[] => {
      const amount = held.meter.kind === 'concurrency' ? Math.max(0, held.spare) : held.spare
      held.spare -= amount
      return amount === 0 ? [] : [{ meter: held.meter, amount }]
    })
    if (given.length > 0) this.give(given)
  }

  private heldOf(meter: Meter, slice: number): Held {
    const known = this.held.get(meter.name)
    if (known !== undefined) {
      if (known.meter.limit !== meter.limit) known.canBeAsked()
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

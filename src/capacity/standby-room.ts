/**
 * The common room, and what a process does while that cannot be reached: it keeps to its part of the limits by itself,
 * and what it spent meanwhile is counted afterwards. Only the first request finds out that the room is away.
 */

import { type Amount, type Ask, CommonRoom, type RoomReport, type RoomSource, type Taken } from './common-room.ts'
import { bucketOf, isMoney, type Meter } from './meter.ts'
import type { Contender } from './organization-turns.ts'

/** How often it looks whether the common room is back. */
const LOOK_MS = 1000
const HOLDER = ''

/** What the process holds of a meter, and what it last knew to be left of it, from 0 to 1; `leftMs`: 0 if nothing. */
interface HeldNow {
  readonly meter: Meter
  readonly places: number
  readonly left: number
  readonly leftMs: number
}

/**
 * A node that knows of no fleet takes 2 % of a limit while Redis is away: no more than it may hold in advance. The same
 * of money of which it does not know what is left: others may have spent it.
 */
export const NODES_UNKNOWN = 50

interface Standby {
  /** What was left of money when the room was lost, by meter. */
  readonly lefts: Map<string, number>
  /** Money that was spent here, by meter. */
  readonly spent: Map<string, { readonly meter: Meter; readonly amount: number }>
  lookedMs: number
}

export class StandbyRoom implements RoomSource {
  private standby: Standby | undefined
  /** For good: who loses the common room again and again keeps to its part all together. */
  private readonly room = new CommonRoom()

  constructor(
    private readonly source: RoomSource,
    private readonly held: () => readonly HeldNow[],
    /** The limits are divided meanwhile among so many nodes, and the processes of this one. */
    private readonly sharers: () => { readonly nodes: number; readonly processes: number },
  ) {}

  /** While the room cannot be reached, each process is alone. */
  get isAlone(): boolean {
    return this.standby !== undefined
  }

  async take(asks: readonly Ask[], isLow: boolean, contenders: readonly Contender[] = []): Promise<Taken> {
    const { standby } = this
    if (standby === undefined) {
      try {
        return await this.source.take(asks, isLow, contenders)
      } catch {
        // Redis is away: the ledger reports that.
        this.standby ??= this.standIn()
        return this.takeHere(this.standby, asks, isLow)
      }
    }
    const nowMs = performance.now()
    if (nowMs - standby.lookedMs >= LOOK_MS) {
      standby.lookedMs = nowMs
      void this.look()
    }
    return this.takeHere(standby, asks, isLow)
  }

  /** What is left of meters, in their order. Empty if the room does not answer: a request that needs it finds out. */
  async left(meters: readonly Meter[]): Promise<readonly number[]> {
    const asks = meters.map((meter) => ({ meter, need: 0, spare: 0 }))
    if (this.standby !== undefined) return this.takeHere(this.standby, asks, false).left
    try {
      return (await this.source.take(asks, false)).left
    } catch {
      return []
    }
  }

  give(amounts: readonly Amount[]): void {
    const { standby } = this
    if (standby === undefined) return this.source.give(amounts)
    this.room.give(this.partsOf(standby, amounts), HOLDER)
    for (const { meter, amount } of amounts) spend(standby, meter, -amount)
  }

  renew(held: readonly Amount[]): void {
    const { standby } = this
    if (standby === undefined) return this.source.renew(held)
    this.room.renew(this.partsOf(standby, held), HOLDER)
    void this.look()
  }

  report(reports: readonly RoomReport[]): void {
    const { standby } = this
    if (standby === undefined) return this.source.report(reports)
    const parts = this.parts
    this.room.report(this.partsOf(standby, reports).map((one) => ({ ...one, level: one.level / parts })))
  }

  private standIn(): Standby {
    const standby = { lefts: new Map(), spent: new Map(), lookedMs: performance.now() }
    for (const { meter, left, leftMs, places } of this.held()) {
      if (isMoney(meter)) {
        standby.lefts.set(meter.name, meter.limit * (leftMs === 0 ? this.sharers().nodes / NODES_UNKNOWN : left))
        // What was spent meanwhile the last time has been counted since.
        this.room.give([{ meter, amount: Number.MAX_VALUE }], HOLDER)
      }
      if (meter.kind === 'concurrency') this.room.renew([{ meter, amount: places }], HOLDER)
      const part = this.partOf(standby, meter)
      const level = bucketOf(part).most * left
      if (meter.kind === 'rate') this.room.report([{ meter: part, level, closedMs: 0, isRefusal: false }])
    }
    return standby
  }

  private async look(): Promise<void> {
    const { standby } = this
    try {
      await this.source.take([], false)
    } catch {
      return
    }
    if (standby === undefined || this.standby !== standby) return
    this.standby = undefined
    const spent = [...standby.spent.values()].filter(({ amount }) => amount !== 0)
    if (spent.length > 0) this.source.give(spent.map(({ meter, amount }) => ({ meter, amount: -amount })))
    const places = this.held().filter(({ meter }) => meter.kind === 'concurrency')
    this.source.renew(places.map(({ meter, places: amount }) => ({ meter, amount })))
  }

  private takeHere(standby: Standby, asks: readonly Ask[], isLow: boolean): Taken {
    const taken = this.room.take(this.partsOf(standby, asks), isLow, HOLDER)
    for (const [i, { meter }] of asks.entries()) spend(standby, meter, taken.granted[i] ?? 0)
    return { ...taken, left: asks.map(({ meter }, i) => leftOf(standby, meter) ?? taken.left[i] ?? 0) }
  }

  private get parts(): number {
    const { nodes, processes } = this.sharers()
    return nodes * processes
  }

  private partsOf<One extends { readonly meter: Meter }>(standby: Standby, all: readonly One[]): readonly One[] {
    return all.map((one) => ({ ...one, meter: this.partOf(standby, one.meter) }))
  }

  /** A meter with the limit of one of the processes; of money, with what was left when the room was lost. */
  private partOf({ lefts }: Standby, meter: Meter): Meter {
    const limit = (lefts.get(meter.name) ?? meter.limit) / this.parts
    if (meter.kind === 'rate') return { ...meter, limit }
    return { ...meter, limit: isMoney(meter) ? Math.floor(limit) : Math.max(1, Math.floor(limit)) }
  }
}

/** Of money, what is left of the whole limit as far as it is known here: the part here is no measure for it. */
function leftOf({ lefts, spent }: Standby, meter: Meter): number | undefined {
  const left = lefts.get(meter.name)
  return left && Math.max(0, left - (spent.get(meter.name)?.amount ?? 0)) / meter.limit
}

function spend({ spent }: Standby, meter: Meter, amount: number): void {
  if (isMoney(meter)) spent.set(meter.name, { meter, amount: (spent.get(meter.name)?.amount ?? 0) + amount })
}

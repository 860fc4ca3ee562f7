/**
 * What is left of the limits of providers and targets, for all who share it: the processes of a node without Redis, or
 * one process alone. `take.lua` is the same in Redis.
 */

import { isObject, type JsonObject, numberOf } from '../core/json.ts'
import { bucketOf, type Meter } from './meter.ts'

/** A process asks for room of one meter. */
export interface Ask {
  readonly meter: Meter
  /** For requests that wait: all of it, or nothing. */
  readonly need: number
  /** For requests to come: as much of it as is free. */
  readonly spare: number
}

/** What each ask is granted, in their order; or after how long it is worth asking again. */
export interface Taken {
  /** 0: granted. */
  readonly waitMs: number
  readonly granted: readonly number[]
  /** What is left of each, from 0 to 1. */
  readonly left: readonly number[]
}

/** What is held of a meter, or given back. */
export interface Amount {
  readonly meter: Meter
  readonly amount: number
}

/** What a provider has shown of a rate that others use, too. */
export interface RoomReport {
  readonly meter: Meter
  /** No more is left of it than this; below 0: it must come back first. */
  readonly level: number
  /** For so long nothing comes back. */
  readonly closedMs: number
  /** It answered 429 and did not report what is left: less of the limit comes back from now on. */
  readonly isRefusal: boolean
}

/** Where processes take room. Nothing throws but `take`, which rejects while the room cannot be reached. */
export interface RoomSource {
  /** `isLow`: for requests of the lower class, which get only every tenth turn while others wait. */
  take(asks: readonly Ask[], isLow: boolean): Promise<Taken>
  give(amounts: readonly Amount[]): void
  /** Places of concurrency that this process still holds; without a sign of it they are free after 20 s. */
  renew(held: readonly Amount[]): void
  report(reports: readonly RoomReport[]): void
  /** How many processes take room there, as far as it is known. */
  readonly processes: number
}

/** How long a process holds its places without a sign. */
const HELD_MS = 20_000
/** A denied ask comes again within this time, as long as its request waits. */
const WAITING_MS = 300
/** A concurrency limit frees places at no known time. */
const LOOK_MS = 25
/** Of the turns while others wait, the lower class gets one of so many. */
const LOW_TURNS = 10
/**
 * After a 429 that does not report what is left, this much of what came back until then comes back from now on; at most
 * once in `REFUSED_MS`, because requests that were sent together are refused together. It grows by `REGROWTH` of the
 * limit a millisecond: from one 429 to the next, at half of the limit, are 40 s.
 */
const REFUSED_SHARE = 0.85
const REFUSED_MS = 2000
const SHARE_MIN = 0.05
const REGROWTH = 0.000_002

interface State {
  level: number
  atMs: number
  /** The part of the limit that comes back, at `atMs`. */
  share: number
  /** Until then nothing comes back. */
  closedMs: number
  refusedMs: number
  window: number
  used: number
  readonly holders: Map<string, { amount: number; untilMs: number }>
  /** Until when requests wait for it, and requests of the upper class. */
  waitingMs: number
  urgentMs: number
  /** Of the upper class while it waits, since the last one of the lower class. */
  turns: number
}

export class CommonRoom {
  private readonly states = new Map<string, State>()

  constructor(private readonly now: () => number = Date.now) {}

  take(asks: readonly Ask[], isLow: boolean, holder: string): Taken {
    const nowMs = this.now()
    const states = asks.map(({ meter }) => this.stateOf(meter, nowMs))
    let waitMs = 0
    asks.forEach((ask, i) => {
      const state = states[i]
      if (state !== undefined && ask.need > 0) waitMs = Math.max(waitMs, waitFor(ask, state, nowMs))
    })
    const urgent = states.filter(({ urgentMs }) => nowMs < urgentMs)
    if (waitMs === 0 && isLow && urgent.some(({ turns }) => turns < LOW_TURNS - 1)) waitMs = LOOK_MS
    if (waitMs > 0) {
      for (const state of states) {
        state.waitingMs = nowMs + WAITING_MS
        if (!isLow) state.urgentMs = nowMs + WAITING_MS
      }
      return { waitMs, granted: [], left: asks.map(({ meter }, i) => leftOf(meter, states[i])) }
    }
    for (const state of urgent) state.turns = isLow ? 0 : state.turns + 1
    const granted = asks.map((ask, i) => grant(ask, states[i], holder, nowMs))
    return { waitMs, granted, left: asks.map(({ meter }, i) => leftOf(meter, states[i])) }
  }

  give(amounts: readonly Amount[], holder: string): void {
    const nowMs = this.now()
    for (const { meter, amount } of amounts) {
      const state = this.stateOf(meter, nowMs)
      if (meter.kind === 'rate') state.level = Math.min(bucketOf(meter).most, state.level + amount)
      else if (meter.kind === 'concurrency') hold(state, holder, -amount, nowMs)
      else state.used = Math.max(0, state.used - amount)
    }
  }

  renew(held: readonly Amount[], holder: string): void {
    const nowMs = this.now()
    for (const { meter, amount } of held) {
      const state = this.stateOf(meter, nowMs)
      state.holders.delete(holder)
      hold(state, holder, amount, nowMs)
    }
  }

  /** What a provider has shown. */
  report(reports: readonly RoomReport[]): void {
    const nowMs = this.now()
    for (const { meter, level, closedMs, isRefusal } of reports) {
      const state = this.stateOf(meter, nowMs)
      state.level = Math.min(state.level, level)
      state.closedMs = Math.max(state.closedMs, nowMs + closedMs)
      if (!isRefusal || nowMs < state.refusedMs + REFUSED_MS) continue
      state.refusedMs = nowMs
      state.share = Math.max(SHARE_MIN, state.share * REFUSED_SHARE)
    }
  }

  /** A process is gone, and all that it held. */
  free(holder: string): void {
    for (const { holders } of this.states.values()) holders.delete(holder)
  }

  /** What was spent, by the name of the meter. */
  spent(): JsonObject {
    const spent = [...this.states].filter(([, { used }]) => used > 0)
    return Object.fromEntries(spent.map(([name, { window, used }]) => [name, { window, used }]))
  }

  /** Takes over what `spent` returned earlier. */
  restore(spent: JsonObject | undefined): void {
    for (const [name, value] of Object.entries(spent ?? {})) {
      if (!isObject(value)) continue
      const [window, used] = [numberOf(value['window']), numberOf(value['used'])]
      if (window !== undefined && used !== undefined) this.states.set(name, { ...newState(0, 0), window, used })
    }
  }

  private stateOf(meter: Meter, nowMs: number): State {
    let state = this.states.get(meter.name)
    if (state === undefined) {
      state = newState(bucketOf(meter).most, nowMs)
      this.states.set(meter.name, state)
    }
    if (meter.kind === 'rate') {
      const { most, perMs } = bucketOf(meter)
      const sinceMs = Math.max(0, nowMs - Math.max(state.atMs, state.closedMs))
      state.level = Math.min(most, state.level + sinceMs * perMs * state.share)
      state.share = Math.min(1, state.share + Math.max(0, nowMs - state.atMs) * REGROWTH)
      state.atMs = Math.max(state.atMs, nowMs)
    } else if (meter.kind === 'concurrency') {
      for (const [holder, { untilMs }] of state.holders) if (untilMs <= nowMs) state.holders.delete(holder)
    } else {
      const window = windowStart(meter.kind, nowMs)
      if (window > state.window) {
        state.window = window
        state.used = 0
      }
    }
    return state
  }
}

function newState(level: number, atMs: number): State {
  const rate = { level, atMs, share: 1, closedMs: 0, refusedMs: Number.NEGATIVE_INFINITY }
  return { ...rate, window: 0, used: 0, holders: new Map(), waitingMs: 0, urgentMs: 0, turns: 0 }
}

/** 0 if there is room. */
function waitFor({ meter, need }: Ask, state: State, nowMs: number): number {
  if (meter.kind === 'rate') {
    const { most, perMs } = bucketOf(meter)
    // What is larger than the bucket passes when that is full, and what follows waits until it is paid back.
    const wanted = Math.min(need, most)
    if (state.level + 1e-6 >= wanted) return 0
    return Math.max(1, Math.ceil(Math.max(0, state.closedMs - nowMs) + (wanted - state.level) / (perMs * state.share)))
  }
  if (meter.kind === 'concurrency') return heldOf(state) + need <= meter.limit ? 0 : LOOK_MS
  return state.used + need <= meter.limit ? 0 : Math.max(1, windowEnd(meter.kind, nowMs) - nowMs)
}

function grant({ meter, need, spare }: Ask, state: State | undefined, holder: string, nowMs: number): number {
  if (state === undefined) return 0
  const free =
    meter.kind === 'rate'
      ? state.level - need
      : meter.limit - need - (meter.kind === 'concurrency' ? heldOf(state) : state.used)
  // Requests that wait elsewhere come before those that may come here.
  const more = nowMs < state.waitingMs && need === 0 ? 0 : Math.max(0, Math.min(spare, Math.floor(free)))
  const amount = need + more
  if (meter.kind === 'rate') state.level -= amount
  else if (meter.kind === 'concurrency') hold(state, holder, amount, nowMs)
  else state.used += amount
  return amount
}

function leftOf(meter: Meter, state: State | undefined): number {
  if (state === undefined) return 1
  if (meter.kind === 'rate') return Math.max(0, state.level / bucketOf(meter).most)
  return Math.max(0, 1 - (meter.kind === 'concurrency' ? heldOf(state) : state.used) / meter.limit)
}

function heldOf({ holders }: State): number {
  let sum = 0
  for (const { amount } of holders.values()) sum += amount
  return sum
}

function hold({ holders }: State, holder: string, amount: number, nowMs: number): void {
  const left = (holders.get(holder)?.amount ?? 0) + amount
  if (left <= 0) holders.delete(holder)
  else holders.set(holder, { amount: left, untilMs: nowMs + HELD_MS })
}

function windowStart(kind: Meter['kind'], ms: number): number {
  const date = new Date(ms)
  if (kind === 'day') return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate())
  return kind === 'month' ? Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 1) : 1
}

function windowEnd(kind: Meter['kind'], ms: number): number {
  const date = new Date(ms)
  if (kind === 'day') return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate() + 1)
  return kind === 'month' ? Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1) : Number.MAX_SAFE_INTEGER
}

/** Room within this process. */
export class OwnRoom implements RoomSource {
  readonly processes = 1
  private readonly room = new CommonRoom()

  take(asks: readonly Ask[], isLow: boolean): Promise<Taken> {
    return Promise.resolve(this.room.take(asks, isLow, ''))
  }

  give(amounts: readonly Amount[]): void {
    this.room.give(amounts, '')
  }

  renew(held: readonly Amount[]): void {
    this.room.renew(held, '')
  }

  report(reports: readonly RoomReport[]): void {
    this.room.report(reports)
  }
}

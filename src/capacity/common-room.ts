/**
 * What is left of the limits of providers and targets, for all who share it: the processes of a node without Redis, or
 * one process alone. `take-room.lua` is the same in Redis.
 */

import { windowAt } from '../core/calendar.ts'
import { isObject, type JsonObject, numberOf } from '../core/json.ts'
import { bucketOf, type Meter } from './meter.ts'
import { type Contender, OrganizationTurns } from './organization-turns.ts'

/** A process asks for room of one meter. */
export interface Ask {
  readonly meter: Meter
  /** For requests that wait: all of it, or nothing. */
  readonly need: number
  /** For requests to come: as much of it as is free. */
  readonly spare: number
  /** What one request takes: more than that is more than one turn. */
  readonly each?: number
  /** Turns that the lower class has had at this process while the upper one waited, since it last asked. */
  readonly lows?: number
}

/** What each ask is granted, in their order; or after how long it is worth asking again. */
export interface Taken {
  /** 0: granted. */
  readonly waitMs: number
  /** If nothing was granted: after how long each has what is needed, by itself. Absent from an earlier supervisor. */
  readonly waits?: readonly number[]
  /** Whose turn it was, if organisations were given. */
  readonly organization?: string | undefined
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
  /**
   * `isLow`: for requests of the lower class, which get only every tenth turn while others wait. `contenders`: of
   * which organisations, at most `CONTENDERS_MAX`; without any, the ask waits for no other's turn.
   */
  take(asks: readonly Ask[], isLow: boolean, contenders?: readonly Contender[]): Promise<Taken>
  give(amounts: readonly Amount[]): void
  /** Places of concurrency that this process still holds; without a sign of it they are free after 20 s. */
  renew(held: readonly Amount[]): void
  report(reports: readonly RoomReport[]): void
}

/** How long a process holds its places without a sign. */
const HELD_MS = 20_000
/** A denied ask comes again within this time, as long as its request waits. */
const WAITING_MS = 300
/** A concurrency limit frees places at no known time. */
const LOOK_MS = 25
/** Of the turns while others wait, the lower class gets one of so many. */
const LOW_TURNS = 10
/** So many turns of the lower class may have come too early: then it waits until all are made up for. */
const EARLY_MAX = 3
/**
 * After a 429 that does not report what is left, this much of what came back until then comes back from now on; at most
 * once in `REFUSED_MS`, because requests that were sent together are refused together. It grows by `REGROWTH` of the
 * limit a millisecond, and near the share at which it was refused by a tenth of that: most of the time it is just below
 * what the provider takes. One that follows at a lower share shows that even that was too much. `BURST_SHARE`: while
 * less comes back, no more of the limit gathers for a burst.
 */
const REFUSED_SHARE = 0.8
const REFUSED_MS = 2000
const SHARE_MIN = 0.05
const REGROWTH = 0.000_003
const NEAR_REGROWTH = 0.000_000_4
const NEAR = 0.03
const BURST_SHARE = 0.01

interface State {
  level: number
  atMs: number
  /** The part of the limit that comes back, at `atMs`. */
  share: number
  /** What the share was at the last 429. */
  refusedShare: number
  /** Until then nothing comes back. */
  closedMs: number
  refusedMs: number
  window: number
  used: number
  readonly holders: Map<string, { amount: number; untilMs: number }>
  /** Until when requests wait for it, and requests of the upper class. */
  waitingMs: number
  urgentMs: number
  /** Of the upper class while it waits, less those that the lower class has had for them. */
  turns: number
  /** The turns of organisations, by class. */
  readonly had: { readonly upper: OrganizationTurns; readonly lower: OrganizationTurns }
}

export class CommonRoom {
  private readonly states = new Map<string, State>()

  constructor(private readonly now: () => number = () => Date.now()) {}

  take(asks: readonly Ask[], isLow: boolean, holder: string, contenders: readonly Contender[] = []): Taken {
    const nowMs = this.now()
    const states = asks.map(({ meter }) => this.stateOf(meter, nowMs))
    const needed = asks.flatMap((ask, i): Needed[] => {
      const state = states[i]
      if (state === undefined || ask.need <= 0) return []
      return [{ ask, at: i, turns: state.had[isLow ? 'lower' : 'upper'], waitMs: waitFor(ask, state, nowMs) }]
    })
    let waitMs = Math.max(0, ...needed.map((one) => one.waitMs))
    const queued = queueOf(needed, holder, contenders, nowMs)
    const next = queued?.turns.next(queued.ask.meter, contenders, holder, nowMs)
    const urgent = states.filter(({ urgentMs }) => nowMs < urgentMs)
    for (const [i, { lows = 0 }] of asks.entries()) {
      const state = states[i]
      if (state !== undefined) state.turns = Math.max(-EARLY_MAX * LOW_TURNS, state.turns - lows * LOW_TURNS)
    }
    if (waitMs === 0 && isLow && urgent.some(({ turns }) => turns < LOW_TURNS - 1)) waitMs = LOOK_MS
    if (waitMs === 0 && next?.letsPass === true) waitMs = LOOK_MS
    if (waitMs > 0) {
      for (const state of states) {
        if (state.holders.has(holder)) hold(state, holder, 0, nowMs)
        state.waitingMs = nowMs + WAITING_MS
        if (isLow) continue
        if (nowMs >= state.urgentMs) state.turns = 0
        state.urgentMs = nowMs + WAITING_MS
      }
      if (next !== undefined) queued?.turns.wait(next)
      const waits = asks.map((ask, i) => (ask.need > 0 ? waitFor(ask, states[i], nowMs) : 0))
      return { waitMs, waits, granted: [], left: asks.map(({ meter }, i) => leftOf(meter, states[i])) }
    }
    // What is for requests to come is no turn.
    for (const state of queued === undefined ? [] : urgent)
      state.turns = isLow ? state.turns - (LOW_TURNS - 1) : Math.min(LOW_TURNS - 1, state.turns + 1)
    const granted = asks.map((ask, i) => grant(ask, states[i], holder, nowMs))
    const left = asks.map(({ meter }, i) => leftOf(meter, states[i]))
    if (queued === undefined || next === undefined) return { waitMs, granted, left }
    const { each = 0 } = queued.ask
    queued.turns.moveOn(next, each > 0 ? Math.max(1, (granted[queued.at] ?? 0) / each) : 1)
    return { waitMs, organization: next.organization, granted, left }
  }

  give(amounts: readonly Amount[], holder: string): void {
    const nowMs = this.now()
    for (const { meter, amount } of amounts) {
      const state = this.stateOf(meter, nowMs)
      if (meter.kind === 'rate') state.level = Math.min(mostOf(meter, state), state.level + amount)
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
      const isLess = state.share < state.refusedShare
      state.refusedShare = state.share * (isLess ? (1 + REFUSED_SHARE) / 2 : 1)
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
  restore(spent: JsonObject): void {
    for (const [name, value] of Object.entries(spent)) {
      if (!isObject(value)) continue
      const [window, used] = [numberOf(value['window']), numberOf(value['used'])]
      if (window !== undefined && used !== undefined) this.states.set(name, { ...newState(0, 0), window, used })
    }
  }

  private stateOf(meter: Meter, nowMs: number): State {
    const state = this.states.getOrInsertComputed(meter.name, () => newState(bucketOf(meter).most, nowMs))
    if (meter.kind === 'rate') {
      const { perMs } = bucketOf(meter)
      const sinceMs = Math.max(0, nowMs - Math.max(state.atMs, state.closedMs))
      state.level = Math.min(mostOf(meter, state), state.level + sinceMs * perMs * state.share)
      if (state.share < 1) state.share = grown(state, Math.max(0, nowMs - state.atMs))
      state.atMs = Math.max(state.atMs, nowMs)
    } else if (meter.kind === 'concurrency') {
      for (const [holder, { untilMs }] of state.holders) if (untilMs <= nowMs) state.holders.delete(holder)
    } else {
      const { start } = periodOf(meter.kind, nowMs)
      if (start > state.window) {
        state.window = start
        state.used = 0
      }
    }
    return state
  }
}

/** The share after `ms`: fast up to what was refused, slowly past it, then fast again. */
function grown({ share, refusedShare }: State, ms: number): number {
  const [low, high] = [refusedShare * (1 - NEAR), refusedShare * (1 + NEAR)]
  const toLow = Math.min(ms, Math.max(0, low - share) / REGROWTH)
  const near = share + toLow * REGROWTH
  const toHigh = Math.min(ms - toLow, Math.max(0, high - near) / NEAR_REGROWTH)
  return Math.min(1, near + toHigh * NEAR_REGROWTH + (ms - toLow - toHigh) * REGROWTH)
}

function newState(level: number, atMs: number): State {
  const rate = { level, atMs, share: 1, refusedShare: 0, closedMs: 0, refusedMs: Number.NEGATIVE_INFINITY }
  const had = { upper: new OrganizationTurns(), lower: new OrganizationTurns() }
  return { ...rate, window: 0, used: 0, holders: new Map(), waitingMs: 0, urgentMs: 0, turns: 0, had }
}

/** A meter of which a process needs something. */
interface Needed {
  readonly ask: Ask
  /** Which of the asks it is. */
  readonly at: number
  readonly turns: OrganizationTurns
  readonly waitMs: number
}

/**
 * A process waits in turn for one meter alone: if it were second in two orders, the first of each could wait for the
 * other. That is the one for which it waits already, or else the one that lacks the most.
 */
function queueOf(
  needed: readonly Needed[],
  holder: string,
  contenders: readonly Contender[],
  nowMs: number,
): Needed | undefined {
  const known = needed.find((one) => one.turns.isWaiting(contenders, holder, nowMs))
  return known ?? needed.toSorted((one, other) => other.waitMs - one.waitMs)[0]
}

/** A provider that is known by its 429s alone may have no bucket: nothing gathers for a burst after a rest. */
function mostOf(meter: Meter, { share }: State): number {
  return share < 1 ? Math.max(1, meter.limit * BURST_SHARE) : bucketOf(meter).most
}

/** 0 if there is room. */
function waitFor({ meter, need }: Ask, state: State | undefined, nowMs: number): number {
  if (state === undefined) return 0
  if (meter.kind === 'rate') {
    const [most, { perMs }] = [mostOf(meter, state), bucketOf(meter)]
    // What is larger than the bucket passes when that is full, and what follows waits until it is paid back.
    const wanted = Math.min(need, most)
    if (state.level + 1e-6 >= wanted) return 0
    return Math.max(1, Math.ceil(Math.max(0, state.closedMs - nowMs) + (wanted - state.level) / (perMs * state.share)))
  }
  if (meter.kind === 'concurrency') return heldOf(state) + need <= meter.limit ? 0 : LOOK_MS
  return state.used + need <= meter.limit ? 0 : Math.max(1, periodOf(meter.kind, nowMs).end - nowMs)
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
  if (meter.kind === 'rate') return Math.max(0, state.level / mostOf(meter, state))
  if (meter.limit <= 0) return 0
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

/** The window of money that a time lies in. */
function periodOf(kind: Meter['kind'], ms: number): { readonly start: number; readonly end: number } {
  return kind === 'day' || kind === 'month' ? windowAt('UTC', kind, ms) : { start: 1, end: Number.MAX_SAFE_INTEGER }
}

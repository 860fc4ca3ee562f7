/**
 * A fleet in virtual time: nodes with their rooms, queues and circuit breakers, what they share, and
 * providers whose quotas others use as well. A minute takes less than a second, and is the same each time.
 */

import { CommonRoom, type RoomSource } from '../../src/capacity/common-room.ts'
import { Rooms } from '../../src/capacity/rooms.ts'
import { WaitQueue } from '../../src/capacity/wait-queue.ts'
import type { Catalog, Key } from '../../src/catalog/catalog.ts'
import type { Candidate } from '../../src/catalog/resolve.ts'
import type { CapacityConfig, ReportedLimit } from '../../src/core/capacity-limits.ts'
import { Later } from '../../src/core/later.ts'
import { type TargetRef, targetKey } from '../../src/core/model-config.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import type { Attempt } from '../../src/gateway/attempt.ts'
import { Breaker, PROBE_MS } from '../../src/gateway/breaker.ts'
import { CandidateTurns } from '../../src/gateway/candidate-turns.ts'
import { type Capacity, RequestRoom } from '../../src/gateway/request-room.ts'
import type { Random } from '../support/random.ts'

const QUOTE = { model: 'm', inputTokens: 100, maxOutputTokens: 100, price: undefined, atOnce: true }
const USED = { tokens: 150, microUsd: 0 }
/** One way between a node and Redis, and a node and a provider. */
const REDIS_MS = 0.5
const NETWORK_MS = 8
/** How often a node looks what others have found out. */
const NEWS_MS = 400
/** Promises that a step of a request awaits in turn, at most. */
const STEPS = 24
const ATTEMPTS_MAX = 3

export class VirtualTime {
  nowMs = 1_200_000
  private readonly events: { readonly ms: number; readonly number: number; readonly run: () => void }[] = []
  private count = 0

  after(ms: number, run: () => void): void {
    const event = { ms: this.nowMs + ms, number: this.count++, run }
    let at = this.events.push(event) - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      const above = this.events[parent]
      if (above === undefined || !isBefore(event, above)) break
      this.events[at] = above
      at = parent
    }
    this.events[at] = event
  }

  async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => this.after(ms, resolve))
  }

  /** Without an end, for what repeats. */
  every(ms: number, run: () => void): void {
    this.after(ms, () => {
      run()
      this.every(ms, run)
    })
  }

  /** Lets the clocks of the process show this time meanwhile. No timer of the process fires. */
  async run(forMs: number): Promise<void> {
    const endMs = this.nowMs + forMs
    const real = { performance: performance.now, date: Date.now }
    performance.now = () => this.nowMs
    Date.now = () => this.nowMs
    try {
      for (let next = this.events[0]; next !== undefined && next.ms <= endMs; next = this.events[0]) {
        this.shift()
        this.nowMs = next.ms
        next.run()
        for (let i = 0; i < STEPS; i++) await undefined
      }
      this.nowMs = endMs
    } finally {
      performance.now = real.performance
      Date.now = real.date
    }
  }

  private shift(): void {
    const last = this.events.pop()
    const { length } = this.events
    if (last === undefined || length === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      const [left, right] = [this.events[child], this.events[child + 1]]
      if (left === undefined) break
      if (right !== undefined && isBefore(right, left)) child++
      const lower = this.events[child]
      if (lower === undefined || !isBefore(lower, last)) break
      this.events[at] = lower
      at = child
    }
    this.events[at] = last
  }
}

interface Timed {
  readonly ms: number
  readonly number: number
}

function isBefore(one: Timed, other: Timed): boolean {
  return one.ms < other.ms || (one.ms === other.ms && one.number < other.number)
}

export interface ProviderAnswer {
  readonly status: 200 | 429 | 503
  readonly reports: readonly ReportedLimit[]
  readonly retryAfterMs?: number
}

/** A quota of requests a minute, that comes back evenly or at once each minute. */
export class QuotaProvider {
  isDown = false
  /** When requests of ours arrived. */
  readonly arrivals: number[] = []
  readonly figures = { ours: 0, others: 0, refused: 0 }
  private level: number
  private atMs: number

  constructor(
    private readonly time: VirtualTime,
    readonly perMinute: number,
    private readonly kind: 'even' | 'window' | 'silent',
    /** What part of the quota others want, at a time. */
    others: (sinceMs: number) => number,
    /** What is left of it in the beginning: others have used the rest. */
    beginShare = 0.1,
  ) {
    this.level = perMinute * beginShare
    this.atMs = time.nowMs
    const beganMs = time.nowMs
    let due = 0
    time.every(50, () => {
      due += (others(time.nowMs - beganMs) * perMinute * 50) / 60_000
      for (; due >= 1; due--) if (!this.isDown && this.take()) this.figures.others++
    })
  }

  answer(): ProviderAnswer {
    this.arrivals.push(this.time.nowMs)
    if (this.isDown) return { status: 503, reports: [] }
    const isTaken = this.take()
    this.figures[isTaken ? 'ours' : 'refused']++
    const reports = this.kind === 'silent' ? [] : [this.report()]
    if (isTaken) return { status: 200, reports }
    return { status: 429, reports, retryAfterMs: Math.ceil(this.untilMs(1)) }
  }

  /** The most requests of ours in any minute. */
  get mostInAMinute(): number {
    let most = 0
    for (let from = 0, to = 0; to < this.arrivals.length; to++) {
      while ((this.arrivals[to] ?? 0) - (this.arrivals[from] ?? 0) >= 60_000) from++
      most = Math.max(most, to - from + 1)
    }
    return most
  }

  private take(): boolean {
    this.refill()
    if (this.level < 1) return false
    this.level--
    return true
  }

  private refill(): void {
    const { nowMs } = this.time
    if (this.kind !== 'window') this.level = Math.min(this.perMinute, this.level + (nowMs - this.atMs) * this.perMs)
    else if (Math.floor(nowMs / 60_000) > Math.floor(this.atMs / 60_000)) this.level = this.perMinute
    this.atMs = nowMs
  }

  private get perMs(): number {
    return this.perMinute / 60_000
  }

  private untilMs(level: number): number {
    if (this.kind === 'window') return 60_000 - (this.time.nowMs % 60_000)
    return Math.max(0, level - this.level) / this.perMs
  }

  private report(): ReportedLimit {
    const { perMinute: limit } = this
    return { unit: 'requests', remaining: Math.floor(this.level), limit, resetMs: this.untilMs(limit) }
  }
}

/** What the nodes share. */
export class SimulatedFleet {
  readonly room: CommonRoom
  readonly nodes: SimulatedNode[] = []
  private readonly probes = new Map<string, { readonly node: number; readonly untilMs: number }>()

  constructor(
    readonly time: VirtualTime,
    readonly random: Random,
    readonly providers: Readonly<Record<string, QuotaProvider>>,
    readonly config: CapacityConfig,
    readonly targets: readonly TargetRef[],
    readonly size: number,
  ) {
    this.room = new CommonRoom(() => time.nowMs)
    for (let i = 0; i < size; i++) this.nodes.push(new SimulatedNode(this, i))
  }

  /** What a node has found out reaches the others at their next look, in order. */
  publish(from: number, receive: (node: SimulatedNode) => void): void {
    for (const node of this.nodes) if (node.number !== from) node.news.push(receive)
  }

  /** A rest of a node is known: the next probe may be another's. */
  release(node: number, target: TargetRef): void {
    if (this.probes.get(targetKey(target))?.node === node) this.probes.delete(targetKey(target))
  }

  async claim(node: number, target: TargetRef): Promise<boolean> {
    await this.time.sleep(2 * REDIS_MS)
    const held = this.probes.get(targetKey(target))
    if (held !== undefined && held.node !== node && held.untilMs > this.time.nowMs) return false
    this.probes.set(targetKey(target), { node, untilMs: this.time.nowMs + PROBE_MS })
    return true
  }

  close(): void {
    for (const node of this.nodes) node.rooms.close()
  }
}

export class SimulatedNode {
  readonly rooms: Rooms
  readonly queue: WaitQueue
  readonly breaker: Breaker
  readonly capacity: Capacity
  /** What others have found out since it last looked. */
  news: ((node: SimulatedNode) => void)[] = []
  /** Redis does not answer it. */
  isCutOff = false

  constructor(
    readonly fleet: SimulatedFleet,
    readonly number: number,
  ) {
    const { time, config, targets, random } = fleet
    this.rooms = new Rooms(this.source(), (room) => fleet.publish(number, ({ rooms }) => rooms.receive(room)))
    this.queue = new WaitQueue({ waited: () => undefined, shed: () => undefined })
    this.rooms.listen(() => this.queue.roomChanged())
    this.breaker = new Breaker(
      () => time.nowMs,
      (rest) => {
        fleet.publish(number, ({ breaker }) => breaker.receive(rest))
        if (!rest.probing) fleet.release(number, rest)
      },
      (target) => fleet.claim(number, target),
    )
    this.rooms.shareAmong(fleet.size)
    this.rooms.use(config, targets, 1)
    const queue = { maxWaitMs: 30_000, maxWaiting: 20_000, ...config.queue }
    this.capacity = { rooms: this.rooms, queue: this.queue, ...queue, waitsForProviders: config.queue !== undefined }
    time.after(random.below(50), () => time.every(50, () => this.queue.place !== -1 && this.queue.tick(time.nowMs)))
    time.after(random.below(NEWS_MS), () =>
      time.every(NEWS_MS, () => {
        this.rooms.tick(time.nowMs)
        for (const receive of this.news.splice(0)) receive(this)
      }),
    )
  }

  private source(): RoomSource {
    const { fleet, number } = this
    const { time } = fleet
    const holder = String(number)
    const later = (run: () => void) => time.after(REDIS_MS, () => !this.isCutOff && run())
    return {
      take: async (asks, isLow, turns) => {
        await time.sleep(REDIS_MS)
        if (this.isCutOff) {
          await time.sleep(250)
          throw new Error('Redis does not answer')
        }
        const taken = fleet.room.take(asks, isLow, holder, turns)
        await time.sleep(REDIS_MS)
        return taken
      },
      give: (amounts) => later(() => fleet.room.give(amounts, holder)),
      renew: (held) => later(() => fleet.room.renew(held, holder)),
      report: (reports) => later(() => fleet.room.report(reports)),
    }
  }
}

interface RequestEnds {
  /** A provider has been asked. */
  began(provider: string): void
  answered(provider: string): void
  failed(): void
}

/** One request, as the gateway has it: `gateway/flow.ts` without its ledger and its body. */
export class SimulatedRequest {
  private readonly room: RequestRoom
  private readonly turns: CandidateTurns
  private failures = 0

  constructor(
    private readonly node: SimulatedNode,
    key: Key,
    candidates: readonly Candidate[],
    private readonly ends: RequestEnds,
    isLowered = false,
  ) {
    const { capacity, breaker } = node
    this.room = new RequestRoom(capacity, breaker, key, isLowered, () => QUOTE, this)
    this.turns = new CandidateTurns(candidates, candidates, breaker, { rests: () => undefined }, this.room)
  }

  next(): void {
    const isFirst = this.failures === 0
    const isOver = this.failures >= ATTEMPTS_MAX
    const next = isOver ? undefined : this.turns.next(isFirst)
    if (next instanceof Later) return void this.later(next)
    if (next === undefined && !isOver && this.room.wait() !== undefined) return
    const attempt = next ?? (isFirst ? this.turns.nextAtRest(false) : undefined)
    if (attempt instanceof Later) return void this.later(attempt)
    if (attempt !== undefined) return this.call(attempt)
    if (isOver || this.room.wait() === undefined) this.ends.failed()
  }

  lacksRoom(): void {}

  entered(attempt: Attempt): void {
    this.call(attempt)
  }

  gaveUp(): void {
    this.next()
  }

  private async later(entering: Later<Attempt | undefined>): Promise<void> {
    const attempt = await entering
    if (attempt === undefined) this.next()
    else this.call(attempt)
  }

  private call(attempt: Attempt): void {
    const { time, random, providers } = this.node.fleet
    const { provider } = attempt.candidate.target
    const place = providers[provider]
    if (place === undefined) throw new Error(`no provider ${provider}`)
    attempt.startedMs = time.nowMs
    this.ends.began(provider)
    time.after(NETWORK_MS, () => {
      const answer = place.answer()
      time.after(NETWORK_MS + random.between(20, 300), () => this.heard(attempt, answer, provider))
    })
  }

  private heard(attempt: Attempt, { status, reports, retryAfterMs }: ProviderAnswer, provider: string): void {
    const { permit, grant, candidate } = attempt
    if (status === 200) {
      this.room.hear(attempt, reports, false)
      permit.succeeded()
      permit.completed(false)
      grant?.ended(USED)
      return this.ends.answered(provider)
    }
    if (status === 429) this.room.hear(attempt, reports, true)
    this.failures++
    permit.failed(new ProviderError(status === 429 ? 'rate_limited' : 'overloaded', '', { status, retryAfterMs }))
    grant?.ended({ tokens: 0, microUsd: 0 })
    if (status === 429) this.room.refused(candidate)
    this.next()
  }
}

/** A candidate of each target, of a model that the catalog has. */
export function candidatesOf(catalog: Catalog, name: string): readonly Candidate[] {
  const model = catalog.lookup(name)
  if (typeof model !== 'object') throw new Error(`no model ${name}`)
  return model.targets.map((target) => ({ model, target }))
}

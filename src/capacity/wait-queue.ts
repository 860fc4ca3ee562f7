/**
 * Requests that wait because no candidate of theirs has room: who comes next, how long each waits, and who is turned
 * away if too many wait, or if the worker is short of memory or CPU time. The upper class comes first but for every
 * tenth turn; within a class organisations take turns by their weights, and the keys of an organisation alike.
 */

import { SLOW_PERIOD_MS, type Ticking, ticker } from '../core/ticker.ts'
import { CONTENDERS_MAX, type Contender } from './organization-turns.ts'

export const PRIORITIES = ['interactive', 'batch'] as const
export type Priority = (typeof PRIORITIES)[number]

/** Of the turns while both wait, the lower class has one of so many. */
const LOW_TURNS = 10

/** An event loop that is later than this so many times in a row lacks CPU time; a large request delays one tick. */
const LATE_MS = 250
const LATE_TICKS = 3

/** A request that waits. */
export interface Waiting {
  readonly organization: string
  readonly key: string
  readonly weight: number
  readonly priority: Priority
  /** The same for all that wait for the same candidates. */
  readonly candidates: string
  /** When it gives up (`performance.now()`). */
  readonly untilMs: number
  /** Takes room if there is some. True: it goes on, and waits no longer. */
  tryNow(): boolean
  /** The room that all processes share has given its organisation the next turn here. */
  readonly hasTurn: boolean
  /** Asks for the room that it lacks, for the organisations of its class that wait for the same. */
  ask(contendersOf: () => readonly Contender[], newcomer?: string): void
  /** Its time is over, or others came before it in a full queue. */
  gaveUp(isShed: boolean): void
}

/** Requests of one organisation that wait for the same candidates, in turn by key. */
class Line {
  readonly byKey = new Map<string, Waiting[]>()
  size = 0
  /** Since its first request waits, or its last turn (`performance.now()`). */
  private sinceMs = performance.now()

  constructor(
    readonly organization: string,
    private readonly weight: number,
  ) {}

  /** For the room that all processes share. */
  get contender(): Contender {
    const { organization, weight, sinceMs } = this
    return { organization, weight, waitedMs: performance.now() - sinceMs }
  }

  add(waiting: Waiting): void {
    this.byKey.getOrInsert(waiting.key, []).push(waiting)
    this.size++
  }

  get first(): Waiting | undefined {
    for (const list of this.byKey.values()) return list[0]
    return undefined
  }

  remove(waiting: Waiting, isServed: boolean): boolean {
    const list = this.byKey.get(waiting.key)
    const at = list?.indexOf(waiting) ?? -1
    if (list === undefined || at < 0) return false
    list.splice(at, 1)
    this.size--
    if (isServed) this.sinceMs = performance.now()
    if (list.length === 0) this.byKey.delete(waiting.key)
    else if (isServed) {
      // The next turn is another key's.
      this.byKey.delete(waiting.key)
      this.byKey.set(waiting.key, list)
    }
    return true
  }
}

/** Of those that wait for the same candidates, by class and organisation. */
type Lines = Readonly<Record<Priority, Map<string, Line>>>

interface QueueFigures {
  /** A request has waited, and goes on. */
  waited(priority: Priority, ms: number): void
  shed(priority: Priority): void
}

/** Whether a worker is short of CPU time, on the slow ticker. */
class CpuStrain implements Ticking {
  place = -1
  private tickedMs = Number.POSITIVE_INFINITY
  private late = 0

  tick(nowMs: number): void {
    this.late = nowMs - this.tickedMs >= SLOW_PERIOD_MS + LATE_MS ? this.late + 1 : 0
    this.tickedMs = nowMs
  }

  get isShort(): boolean {
    return this.late >= LATE_TICKS
  }
}

export class WaitQueue implements Ticking {
  place = -1
  readonly strain = new CpuStrain()
  /** By candidates. */
  private readonly lines = new Map<string, Lines>()
  private readonly since = new Map<Waiting, number>()
  /** By class and organisation: how much it has had, in turns over its weight. */
  private readonly had = new Map<string, number>()
  /** What the one that had the last turn had had before it. */
  private readonly virtual: Record<Priority, number> = { interactive: 0, batch: 0 }
  private readonly counts: Record<Priority, number> = { interactive: 0, batch: 0 }
  /** Of the upper class while the lower one waited, since that had its last. */
  private upperTurns = 0
  private isPumping = false

  constructor(private readonly figures: QueueFigures) {}

  sizeOf(priority: Priority): number {
    return this.counts[priority]
  }

  get size(): number {
    return this.since.size
  }

  /** Whether a request that arrives is turned away, for those of the upper class. */
  refuses(priority: Priority): boolean {
    if (priority !== 'batch' || !this.strain.isShort) return false
    this.figures.shed(priority)
    return true
  }

  /** False if the queue is full, and none of a lower class waits in it. `most`: how many may wait. */
  add(waiting: Waiting, most: number): boolean {
    if (this.size >= most && (waiting.priority === 'batch' || !this.shed())) {
      this.figures.shed(waiting.priority)
      return false
    }
    const noLines = { interactive: new Map(), batch: new Map() }
    const lines = this.lines.getOrInsert(waiting.candidates, noLines)[waiting.priority]
    const line = lines.getOrInsertComputed(waiting.organization, (name) => new Line(name, waiting.weight))
    // Who has not waited for long gets no turns for that time.
    const name = `${waiting.priority} ${waiting.organization}`
    this.had.set(name, Math.max(this.had.get(name) ?? 0, this.virtual[waiting.priority]))
    line.add(waiting)
    this.counts[waiting.priority]++
    this.since.set(waiting, performance.now())
    if (this.place === -1) ticker.add(this)
    return true
  }

  /** Turns away the last of the lower class, for one of the upper class. False if none waits. */
  shed(): boolean {
    if (this.counts.batch === 0) return false
    const last = [...this.since.keys()].findLast((each) => each.priority === 'batch')
    if (last === undefined) return false
    this.remove(last, false)
    this.figures.shed('batch')
    last.gaveUp(true)
    return true
  }

  /** Asks for the room that a request lacks which begins to wait. */
  askForNew(waiting: Waiting): void {
    this.askFor(waiting, waiting.organization)
  }

  /** Its caller left. */
  leave(waiting: Waiting): void {
    this.remove(waiting, false)
  }

  roomChanged(): void {
    if (this.size > 0) this.pump()
  }

  tick(nowMs: number): void {
    for (const waiting of [...this.since.keys()]) {
      if (waiting.untilMs > nowMs) continue
      this.remove(waiting, false)
      waiting.gaveUp(false)
    }
    this.pump()
    if (this.size === 0) ticker.remove(this)
  }

  /** Lets requests go on that have room, in fair turns. */
  private pump(): void {
    if (this.isPumping) return
    this.isPumping = true
    try {
      const blocked = new Map<string, Waiting>()
      for (let next = this.next(blocked); next !== undefined; next = this.next(blocked)) {
        const since = this.since.get(next) ?? 0
        if (!next.tryNow()) {
          blocked.set(next.candidates, next)
          continue
        }
        this.remove(next, true)
        this.upperTurns = next.priority === 'batch' || this.counts.batch === 0 ? 0 : this.upperTurns + 1
        this.figures.waited(next.priority, performance.now() - since)
      }
      for (const waiting of blocked.values()) this.askFor(waiting)
    } finally {
      this.isPumping = false
    }
  }

  private next(blocked: ReadonlyMap<string, Waiting>): Waiting | undefined {
    const [first, second] = this.upperTurns >= LOW_TURNS - 1 ? (['batch', 'interactive'] as const) : PRIORITIES
    return this.firstOf(first, blocked) ?? this.firstOf(second, blocked)
  }

  private askFor(waiting: Waiting, newcomer?: string): void {
    const first = this.upperOf(waiting) ?? waiting
    first.ask(() => this.contendersOf(first), newcomer)
  }

  /** One of the upper class that waits for the same: others let it go first also at a turn of the lower class. */
  private upperOf({ candidates }: Waiting): Waiting | undefined {
    for (const line of this.lines.get(candidates)?.interactive.values() ?? []) return line.first
    return undefined
  }

  /** The first request of the organisation that has had the least. */
  private firstOf(priority: Priority, blocked: ReadonlyMap<string, Waiting>): Waiting | undefined {
    if (this.counts[priority] === 0) return undefined
    let least = Number.POSITIVE_INFINITY
    let found: Waiting | undefined
    for (const [candidates, lines] of this.lines) {
      if (blocked.has(candidates)) continue
      for (const line of lines[priority].values()) {
        const { first } = line
        if (first?.hasTurn === true) return first
        const had = this.had.get(`${priority} ${line.organization}`) ?? 0
        if (had >= least) continue
        least = had
        found = first
      }
    }
    return found
  }

  /** The organisations that have had the least, of those that wait for the same as a request. */
  private contendersOf({ candidates, priority }: Waiting): readonly Contender[] {
    const lines = [...(this.lines.get(candidates)?.[priority].values() ?? [])]
    const hadOf = ({ organization }: Line) => this.had.get(`${priority} ${organization}`) ?? 0
    const chosen = lines.length <= CONTENDERS_MAX ? lines : lines.toSorted((one, other) => hadOf(one) - hadOf(other))
    return chosen.slice(0, CONTENDERS_MAX).map(({ contender }) => contender)
  }

  private remove(waiting: Waiting, isServed: boolean): void {
    const lines = this.lines.get(waiting.candidates)
    const line = lines?.[waiting.priority].get(waiting.organization)
    if (lines === undefined || line?.remove(waiting, isServed) !== true) return
    this.since.delete(waiting)
    this.counts[waiting.priority]--
    const name = `${waiting.priority} ${waiting.organization}`
    if (isServed) {
      const had = this.had.get(name) ?? 0
      this.virtual[waiting.priority] = Math.max(this.virtual[waiting.priority], had)
      this.had.set(name, had + 1 / waiting.weight)
    }
    if (line.size === 0) lines[waiting.priority].delete(waiting.organization)
    if (lines.interactive.size + lines.batch.size === 0) this.lines.delete(waiting.candidates)
    if (this.counts[waiting.priority] === 0) this.forget(waiting.priority)
  }

  /** When no request of a class is left, the turns that its organisations have had no longer count. */
  private forget(priority: Priority): void {
    for (const name of this.had.keys()) if (name.startsWith(`${priority} `)) this.had.delete(name)
    this.virtual[priority] = 0
  }
}

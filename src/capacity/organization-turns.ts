/**
 * The turns of organisations at one limit, over all processes that share it. As in start-time fair queueing: each turn
 * moves an organisation on by one over its weight, and the one that is furthest back is next. `take-room.lua` is the
 * same in Redis.
 */

import type { Meter } from './meter.ts'

/** An organisation of which requests need room. */
export interface Contender {
  readonly organization: string
  readonly weight: number
  /** How long it has waited in this process for its first turn, or since its last one. */
  readonly waitedMs: number
}

/** Which organisation of a process is next. */
interface NextTurn {
  readonly organization: string
  readonly weight: number
  readonly place: number
  /** The place of the one that is furthest back of all others that are known to wait. */
  readonly othersPlace: number
  /** It is not its turn, but another organisation's, or that of the same one in another process. */
  readonly letsPass: boolean
  readonly holder: string
  readonly sinceMs: number
  readonly nowMs: number
}

/** So many organisations a process names at once: those that have had the least of it. */
export const CONTENDERS_MAX = 32
/** An organisation that was denied is waited for if it is its turn; without another ask only for so long. */
const TURN_MS = 500
/** One turn for so many places, or so much a minute, may come early, because asks take time. */
const EARLY_PLACES = 50
const EARLY_RATE = 3000
/** Where turns may come early, a process lets another pass if that has waited for so much longer. */
const PATIENCE_MS = 100
/** So long after the last turn it counts no more who is ahead. */
const KEPT_MS = 10_000
/** Places are sums of fractions: they are equal within this. */
const NEARLY = 1e-6

export class OrganizationTurns {
  /** The least place: an organisation that begins to wait starts here, and gets no turns for the time before. */
  private least = 0
  private movedMs = 0
  /** Of those that are ahead. */
  private readonly places = new Map<string, number>()
  /** By process and organisation. */
  private readonly waiting = new Map<string, Pick<NextTurn, 'organization' | 'holder' | 'sinceMs' | 'nowMs'>>()

  isWaiting(contenders: readonly Contender[], holder: string, nowMs: number): boolean {
    return contenders.some((one) => {
      const waiting = this.waiting.get(nameOf(holder, one))
      return waiting !== undefined && nowMs < waiting.nowMs + TURN_MS
    })
  }

  /** Undefined if none was named. For the same organisation, the process comes first in which it has waited longest. */
  next({ kind, limit }: Meter, contenders: readonly Contender[], holder: string, nowMs: number): NextTurn | undefined {
    if (nowMs >= this.movedMs + KEPT_MS) this.places.clear()
    const [first, second] = contenders.toSorted((one, other) => this.placeOf(one) - this.placeOf(other))
    if (first === undefined) return undefined
    const { organization, weight } = first
    const [place, sinceMs] = [this.placeOf(first), nowMs - first.waitedMs]
    const early = Math.floor(limit / (kind === 'concurrency' ? EARLY_PLACES : EARLY_RATE))
    let othersPlace = second === undefined ? Number.POSITIVE_INFINITY : this.placeOf(second)
    let letsPass = false
    for (const [name, other] of this.waiting) {
      if (nowMs >= other.nowMs + TURN_MS) this.waiting.delete(name)
      else if (other.holder !== holder) {
        const otherPlace = this.placeOf(other)
        othersPlace = Math.min(othersPlace, otherPlace)
        if (other.organization !== organization) letsPass ||= otherPlace + early / weight < place - NEARLY
        else letsPass ||= other.sinceMs + (early > 0 ? PATIENCE_MS : 0) < sinceMs
      }
    }
    return { organization, weight, place, othersPlace, letsPass, holder, sinceMs, nowMs }
  }

  /** It was denied. */
  wait(next: NextTurn): void {
    this.waiting.set(nameOf(next.holder, next), next)
  }

  /** It has had so many turns. */
  moveOn(next: NextTurn, count: number): void {
    const { organization, weight, place, othersPlace, nowMs } = next
    this.waiting.delete(nameOf(next.holder, next))
    this.places.set(organization, place + count / weight)
    // Who waits keeps what is due to it.
    this.least = Math.max(this.least, Math.min(othersPlace, place + (count - 1) / weight))
    this.movedMs = nowMs
    for (const [name, at] of this.places) if (at <= this.least) this.places.delete(name)
  }

  private placeOf({ organization }: Pick<Contender, 'organization'>): number {
    return Math.max(this.least, this.places.get(organization) ?? 0)
  }
}

function nameOf(holder: string, { organization }: Pick<Contender, 'organization'>): string {
  return `${holder} ${organization}`
}

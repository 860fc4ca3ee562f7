/**
 * What is left of a provider's limits (the *room* of a target) by the provider's own reports and 429s: others may use
 * the account, too, or the limit is not the configured one. It holds on all nodes while it is scarce: each process then
 * asks the common room for every request, so that none holds what another could use.
 */

import type { ReportedLimit } from '../core/capacity-limits.ts'
import { MINUTE_MS } from '../core/durations.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { RoomReport } from './common-room.ts'
import { bucketOf, type CapacityUnit, type Meter } from './meter.ts'

/** A limit that is scarce: the other processes hear of it. */
export interface ScarceRoom extends TargetRef {
  readonly unit: ReportedLimit['unit']
  /** A minute's. */
  readonly limit: number
  /** For how long at least. */
  readonly ms: number
}

/** Without another report a limit is forgotten after this time: its bucket is full again long before. */
const SCARCE_MS = 20_000
/** After a 429 that does not report what is left: what comes back is the whole limit again after nearly this time. */
const REFUSED_MS = 400_000
/** Of each limit a process reports to the common room at most this often. */
const REPORT_MS = 20
/** Left to requests that the provider has not yet counted. */
const RESERVE_SHARE = 0.02
/** Of the limit, after such a 429: the provider gets so far ahead that the next few requests do not meet it empty. */
const PAUSE_SHARE = 0.02
/** No report closes a target for longer. */
const CLOSED_MS_MAX = 60_000
/** How far the reset of a bucket that refills evenly may be from what is missing in it. */
const RESET_SLACK_MS = 2000
const RESET_SLACK_SHARE = 0.1
const UNITS = ['requests', 'tokens'] as const

interface Scarce {
  readonly target: TargetRef
  readonly meter: Meter
  untilMs: number
  reportedMs: number
}

export interface ReportedRoomsOwner {
  /** A minute's configured limit of the target or its provider. */
  limitOf(target: TargetRef, unit: CapacityUnit): number | undefined
  /** The scarce limits of a target are others than before. */
  scarceChanged(target: TargetRef): void
  report(reports: readonly RoomReport[]): void
}

export class ReportedRooms {
  private readonly scarce = new Map<string, Scarce>()

  constructor(
    private readonly owner: ReportedRoomsOwner,
    private readonly publish: (room: ScarceRoom) => void,
  ) {}

  /** The meters of what is scarce at a target. */
  metersOf(target: TargetRef): readonly Meter[] {
    if (this.scarce.size === 0) return []
    return UNITS.flatMap((unit) => this.scarce.get(nameOf(target, unit))?.meter ?? [])
  }

  /**
   * A call has been answered. `ageMs`: how long ago it was sent, and so how old its figures may be. `isRefused`: by
   * a 429. False if a limit has nothing left and it is not known how much comes back.
   */
  hear(target: TargetRef, reports: readonly ReportedLimit[], ageMs: number, isRefused: boolean): boolean {
    // `isShown`: a report itself explains the 429.
    let [isKnown, isShown] = [true, false]
    for (const report of reports) {
      const limit = report.limit ?? this.owner.limitOf(target, report.unit)
      if (limit === undefined) isKnown &&= report.remaining > 0
      else if (this.hearOne(target, report, limit, ageMs)) isShown = true
    }
    if (!isRefused || isShown) return isKnown
    // It does not report of which limit: if there is one for requests, that stands for both.
    for (const unit of UNITS) {
      const limit = reports.find((report) => report.unit === unit)?.limit ?? this.owner.limitOf(target, unit)
      if (limit === undefined) continue
      const { meter } = this.mark({ ...target, unit, limit, ms: REFUSED_MS }, true)
      this.owner.report([{ meter, level: -Math.max(1, limit * PAUSE_SHARE), closedMs: 0, isRefusal: true }])
      break
    }
    return isKnown
  }

  /** Another process has heard that a limit is scarce. */
  receive(room: ScarceRoom): void {
    this.mark(room, false)
  }

  /** Forgets what has not been scarce for long. */
  tick(nowMs: number): void {
    for (const [name, { target, untilMs }] of this.scarce) {
      if (nowMs < untilMs) continue
      this.scarce.delete(name)
      this.owner.scarceChanged(target)
    }
  }

  /** Forgets targets that are no longer configured. */
  keep(remains: (target: TargetRef) => boolean): void {
    for (const [name, { target }] of this.scarce) if (!remains(target)) this.scarce.delete(name)
  }

  /**
   * Returns whether the limit is nearly used up. `level` is what is in its bucket, of at most `most`; below 0 so much
   * must come back first.
   */
  private hearOne(target: TargetRef, report: ReportedLimit, limit: number, ageMs: number): boolean {
    if (limit <= 0) return false
    const { most, perMs } = bucketOf({ limit })
    if (report.remaining - limit * RESERVE_SHARE >= most) return false
    const isWindow = isOfWindow(report, limit)
    // What came back since the provider counted; of a window nothing does before its end.
    const left = report.remaining + (isWindow ? 0 : ageMs * perMs)
    const level = left - Math.floor(limit * RESERVE_SHARE)
    const isGone = report.remaining <= Math.max(1, limit * RESERVE_SHARE)
    if (level >= most) return isGone
    const closedMs = isWindow && level < 1 ? Math.min(report.resetMs ?? 0, CLOSED_MS_MAX) : 0
    const scarce = this.mark({ ...target, unit: report.unit, limit, ms: closedMs + SCARCE_MS }, true)
    const nowMs = performance.now()
    if (nowMs - scarce.reportedMs < REPORT_MS && closedMs === 0) return isGone
    scarce.reportedMs = nowMs
    this.owner.report([{ meter: scarce.meter, level: Math.floor(level), closedMs, isRefusal: false }])
    return isGone
  }

  /** `isOwn`: this process has found out, and publishes it for the others unless they know. */
  private mark(room: ScarceRoom, isOwn: boolean): Scarce {
    const { provider, model, unit, limit, ms } = room
    const target = { provider, model }
    const name = nameOf(target, unit)
    const untilMs = performance.now() + ms
    const known = this.scarce.get(name)
    if (known?.meter.limit === limit) {
      const isNews = untilMs - known.untilMs > SCARCE_MS / 2
      if (isNews && isOwn) this.publish(room)
      if (isNews || !isOwn) known.untilMs = Math.max(known.untilMs, untilMs)
      return known
    }
    const meter = { name, kind: 'rate', unit, limit } as const
    const scarce = { target, meter, untilMs, reportedMs: Number.NEGATIVE_INFINITY }
    this.scarce.set(name, scarce)
    if (isOwn) this.publish(room)
    this.owner.scarceChanged(target)
    return scarce
  }
}

function nameOf(target: TargetRef, unit: ReportedLimit['unit']): string {
  return `${target.provider}/${target.model}/reported.${unit}`
}

/** Whether all of a limit comes back at once, at its reset: not evenly, as what is missing shows. */
function isOfWindow({ remaining, resetMs }: ReportedLimit, limit: number): boolean {
  if (resetMs === undefined) return false
  const refillMs = (1 - Math.min(1, remaining / limit)) * MINUTE_MS
  return Math.abs(resetMs - refillMs) > Math.max(RESET_SLACK_MS, refillMs * RESET_SLACK_SHARE)
}

/**
 * From sums that only grow to what happens now: rates of the last seconds, percentiles of the last minute, and a point
 * every 10 s for the last hour. Keeps readings of the sums and subtracts an earlier one.
 */

import { HOUR_MS } from '../core/durations.ts'
import type { MergedFigures } from '../metrics/merged-figures.ts'
import type { FiguresNow } from './api-shapes.ts'
import type { HistoryPoint } from './history-file.ts'

type Totals = ReturnType<MergedFigures['totals']>

/** What is read at one moment. */
interface FiguresReading {
  readonly totals: Totals
  readonly inFlight: number
  readonly streams: number
}

interface TimedReading extends FiguresReading {
  readonly atMs: number
}

export const STEP_SECONDS = 10
/** Of the last hour. */
export const POINTS_MAX = 360
/** Over which rates are computed; shares and percentiles need more requests. */
const RATE_MS = 10_000
const SHARE_MS = 60_000
/** Readings that follow each other faster are of no use. */
const READING_MS = 500
/** A timer may be late. */
const SLACK_MS = 500

export class FiguresHistory {
  private readings: TimedReading[]
  private last: TimedReading
  private readonly kept: HistoryPoint[]

  constructor(
    private readonly read: () => FiguresReading,
    private readonly clock: () => number = Date.now,
    before: readonly HistoryPoint[] = [],
  ) {
    this.kept = [...before]
    this.last = this.reading()
    this.readings = [this.last]
  }

  /** To be called every 10 s: adds a point. */
  step(): void {
    const reading = this.reading()
    const at = new Date(reading.atMs).toISOString()
    this.kept.push({ at, ...figuresBetween(this.last, reading, this.last) })
    // After a restart there may be points that are older than an hour, although they are fewer than `POINTS_MAX`.
    const old = this.kept.findIndex((point) => reading.atMs - Date.parse(point.at) < HOUR_MS)
    this.kept.splice(0, Math.max(old, this.kept.length - POINTS_MAX, 0))
    this.last = reading
    this.keep(reading)
  }

  now(): FiguresNow {
    const reading = this.reading()
    const figures = figuresBetween(this.since(reading.atMs - RATE_MS), reading, this.since(reading.atMs - SHARE_MS))
    this.keep(reading)
    return figures
  }

  /** The oldest first. */
  points(): readonly HistoryPoint[] {
    return this.kept
  }

  private reading(): TimedReading {
    return { ...this.read(), atMs: this.clock() }
  }

  /** The newest reading that is at least as old, or the oldest. */
  private since(atMs: number): TimedReading {
    return this.readings.findLast((reading) => reading.atMs <= atMs + SLACK_MS) ?? this.readings[0] ?? this.last
  }

  private keep(reading: TimedReading): void {
    const newest = this.readings.at(-1)
    if (newest !== undefined && reading.atMs - newest.atMs < READING_MS) return
    const oldest = this.since(reading.atMs - SHARE_MS)
    this.readings = [...this.readings.filter(({ atMs }) => atMs >= oldest.atMs), reading]
  }
}

/** `from` is where rates begin, `sharesFrom` where shares and percentiles do. */
function figuresBetween(from: TimedReading, to: TimedReading, sharesFrom: TimedReading): FiguresNow {
  const seconds = Math.max(0.001, (to.atMs - from.atMs) / 1000)
  const rate = (of: (totals: Totals) => number) => round((of(to.totals) - of(from.totals)) / seconds)
  const requests = to.totals.requests - sharesFrom.totals.requests
  const share = (of: (totals: Totals) => number) =>
    requests <= 0 ? null : Math.min(1, (of(to.totals) - of(sharesFrom.totals)) / requests)
  const firstToken = to.totals.firstToken.minus(sharesFrom.totals.firstToken)
  return {
    requests_per_second: rate(({ requests }) => requests),
    open_streams: to.streams,
    in_flight: to.inFlight,
    error_share: share(({ errors }) => errors),
    limited_share: share(({ limited }) => limited),
    time_to_first_token_p50_ms: milliseconds(firstToken.quantileSeconds(0.5)),
    time_to_first_token_p95_ms: milliseconds(firstToken.quantileSeconds(0.95)),
    tokens_per_second: rate(({ inputTokens, outputTokens }) => inputTokens + outputTokens),
    cost_micro_usd_per_second: rate(({ costMicroUsd }) => costMicroUsd),
  }
}

/** To a thousandth. */
function round(value: number): number {
  return Math.round(value * 1000) / 1000
}

/** To a tenth of a millisecond; null if there is none. */
export function milliseconds(seconds: number | undefined): number | null {
  return seconds === undefined ? null : Math.round(seconds * 10_000) / 10
}

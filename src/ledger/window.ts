/**
 * The calendar windows of budgets as whole numbers, and when each ends: those of organisations and keys in UTC, those
 * of counters in a time zone. Both number windows alike: by the local date.
 */

import { windowAt } from '../core/calendar.ts'
import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { amountOf, type BudgetLimit, budgetLimits, type Limits, ownerBudgetLimits } from '../core/limits.ts'

/** Days since 1970-01-01. */
export function dayOf(ms: number): number {
  return Math.floor(ms / DAY_MS)
}

/** Months since January 1970. */
export function monthOf(ms: number): number {
  const date = new Date(ms)
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth()
}

/** The first millisecond after a day of `dayOf`. */
export function dayEndMs(day: number): number {
  return (day + 1) * DAY_MS
}

/** The first millisecond after a month of `monthOf`. */
export function monthEndMs(month: number): number {
  return Date.UTC(1970, month + 1, 1)
}

/** The window of a budget at a time in UTC. */
export function windowOf(window: BudgetLimit['window'], ms: number): number {
  if (window === 'day') return dayOf(ms)
  if (window === 'hour') return Math.floor(ms / HOUR_MS)
  if (window === 'week') return weekOf(dayOf(ms))
  return window === 'month' ? monthOf(ms) : 0
}

/** Weeks since that of 1970-01-01, a Thursday. */
function weekOf(day: number): number {
  return Math.floor((day + 3) / 7)
}

let current: { readonly fromMs: number; readonly windows: readonly number[] } = { fromMs: Infinity, windows: [] }

/**
 * The windows of the budgets of an organisation or a key at a time, in the order of `ownerBudgetLimits`. Every verb of
 * a ledger asks, and they change with the day.
 */
export function budgetWindows(ms: number): readonly number[] {
  if (ms < current.fromMs || ms >= current.fromMs + DAY_MS) current = windowsOfDay(ms)
  return current.windows
}

function windowsOfDay(ms: number): typeof current {
  return { fromMs: dayOf(ms) * DAY_MS, windows: ownerBudgetLimits.map(({ window }) => windowOf(window, ms)) }
}

/** The first millisecond after a window of `windowOf`; undefined for the one that never ends. */
export function windowEndMs(window: BudgetLimit['window'], at: number): number | undefined {
  if (window === 'day') return dayEndMs(at)
  if (window === 'hour') return (at + 1) * HOUR_MS
  if (window === 'week') return dayEndMs(7 * (at + 1) - 4)
  return window === 'month' ? monthEndMs(at) : undefined
}

/** The first millisecond after a window of a counter in a time zone; undefined for the one that never ends. */
export function windowEndIn(timeZone: string, window: BudgetLimit['window'], at: number): number | undefined {
  const end = windowEndMs(window, at)
  if (end === undefined) return undefined
  const last = zonedWindow(timeZone, window, end - 1)
  // East of UTC the next one has begun.
  return last.number > at ? last.start : last.end
}

/** The windows of a counter at a time, in the order of `budgetLimits`, with the first millisecond of and after each. */
export interface ZonedWindows {
  readonly windows: readonly number[]
  readonly starts: readonly number[]
  readonly ends: readonly number[]
}

/** The end of a window that never ends. */
export const NEVER_MS = Number.MAX_SAFE_INTEGER

interface KnownWindows extends ZonedWindows {
  readonly fromMs: number
  readonly untilMs: number
}

/** By time zone those of two times: requests that were admitted before the end of a window settle after it. */
const zoned = new Map<string, readonly KnownWindows[]>()

/** The same objects as long as no window ends. Throws `RangeError` for an unknown zone. */
export function windowsIn(timeZone: string, ms: number): ZonedWindows {
  const all = zoned.get(timeZone) ?? []
  for (const known of all) if (ms >= known.fromMs && ms < known.untilMs) return known
  const periods = budgetLimits.map(({ window }) => zonedWindow(timeZone, window, ms))
  const made = {
    windows: periods.map(({ number }) => number),
    starts: periods.map(({ start }) => start),
    ends: periods.map(({ end }) => end),
    fromMs: Math.max(...periods.map(({ start }) => start)),
    untilMs: Math.min(...periods.map(({ end }) => end)),
  }
  zoned.set(timeZone, [made, ...all.slice(0, 1)])
  return made
}

/** A counter of rates alone is kept for this long after its last request. */
const RATES_KEPT_MS = HOUR_MS
/** Clocks of time zones are at most this far apart: one that changes could open a window again that has ended. */
const ZONES_MS = 26 * HOUR_MS

/**
 * Until when a counter is kept: until the last of its windows has ended in every time zone, so that none opens twice.
 * If it may be idle, for that long, and then one that never ends does not keep it. `ends` are those of its windows;
 * `counters.lua` is the same.
 */
export function keptUntil(
  nowMs: number,
  ends: readonly number[],
  { limits, idleMs }: { readonly limits: Limits; readonly idleMs?: number | undefined },
): number {
  let kept = 0
  for (let i = 0; i < budgetLimits.length; i++) {
    const [limit, end = NEVER_MS] = [budgetLimits[i], ends[i]]
    if (limit === undefined || amountOf(limits, limit) === undefined) continue
    if (idleMs === undefined || end !== NEVER_MS) kept = Math.max(kept, end)
  }
  return Math.max(nowMs + (idleMs ?? RATES_KEPT_MS), Math.min(NEVER_MS, kept + ZONES_MS))
}

function zonedWindow(timeZone: string, window: BudgetLimit['window'], ms: number) {
  if (window === 'total') return { start: 0, end: NEVER_MS, number: 0 }
  const { start, end, day } = windowAt(timeZone, window, ms)
  // Of two hours only the first can begin in one of UTC, also if a zone moves its clock by a part of an hour.
  return { start, end, number: windowOf(window, window === 'hour' ? start : day * DAY_MS) }
}

/** How many days before today usage is kept by hour; older usage is kept by day. */
export const HOUR_DAYS_KEPT = 31

/** How many days usage is kept by day; older usage is kept by month. */
export const DAYS_KEPT = 400

/**
 * After how many days without a sign of a node its figures by day may be summed up. Longer than a lost reservation is
 * kept (31 days), and than a month: a sum counts in no window but the one that never ends.
 */
export const NODE_DAYS_KEPT = 35

/**
 * The day under which usage of a day is kept: its own, or the first of its month if that month ended more than 400 days
 * before today.
 */
export function foldedDay(day: number, today: number): number {
  return bucketOf(day, firstKeptDay(today))
}

/** The day under which usage of a day counts if months before a day, the first of its month, are folded. */
export function bucketOf(day: number, foldedBefore: number): number {
  return day < foldedBefore ? dayOf(monthEndMs(monthOf(day * DAY_MS) - 1)) : day
}

/** Every day whose usage counts under a day of `bucketOf`. */
export function daysOfBucket(bucket: number, foldedBefore: number): readonly number[] {
  const end = bucket < foldedBefore ? dayOf(monthEndMs(monthOf(bucket * DAY_MS))) : bucket + 1
  return Array.from({ length: end - bucket }, (_, i) => bucket + i)
}

/** The first day whose usage is kept by day. */
export function firstKeptDay(today: number): number {
  return dayOf(monthEndMs(monthOf((today - DAYS_KEPT) * DAY_MS) - 1))
}

/** `2026-11-21` of a day of `dayOf`. */
export function dayText(day: number): string {
  return new Date(day * DAY_MS).toISOString().slice(0, 10)
}

/** `2026-11-21T13:00:00Z` of an hour (0 to 23) of a day of `dayOf`. */
export function hourText(day: number, hour: number): string {
  return `${dayText(day)}T${String(hour).padStart(2, '0')}:00:00Z`
}

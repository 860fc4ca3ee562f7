/** The calendar windows of budgets: UTC days and months as whole numbers, and when each ends. */

import { DAY_MS } from '../core/durations.ts'
import { type BudgetLimit, budgetLimits } from '../core/limits.ts'

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

/** The window of a budget at a time. */
export function windowOf(window: BudgetLimit['window'], ms: number): number {
  if (window === 'day') return dayOf(ms)
  return window === 'month' ? monthOf(ms) : 0
}

let current: { readonly fromMs: number; readonly windows: readonly number[] } = { fromMs: Number.NaN, windows: [] }

/**
 * The windows of all budgets at a time, in the order of `budgetLimits`. Every verb of a ledger asks, and they change
 * with the day.
 */
export function budgetWindows(ms: number): readonly number[] {
  if (ms >= current.fromMs && ms < current.fromMs + DAY_MS) return current.windows
  current = { fromMs: dayOf(ms) * DAY_MS, windows: budgetLimits.map(({ window }) => windowOf(window, ms)) }
  return current.windows
}

/** The first millisecond after a window of `windowOf`; undefined for the one that never ends. */
export function windowEndMs(window: BudgetLimit['window'], at: number): number | undefined {
  if (window === 'day') return dayEndMs(at)
  return window === 'month' ? monthEndMs(at) : undefined
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

/**
 * The calendar of an organisation: hours, days, weeks and months in its time zone. The platform's `Intl` knows the
 * zones; this finds where their windows begin and end. Days of 23 and 25 hours, and dates that a zone left out, are as
 * the zone had them.
 */

import { DAY_MS, HOUR_MS, MINUTE_MS } from './durations.ts'

/** A window of the calendar. Weeks begin on Monday. */
export type CalendarWindow = 'hour' | 'day' | 'week' | 'month'

/** One window: from its first millisecond to the first one after it. */
interface CalendarPeriod {
  readonly start: number
  readonly end: number
  /** Its first local date, in days since 1970-01-01. */
  readonly day: number
  /** `2026-10-25T02+02:00`, `2026-10-25`, `2026-W43`, `2026-10`: unique in its zone, and for people. */
  readonly name: string
}

/** A zone is east of UTC by at most 14 hours, and west of it by at most 12. */
export const EAST_MAX_MS = 14 * HOUR_MS
const WEST_MAX_MS = 12 * HOUR_MS

/**
 * A zone that has gone back to an earlier date stays there for longer than this. No zone has ever moved its clock and
 * moved it back within the two days around a midnight.
 */
const STEP_MS = 15 * MINUTE_MS

/** True if the platform knows the zone: a name such as `Europe/Berlin`, or `UTC`. */
export function isTimeZone(name: string): boolean {
  try {
    // It is kept: making one for each organisation of a large configuration takes seconds.
    calendarOf(name)
    return true
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

/** The window that a time lies in. `at`: milliseconds since 1970. Throws a RangeError for an unknown zone. */
export function windowAt(timeZone: string, window: CalendarWindow, at: number): CalendarPeriod {
  return calendarOf(timeZone).windowAt(window, at)
}

const calendars = new Map<string, Calendar>()

function calendarOf(timeZone: string): Calendar {
  let calendar = calendars.get(timeZone)
  if (calendar === undefined) {
    calendar = new Calendar(timeZone)
    calendars.set(timeZone, calendar)
  }
  return calendar
}

/** One zone. It keeps the last window of each kind, since almost every question is about that one. */
class Calendar {
  private readonly last = new Map<CalendarWindow, CalendarPeriod>()
  private readonly format: Intl.DateTimeFormat
  /** Most organisations' zone. */
  private readonly isUtc: boolean

  constructor(timeZone: string) {
    this.format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      calendar: 'gregory',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    })
    this.isUtc = this.format.resolvedOptions().timeZone === 'UTC'
  }

  windowAt(window: CalendarWindow, at: number): CalendarPeriod {
    const last = this.last.get(window)
    if (last !== undefined && at >= last.start && at < last.end) return last
    const period = window === 'hour' ? this.hourAt(at) : this.datesAt(window, at)
    this.last.set(window, period)
    return period
  }

  /**
   * Clock hours of 60 minutes. A zone that moves its clock by a part of an hour (Lord Howe Island) has one of 30
   * minutes when it goes forward, and one of 90 when it goes back: the minutes that come again belong to the hour that
   * they were in.
   */
  private hourAt(at: number): CalendarPeriod {
    const offset = this.offsetAt(at)
    const first = Math.floor((at + offset) / HOUR_MS) * HOUR_MS - offset
    const isOfSameClock = (ms: number) => (this.offsetAt(ms) - offset) % HOUR_MS === 0
    const start = isOfSameClock(first) ? first : firstThat(isOfSameClock, first, at)
    if (start > first && this.offsetAt(start - 1) > offset) return this.hourAt(start - 1)
    const after = first + HOUR_MS
    const until = isOfSameClock(after - 1) ? after : firstThat((ms) => !isOfSameClock(ms), at, after - 1)
    const later = this.offsetAt(until)
    const end = later < offset ? Math.ceil((until + later) / HOUR_MS) * HOUR_MS - later : until
    const local = start + offset
    const name = `${new Date(local).toISOString().slice(0, 13)}${offsetText(offset)}`
    return { start, end, day: Math.floor(local / DAY_MS), name }
  }

  private datesAt(window: Exclude<CalendarWindow, 'hour'>, at: number): CalendarPeriod {
    let date = Math.floor((at + this.offsetAt(at)) / DAY_MS) * DAY_MS
    // For a minute it was the next day already, and then the clock went back across midnight.
    if (at < this.startOf(date)) date -= DAY_MS
    const [first, next] = bounds(window, date)
    const [start, end] = [this.startOf(first), this.startOf(next)]
    return { start, end, day: first / DAY_MS, name: nameOf(window, first) }
  }

  /** When a local date begins for good. `date`: its midnight, as if the zone were UTC. */
  private startOf(date: number): number {
    const [earliest, latest] = [date - EAST_MAX_MS - DAY_MS, date + WEST_MAX_MS]
    const offset = this.offsetAt(latest)
    if (this.offsetAt(earliest) === offset) return date - offset
    const isEarlier = (ms: number) => ms + this.offsetAt(ms) < date
    let before = latest
    while (!isEarlier(before) && before > earliest) before -= STEP_MS
    return firstThat((ms) => !isEarlier(ms), before, before + STEP_MS)
  }

  /** How far the zone's clock is ahead of UTC at a time, in milliseconds. */
  private offsetAt(ms: number): number {
    if (this.isUtc) return 0
    const field: Record<string, number> = {}
    for (const { type, value } of this.format.formatToParts(ms)) field[type] = Number(value)
    const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0 } = field
    return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1000) * 1000
  }
}

/** The first millisecond for which a condition holds that does not hold for `no` and holds for `yes`. */
function firstThat(holds: (ms: number) => boolean, no: number, yes: number): number {
  let [below, above] = [no, yes]
  while (above - below > 1) {
    const middle = Math.floor((below + above) / 2)
    if (holds(middle)) above = middle
    else below = middle
  }
  return above
}

/** The first date of a window, and the first of the next one. */
function bounds(window: Exclude<CalendarWindow, 'hour'>, date: number): readonly [first: number, next: number] {
  if (window === 'day') return [date, date + DAY_MS]
  const day = new Date(date)
  if (window === 'week') {
    const monday = date - ((day.getUTCDay() + 6) % 7) * DAY_MS
    return [monday, monday + 7 * DAY_MS]
  }
  const [year, month] = [day.getUTCFullYear(), day.getUTCMonth()]
  return [Date.UTC(year, month, 1), Date.UTC(year, month + 1, 1)]
}

function nameOf(window: Exclude<CalendarWindow, 'hour'>, first: number): string {
  const text = new Date(first).toISOString()
  if (window === 'day') return text.slice(0, 10)
  return window === 'month' ? text.slice(0, 7) : weekName(first)
}

/** ISO 8601: a week belongs to the year of its Thursday, and the first week of a year has its first Thursday. */
function weekName(monday: number): string {
  const thursday = monday + 3 * DAY_MS
  const year = new Date(thursday).getUTCFullYear()
  const week = Math.floor((thursday - Date.UTC(year, 0, 1)) / (7 * DAY_MS)) + 1
  return `${year}-W${String(week).padStart(2, '0')}`
}

/** `+02:00` */
function offsetText(offset: number): string {
  const minutes = Math.round(Math.abs(offset) / MINUTE_MS)
  const two = (n: number) => String(n).padStart(2, '0')
  return `${offset < 0 ? '-' : '+'}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`
}

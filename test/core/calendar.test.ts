import { describe, expect, test } from 'bun:test'
import { type CalendarWindow, isTimeZone, windowAt } from '../../src/core/calendar.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/core/durations.ts'

const utc = (text: string) => Date.parse(`${text}Z`)
const iso = (ms: number) => new Date(ms).toISOString().replace(':00.000Z', '')

/** Zone, window, a time, then the start and end that the zone's clock had, in UTC. */
const known: readonly [zone: string, window: CalendarWindow, at: string, start: string, end: string, name: string][] = [
  ['UTC', 'day', '2026-11-26T10:00', '2026-11-26T00:00', '2026-11-27T00:00', '2026-11-26'],
  ['UTC', 'month', '2026-12-31T23:59', '2026-12-01T00:00', '2027-01-01T00:00', '2026-12'],
  ['Europe/Berlin', 'day', '2026-03-29T10:00', '2026-03-28T23:00', '2026-03-29T22:00', '2026-03-29'],
  ['Europe/Berlin', 'day', '2026-10-25T10:00', '2026-10-24T22:00', '2026-10-25T23:00', '2026-10-25'],
  ['Europe/Berlin', 'month', '2026-10-25T10:00', '2026-09-30T22:00', '2026-10-31T23:00', '2026-10'],
  ['Europe/Berlin', 'week', '2026-10-25T23:30', '2026-10-25T23:00', '2026-11-01T23:00', '2026-W44'],
  ['Europe/Berlin', 'hour', '2026-10-25T00:30', '2026-10-25T00:00', '2026-10-25T01:00', '2026-10-25T02+02:00'],
  ['Europe/Berlin', 'hour', '2026-10-25T01:30', '2026-10-25T01:00', '2026-10-25T02:00', '2026-10-25T02+01:00'],
  ['America/New_York', 'day', '2026-11-01T12:00', '2026-11-01T04:00', '2026-11-02T05:00', '2026-11-01'],
  ['America/New_York', 'week', '2027-01-03T12:00', '2026-12-28T05:00', '2027-01-04T05:00', '2026-W53'],
  ['Asia/Kolkata', 'hour', '2026-11-26T10:45', '2026-11-26T10:30', '2026-11-26T11:30', '2026-11-26T16+05:30'],
  // Midnight does not exist: the day begins at one o'clock.
  ['Africa/Cairo', 'day', '2026-04-24T10:00', '2026-04-23T22:00', '2026-04-24T21:00', '2026-04-24'],
  // Midnight happens twice, for one minute of the next day before.
  ['America/St_Johns', 'day', '2010-11-07T02:30', '2010-11-06T02:30', '2010-11-07T03:30', '2010-11-06'],
  ['America/St_Johns', 'day', '2010-11-07T03:30', '2010-11-07T03:30', '2010-11-08T03:30', '2010-11-07'],
  // The zone crossed the date line, and has no 30 December.
  ['Pacific/Apia', 'day', '2011-12-30T09:59', '2011-12-29T10:00', '2011-12-30T10:00', '2011-12-29'],
  ['Pacific/Apia', 'day', '2011-12-30T10:00', '2011-12-30T10:00', '2011-12-31T10:00', '2011-12-31'],
  // The clock goes back by half an hour, and the minutes that come again belong to their hour.
  ['Australia/Lord_Howe', 'hour', '2026-04-04T14:45', '2026-04-04T14:00', '2026-04-04T15:30', '2026-04-05T01+11:00'],
  ['Australia/Lord_Howe', 'hour', '2026-04-04T15:10', '2026-04-04T14:00', '2026-04-04T15:30', '2026-04-05T01+11:00'],
  ['Australia/Lord_Howe', 'hour', '2026-04-04T15:30', '2026-04-04T15:30', '2026-04-04T16:30', '2026-04-05T02+10:30'],
  // It goes forward from two to half past two.
  ['Australia/Lord_Howe', 'hour', '2026-10-03T15:10', '2026-10-03T14:30', '2026-10-03T15:30', '2026-10-04T01+10:30'],
  ['Australia/Lord_Howe', 'hour', '2026-10-03T15:45', '2026-10-03T15:30', '2026-10-03T16:00', '2026-10-04T02+11:00'],
  ['Australia/Lord_Howe', 'hour', '2026-10-03T16:00', '2026-10-03T16:00', '2026-10-03T17:00', '2026-10-04T03+11:00'],
]

describe('a window of the calendar', () => {
  for (const [zone, window, at, start, end, name] of known) {
    test(`${zone}: the ${window} of ${at} UTC is ${name}`, () => {
      const found = windowAt(zone, window, utc(at))
      expect([iso(found.start), iso(found.end), found.name]).toEqual([start, end, name])
    })
  }

  for (const zone of [
    'Europe/Berlin',
    'America/New_York',
    'America/Sao_Paulo',
    'Asia/Kolkata',
    'Africa/Cairo',
    'Pacific/Chatham',
  ]) {
    test(`${zone}: the windows follow each other without gaps through two years, by the zone's clock`, () => {
      const dateOf = new Intl.DateTimeFormat('sv-SE', { timeZone: zone, dateStyle: 'short' })
      const clock = new Intl.DateTimeFormat('en-GB', { timeZone: zone, timeStyle: 'short' })
      for (const window of ['day', 'week', 'month'] as const) {
        for (let at = utc('2025-12-31T00:00'); at < utc('2028-01-01T00:00'); ) {
          const found = windowAt(zone, window, at)
          expect(found.start).toBeLessThanOrEqual(at)
          expect(windowAt(zone, window, found.end - 1)).toEqual(found)
          expect(windowAt(zone, window, found.end).start).toBe(found.end)
          expect(dateOf.format(found.start)).not.toBe(dateOf.format(found.start - MINUTE_MS))
          if (window === 'day') expect(dateOf.format(found.start)).toBe(found.name)
          if (window === 'month') expect(dateOf.format(found.start)).toBe(`${found.name}-01`)
          if (window === 'week') {
            const weekday = new Intl.DateTimeFormat('en', { timeZone: zone, weekday: 'long' })
            expect(weekday.format(found.start)).toBe('Monday')
          }
          at = found.end
        }
      }
      for (let at = utc('2026-01-01T00:00'); at < utc('2027-01-01T00:00'); at += HOUR_MS) {
        const { start, end } = windowAt(zone, 'hour', at)
        expect(end - start).toBe(HOUR_MS)
        expect(clock.format(start)).toEndWith(':00')
      }
      expect(windowAt(zone, 'day', utc('2026-06-01T00:00') + DAY_MS)).toBe(
        windowAt(zone, 'day', utc('2026-06-02T00:00')),
      )
    })
  }

  test('a zone is one that the platform knows', () => {
    expect(['Europe/Berlin', 'UTC', 'America/Argentina/Ushuaia'].map(isTimeZone)).toEqual([true, true, true])
    expect(['Europe/Berlim', '', 'Berlin', '../etc'].map(isTimeZone)).toEqual([false, false, false, false])
  })
})

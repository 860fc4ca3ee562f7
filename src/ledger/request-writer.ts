/** Writes the log's tables: rows of requests, sums of usage; deletes rows and folds sums that are old. */

import type { Database } from 'bun:sqlite'
import { DAY_MS, HOUR_MS } from '../core/durations.ts'
import { type AuditRow, storedValues } from './audit-columns.ts'
import { addUsageSql, USAGE_SQL } from './request-table.ts'
import { addUsage, figureValues, noUsage, type UsageFigures } from './usage-figures.ts'
import type { UsagePlace, UsageRow } from './usage-log.ts'
import { isOfHourSql, seriesOfDay } from './usage-series.ts'
import { dayOf, firstKeptDay, foldedDay, HOUR_DAYS_KEPT } from './window.ts'

/** How long single requests are kept unless `audit.keep_days` specifies otherwise; their sums are kept for good. */
export const ROWS_KEPT_MS = 90 * DAY_MS
/** Deletes up to 200 commits a second; at most 50 are made. */
const DROP_EVERY_MS = 500
const DROPPED_AT_ONCE = 100

/** Bytes of a new batch. */
const BATCH_BYTES = 4096
/** A larger buffer is not kept for the next batch. */
const KEPT_BYTES = 1024 * 1024
const CHARACTER_BYTES_MAX = 3
const [BRACKET, COMMA] = Buffer.from('[,')

/**
 * Rows that wait for their commit, as the bytes of the text that will be written. As objects, or as strings made of
 * strings, they would outlive collections of young objects, and each of these would have to copy them.
 */
export class RowBatch {
  private buffer = Buffer.allocUnsafe(BATCH_BYTES)
  private used = 0
  private count = 0
  private endedMs = 0

  get size(): number {
    return this.count
  }

  add(row: AuditRow): void {
    this.addValues(storedValues(row), row.endedMs)
  }

  /** Adds a row as its stored values. */
  addValues(values: readonly (string | number)[], endedMs: number): void {
    const text = JSON.stringify(values)
    this.reserve(CHARACTER_BYTES_MAX * text.length + 1)
    this.buffer[this.used] = (this.count === 0 ? BRACKET : COMMA) ?? 0
    this.used += 1 + this.buffer.write(text, this.used + 1)
    this.count += 1
    this.endedMs = Math.max(this.endedMs, endedMs)
  }

  /** The JSON text of all rows, and when the last of them ended. */
  read(): { readonly rows: string; readonly endedMs: number } {
    return { rows: this.count === 0 ? '[]' : `${this.buffer.toString('utf8', 0, this.used)}]`, endedMs: this.endedMs }
  }

  clear(): void {
    if (this.buffer.length > KEPT_BYTES) this.buffer = Buffer.allocUnsafe(BATCH_BYTES)
    this.used = 0
    this.count = 0
    this.endedMs = 0
  }

  private reserve(bytes: number): void {
    if (this.used + bytes <= this.buffer.length) return
    const larger = Buffer.allocUnsafe(2 ** Math.ceil(Math.log2(this.used + bytes)))
    larger.set(this.buffer.subarray(0, this.used))
    this.buffer = larger
  }
}

/** Usage that waits for its commit, summed by day, organisation, key and model. */
export class UsageSums {
  private readonly sums = new Map<string, UsageSum>()
  /** The sum that was added to last: most often the next is the same, and finding it by name takes 0.1 µs. */
  private last: UsageSum | undefined

  add(place: UsagePlace, figures: UsageFigures): void {
    const sum = this.last !== undefined && isSamePlace(this.last.place, place) ? this.last : this.find(place)
    sum.figures = addUsage(sum.figures, figures)
    this.last = sum
  }

  private find(place: UsagePlace): UsageSum {
    const name = `${place.day}\0${place.organization}\0${place.key}\0${place.series}`
    const known = this.sums.get(name)
    if (known !== undefined) return known
    const sum = { place, figures: noUsage }
    this.sums.set(name, sum)
    return sum
  }

  each(call: (place: UsagePlace, figures: UsageFigures) => void): void {
    for (const { place, figures } of this.sums.values()) call(place, figures)
  }

  get size(): number {
    return this.sums.size
  }
}

interface UsageSum {
  readonly place: UsagePlace
  figures: UsageFigures
}

function isSamePlace(a: UsagePlace, b: UsagePlace): boolean {
  return a.key === b.key && a.series === b.series && a.organization === b.organization && a.day === b.day
}

/** Writes both tables; for use inside a transaction. */
export class LogWriter {
  private readonly putBatch
  private readonly addUsage
  private readonly dropBatches
  private readonly oldDay
  private readonly rowsOf
  private readonly rowsOfHours
  private readonly dropUsage
  private droppedMs = 0
  private hoursFoldedMs = 0
  /** Days before this one have no sums by hour. */
  private hoursFoldedTo = -1
  private foldedMs = 0
  /** Days before this one are folded. */
  private foldedTo = -1

  /** `keepMs`: how long single requests are kept. */
  constructor(
    database: Database,
    private readonly keepMs: number,
  ) {
    this.putBatch = database.query('INSERT INTO request_batch (ended_ms, rows) VALUES (?, ?)')
    this.addUsage = database.query(addUsageSql('usage'))
    this.oldDay = database.query<{ day: number }, [number, number]>(
      'SELECT day FROM usage WHERE day >= ? AND day < ? ORDER BY day LIMIT 1',
    )
    this.rowsOf = database.query<UsageRow, [number, number]>(`SELECT ${USAGE_SQL} FROM usage WHERE day = ? LIMIT ?`)
    this.rowsOfHours = database.query<UsageRow, [number, number]>(
      `SELECT ${USAGE_SQL} FROM usage WHERE day = ? AND ${isOfHourSql('model')} LIMIT ?`,
    )
    this.dropUsage = database.query('DELETE FROM usage WHERE day = ? AND organization = ? AND key = ? AND model = ?')
    this.dropBatches = database.query(
      `DELETE FROM request_batch
       WHERE number IN (SELECT number FROM request_batch WHERE ended_ms < ? ORDER BY ended_ms LIMIT ?)`,
    )
  }

  /** Writes rows that are a JSON text already. Returns the number of the batch. */
  rows(json: string, endedMs: number): number {
    return Number(this.putBatch.run(endedMs, json).lastInsertRowid)
  }

  usage(place: UsagePlace, figures: UsageFigures): void {
    this.addUsage.run(place.day, place.organization, place.key, place.series, ...figureValues(figures))
  }

  /**
   * Folds a few old rows of usage into the first day of their months, at most once each 500 ms. Returns the first day
   * that is kept by day if it folded any.
   */
  foldOld(now: number, today = dayOf(now)): number | undefined {
    if (now - this.foldedMs < DROP_EVERY_MS) return undefined
    this.foldedMs = now
    const row = this.oldDay.get(this.foldedTo, firstKeptDay(today))
    if (row === null) {
      // Everything is folded; the next check is in an hour.
      this.foldedMs = now + HOUR_MS
      this.foldedTo = -1
      return undefined
    }
    const month = foldedDay(row.day, today)
    if (month === row.day) {
      this.foldedTo = row.day + 1
      return undefined
    }
    for (const one of this.rowsOf.all(row.day, DROPPED_AT_ONCE))
      this.move(one, { ...one, day: month, series: seriesOfDay(one.series) })
    return firstKeptDay(today)
  }

  /** Folds a few sums of hours that are older than 31 days into those of their days, at most once each 500 ms. */
  foldHours(now: number): void {
    if (now - this.hoursFoldedMs < DROP_EVERY_MS) return
    this.hoursFoldedMs = now
    const row = this.oldDay.get(this.hoursFoldedTo, dayOf(now) - HOUR_DAYS_KEPT)
    if (row === null) {
      this.hoursFoldedMs = now + HOUR_MS
      return
    }
    const rows = this.rowsOfHours.all(row.day, DROPPED_AT_ONCE)
    for (const one of rows) this.move(one, { ...one, series: seriesOfDay(one.series) })
    if (rows.length === 0) this.hoursFoldedTo = row.day + 1
  }

  private move(row: UsageRow, to: UsagePlace): void {
    this.usage(to, row)
    this.dropUsage.run(row.day, row.organization, row.key, row.series)
  }

  /** Deletes a few old commits, at most once each 500 ms, so that every commit stays short. */
  dropOld(now: number): void {
    if (now - this.droppedMs < DROP_EVERY_MS) return
    this.droppedMs = now
    this.dropBatches.run(now - this.keepMs, DROPPED_AT_ONCE)
  }
}

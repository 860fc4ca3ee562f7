/**
 * What commands print in columns: tables of short words that fit the width of a terminal (in a pipe, all columns and no
 * colour), and CSV.
 */

import { environment } from '../config/load.ts'
import type { Given } from '../reports/parameters.ts'

export interface Column<Row> {
  readonly heading: string
  readonly cell: (row: Row) => string
  /** Numbers are aligned to the right. */
  readonly isNumber?: boolean
  /** Columns with the lowest priority are dropped first if the table is too wide; one without is never dropped. */
  readonly priority?: number
}

export interface Display {
  /** The most characters of a line. Infinity: all columns are shown. */
  readonly width: number
  /** Whether the headings may be emphasised. */
  readonly isColoured: boolean
}

const GAP = '  '

/** A table that is printed in one piece or several. The first one has the headings, and decides which columns fit. */
export class TextTable<Row> {
  private kept: readonly number[] | undefined

  constructor(
    private readonly columns: readonly Column<Row>[],
    private readonly display: Display,
  ) {}

  /** The lines of these rows, each with its newline. Widths are those of the piece. */
  print(rows: readonly Row[]): string {
    const isFirst = this.kept === undefined
    const headings = this.columns.map(({ heading }) => heading)
    const texts = rows.map((row) => this.columns.map(({ cell }) => cell(row)))
    const measured = isFirst ? [headings, ...texts] : texts
    const widths = this.columns.map((_, at) => Math.max(0, ...measured.map((row) => row[at]?.length ?? 0)))
    this.kept ??= fitting(this.columns, widths, this.display.width)
    const lines = texts.map((cells) => this.line(cells, widths))
    if (isFirst) lines.unshift(this.emphasised(this.line(headings, widths)))
    return lines.map((line) => `${line}\n`).join('')
  }

  private line(cells: readonly string[], widths: readonly number[]): string {
    const shown = (this.kept ?? []).map((at) => {
      const [cell, width] = [cells[at] ?? '', widths[at] ?? 0]
      return this.columns[at]?.isNumber === true ? cell.padStart(width) : cell.padEnd(width)
    })
    return shown.join(GAP).trimEnd()
  }

  private emphasised(line: string): string {
    return this.display.isColoured ? `\u001b[1m${line}\u001b[0m` : line
  }
}

/** The indexes of the columns that fit. */
function fitting<Row>(columns: readonly Column<Row>[], widths: readonly number[], width: number): readonly number[] {
  let kept = columns.map((_, at) => at)
  const total = () => kept.reduce((sum, at) => sum + (widths[at] ?? 0) + GAP.length, -GAP.length)
  const droppable = kept
    .filter((at) => columns[at]?.priority !== undefined)
    .sort((one, other) => (columns[one]?.priority ?? 0) - (columns[other]?.priority ?? 0))
  for (const at of droppable) {
    if (total() <= width) break
    kept = kept.filter((other) => other !== at)
  }
  return kept
}

/** A terminal that does not report its width. */
const WIDTH = 80

/**
 * On a terminal its width; in a pipe `COLUMNS`, if it is set. `isWide`: the flag `--wide`. No colour with `NO_COLOR`,
 * whatever its value, or on a terminal that has none.
 */
export function displayOf(isWide: boolean): Display {
  const { COLUMNS, NO_COLOR, TERM } = environment()
  const { isTTY, columns } = process.stdout
  const given = /^[1-9]\d{0,4}$/.test(COLUMNS ?? '') ? Number(COLUMNS) : undefined
  const width = isTTY ? columns || given || WIDTH : (given ?? Number.POSITIVE_INFINITY)
  return {
    width: isWide ? Number.POSITIVE_INFINITY : width,
    isColoured: isTTY && (NO_COLOR ?? '') === '' && TERM !== 'dumb',
  }
}

/** One line of CSV (RFC 4180) with its newline. */
export function csvLine(values: readonly (string | number | boolean)[]): string {
  return `${values.map(cell).join(',')}\n`
}

/** Quoted if it has a character that would end the cell. */
function cell(value: string | number | boolean): string {
  const text = String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** Micro-dollars as dollars with six decimals, so that a column of them aligns: `$1.000125`. */
export function fixedDollars(microUsd: number): string {
  const micro = BigInt(microUsd)
  return `$${micro / 1_000_000n}.${(micro % 1_000_000n).toString().padStart(6, '0')}`
}

export type Form = 'table' | 'json' | 'csv'

/** What the flags `--json` and `--csv` ask for. */
export function formOf({ json, csv }: Given): Form {
  return json === true ? 'json' : csv === true ? 'csv' : 'table'
}

/** `2026-11-21T12:00Z`; `-` if there is no time. */
export function minuteText(ms: number | undefined): string {
  return ms === undefined ? '-' : `${new Date(ms).toISOString().slice(0, 16)}Z`
}

/** `weir reconcile`: usage of the audit trail against the bills of providers, whether or not the gateway runs. */

import { quoted } from '../config/problems.ts'
import { instant } from '../config/timestamps.ts'
import { DAY_MS } from '../core/durations.ts'
import { BillProblem, type ProviderBill, readBill } from '../reports/provider-bill.ts'
import { FIELDS, type ReconcileOptions, type Reconciliation, reconcile } from '../reports/reconciliation.ts'
import { exit, type Flags, misused, parseFlags, printToStderr, readFile } from './command.ts'
import { configured } from './ledger-access.ts'
import { type Column, displayOf, fixedDollars, TextTable } from './text-table.ts'

/** Returns the exit code: 1 if a row differs by more than the tolerance. */
export async function reconcileBills(args: readonly string[]): Promise<number> {
  const { flags, lists } = parseFlags(args, 'reconcile')
  const tolerance = toleranceOf(flags['tolerance'])
  if (tolerance === undefined)
    return misused(`--tolerance must be a share such as 1% or 0.01, not ${quoted(String(flags['tolerance']))}`)
  const files = lists['from'] ?? []
  const bills = files.map((file) => readFile(file, readBill, BillProblem))
  bills.forEach((bill, index) => {
    if (bill.isCut && !bills.some((other) => continues(other, bill)))
      printToStderr(`warning: ${files[index]} has no last page (has_more is true); fetch the other pages, too`)
  })
  const range = rangeOf(flags, bills)
  if (typeof range === 'string') return misused(range)
  const config = await configured(flags['config'])
  const kept = dayText(Date.now() - config.audit.keepDays * DAY_MS)
  if (range.since < kept) printToStderr(`warning: the audit is kept for audit.keep_days, so from ${kept} on`)
  const { isAbove, ...found } = await reconcile(config, bills, { ...range, tolerance })
  process.stdout.write(flags['json'] === true ? `${JSON.stringify(jsonOf(found))}\n` : textOf(found, flags))
  return isAbove ? exit.wrong : exit.done
}

/** `1%` or `0.01`. */
function toleranceOf(flag: string | boolean | undefined): number | undefined {
  const [, number, unit] = /^(\d{1,3}(?:\.\d{1,9})?)(%?)$/.exec(String(flag ?? '1%')) ?? []
  if (number === undefined) return undefined
  const share = unit === '%' ? Number(number) / 100 : Number(number)
  return share <= 1 ? share : undefined
}

/** Whether a file has later pages of the same report. */
function continues(other: ProviderBill, bill: ProviderBill): boolean {
  const kindOf = ({ lines }: ProviderBill) => lines.map(({ source, tokens }) => `${source} ${tokens === undefined}`)[0]
  return kindOf(other) === kindOf(bill) && (other.dates.at(-1) ?? '') > (bill.dates.at(-1) ?? '')
}

/** The days of the flags; without them, those of the bills. */
function rangeOf(flags: Flags, bills: readonly ProviderBill[]): Omit<ReconcileOptions, 'tolerance'> | string {
  const dates = bills.flatMap((bill) => bill.dates).sort()
  const [first, last] = [dates[0] ?? dayText(Date.now()), dates.at(-1) ?? dayText(Date.now())]
  const since = dayOfFlag(flags['since'], first)
  const until = dayOfFlag(flags['until'], dayText(Date.parse(last) + DAY_MS))
  if (since === undefined) return `--since must be a date (2026-11-01), not ${quoted(String(flags['since']))}`
  if (until === undefined) return `--until must be a date (2026-12-01), not ${quoted(String(flags['until']))}`
  if (until <= since) return `--until ${until} must be after --since ${since}: the day of --until is not included`
  return { since, until }
}

function dayOfFlag(flag: string | boolean | undefined, fallback: string): string | undefined {
  if (flag === undefined) return fallback
  return typeof flag === 'string' && flag.length === 10 && instant(flag) !== undefined ? flag : undefined
}

function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

type Figures = Reconciliation['total']['ours']

/** Money in dollars. */
function figuresOf(figures: Figures): Readonly<Record<string, number | null>> {
  return Object.fromEntries(
    FIELDS.map(([field, name]) => [name, isMoney(field) ? dollars(figures[field]) : figures[field]]),
  )
}

function isMoney(field: (typeof FIELDS)[number][0]): boolean {
  return field === 'microUsd'
}

function dollars(microUsd: number | null): number | null {
  return microUsd === null ? null : Math.round(microUsd) / 1_000_000
}

function jsonOf({ since, until, rows, total }: Reconciliation) {
  const sides = ({ ours, theirs, difference }: Reconciliation['total']) => ({
    ...{ ours: figuresOf(ours), theirs: figuresOf(theirs), difference: figuresOf(difference) },
  })
  return {
    ...{ since, until },
    rows: rows.map((row) => ({ date: row.date, model: row.model, ...sides(row), cause: row.cause })),
    total: sides(total),
  }
}

/** One figure of a row. */
interface Line extends Omit<Reconciliation['rows'][number], 'cause'> {
  readonly cause: string | null
  readonly figure: (typeof FIELDS)[number]
}

const side = (name: 'ours' | 'theirs' | 'difference'): Column<Line> => ({
  heading: name,
  isNumber: true,
  cell: (line) => cellOf(line[name][line.figure[0]], isMoney(line.figure[0])),
})

const COLUMNS: readonly Column<Line>[] = [
  { heading: 'date', cell: ({ date }) => date },
  { heading: 'model', cell: ({ model }) => model },
  { heading: '', cell: ({ figure: [, name] }) => name },
  side('ours'),
  side('theirs'),
  side('difference'),
  {
    heading: 'cause',
    priority: 1,
    cell: ({ cause, difference, figure: [field] }) => (difference[field] === 0 ? '' : (cause ?? '')),
  },
]

/** A line for each figure that either side has. */
function textOf({ rows, total }: Reconciliation, flags: Flags): string {
  const lines = [...rows, { date: 'total', model: '', ...total, cause: null }].flatMap((row) => {
    const shown = FIELDS.filter(([field]) => row.theirs[field] !== null && (row.ours[field] || row.theirs[field]))
    return shown.map((figure) => ({ ...row, figure }))
  })
  return new TextTable(COLUMNS, displayOf(flags['wide'] === true)).print(lines)
}

function cellOf(value: number | null, isAmount: boolean): string {
  if (value === null) return '-'
  if (!isAmount) return String(value)
  return `${value < 0 ? '-' : ''}${fixedDollars(Math.round(Math.abs(value)))}`
}

/**
 * `weir audit`: prints the audit trail, one line per request, whether or not the gateway runs. Prints page by page:
 * there may be millions of lines.
 */

import { openAuditLog } from '../assembly/open-ledger.ts'
import { tagsText, tierOfTags } from '../core/tags.ts'
import { type AuditColumn, type AuditRow, auditColumns, SERVICE_TIER } from '../ledger/audit-columns.ts'
import type { AuditLog, AuditQuery } from '../ledger/audit-log.ts'
import { type AuditOptions, auditLine, auditOptions, jsonOf, lastRows, wantedBy } from '../reports/audit-options.ts'
import { withLedger } from '../reports/ledger-part.ts'
import { adminAudit } from './admin-audit-command.ts'
import { exit, misused, parseFlags, printToStderr } from './command.ts'
import { configured, unknownTags } from './ledger-access.ts'
import { type Column, csvLine, displayOf, type Form, fixedDollars, formOf, TextTable } from './text-table.ts'

/** Returns the exit code. */
export async function audit(args: readonly string[]): Promise<number> {
  const { flags } = parseFlags(args, 'audit')
  if (flags['admin'] === true) return adminAudit(flags)
  const options = auditOptions(flags, Date.now())
  if (typeof options === 'string') return misused(options)
  const config = await configured(flags['config'])
  for (const remark of unknownTags(config, Object.keys(options.tags))) printToStderr(remark)
  await withLedger(openAuditLog, config, (log) =>
    print(new Unread(log), options, {
      form: formOf(flags),
      isWide: flags['wide'] === true,
      follows: flags['follow'] === true,
      // Without the flag, what is read at first ends in a day, and what is followed does not.
      untilMs: flags['until'] === undefined ? Number.POSITIVE_INFINITY : options.query.untilMs,
    }),
  )
  return exit.done
}

/** How the trail is printed. */
interface Printing {
  readonly form: Form
  readonly isWide: boolean
  /** Whether lines that are added later are printed, too. */
  readonly follows: boolean
  /** Lines that are added later are printed if their requests ended before this time. */
  readonly untilMs: number
}

const FOLLOW_MS = 1000
/** The rows of one commit, and those of several gateways, are not in the order of their ends. */
const LATE_MS = 60_000

/**
 * An audit trail of which each row is read once: reads overlap, because rows may be added later than others that ended
 * after them.
 */
class Unread implements Pick<AuditLog, 'read'> {
  /** When the rows ended that the next read may find again, by their ids and kinds. */
  private readonly known = new Map<string, number>()
  private sinceMs = 0

  constructor(private readonly log: AuditLog) {}

  async *read(query: AuditQuery): AsyncGenerator<readonly AuditRow[]> {
    const sinceMs = Math.max(query.sinceMs, this.sinceMs)
    // What ends, or is added, from now on may not be found before the next read.
    this.sinceMs = Math.max(this.sinceMs, Date.now() - LATE_MS)
    for await (const page of this.log.read({ ...query, sinceMs })) {
      const unread = page.filter((row) => !this.known.has(nameOf(row)))
      for (const row of unread) if (row.endedMs >= this.sinceMs) this.known.set(nameOf(row), row.endedMs)
      yield unread
    }
    for (const [name, endedMs] of this.known) if (endedMs < this.sinceMs) this.known.delete(name)
  }
}

/** A request that is lost and settled later has a row of each kind. */
function nameOf({ id, kind }: AuditRow): string {
  return `${id} ${kind}`
}

async function print(log: Unread, options: AuditOptions, printing: Printing): Promise<void> {
  const { form } = printing
  // A failed write is reported to its callback. Without a listener the event would also end the process.
  process.stdout.on('error', () => undefined)
  if (form === 'csv' && !(await write(csvLine(CSV_HEADINGS)))) return
  // Each page has its own column widths; the heading comes once, above the first page, even if there are no rows.
  const table = new TextTable(COLUMNS, displayOf(printing.isWide))
  const isReaderThere =
    options.limit === Number.POSITIVE_INFINITY
      ? await printAll(log, options, form, table)
      : await printLast(log, options, form, table)
  if (!isReaderThere || !printing.follows) return
  await follow(log, options, printing.untilMs, (rows) => write(printed(form, rows, table)))
}

/** False if the reader is gone. */
async function printAll(log: Unread, options: AuditOptions, form: Form, table: TextTable<AuditRow>): Promise<boolean> {
  const isWanted = wantedBy(options)
  let isEmpty = true
  for await (const page of log.read(options.query)) {
    const rows = page.filter(isWanted)
    if (rows.length === 0) continue
    isEmpty = false
    if (!(await write(printed(form, rows, table)))) return false
  }
  return form !== 'table' || !isEmpty || (await write(table.print([])))
}

/** False if the reader is gone. */
async function printLast(log: Unread, options: AuditOptions, form: Form, table: TextTable<AuditRow>): Promise<boolean> {
  const { rows, left } = await lastRows(log, options)
  const isWorthwhile = rows.length > 0 || form === 'table'
  if (isWorthwhile && !(await write(printed(form, rows, table)))) return false
  if (left > 0) printToStderr(`the last ${rows.length} of ${left + rows.length} lines; --limit 0 prints all`)
  return true
}

/** Prints what is added, until the reader is gone or a signal ends the process. */
async function follow(
  log: Unread,
  options: AuditOptions,
  untilMs: number,
  print: (rows: readonly AuditRow[]) => Promise<boolean>,
): Promise<void> {
  const isWanted = wantedBy(options)
  for (;;) {
    await Bun.sleep(FOLLOW_MS)
    const rows: AuditRow[] = []
    for await (const page of log.read({ ...options.query, untilMs: Math.min(untilMs, Date.now() + LATE_MS) }))
      rows.push(...page.filter(isWanted))
    if (rows.length > 0 && !(await print(rows))) return
  }
}

/** Waits for a slow reader. False if the reader is gone, as after `| head`. */
function write(text: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => {
      if (!(error instanceof Error)) resolve(true)
      else if ('code' in error && error.code === 'EPIPE') resolve(false)
      else reject(error)
    })
  })
}

function printed(form: Form, rows: readonly AuditRow[], table: TextTable<AuditRow>): string {
  switch (form) {
    case 'json':
      return rows.map((row) => `${JSON.stringify(auditLine(row))}\n`).join('')
    case 'csv':
      return rows.map((row) => csvLine(csvCells(row))).join('')
    case 'table':
      return table.print(rows)
  }
}

/** In the order of JSON. */
const CSV_HEADINGS = [...auditColumns.map(({ name }) => name), SERVICE_TIER]

function csvCells(row: AuditRow): readonly (string | number | boolean)[] {
  return [...auditColumns.map((column) => csvOf(column, row)), tierOfTags(row.tags)]
}

/** A value as CSV has it; tags are `project=checkout,team=payments`. */
function csvOf(column: AuditColumn, row: AuditRow): string | number | boolean {
  const value = jsonOf(column, row) ?? ''
  return typeof value === 'object' ? tagsText(Object.entries(value)) : value
}

/** A value as the table shows it. */
function cellOf({ type, field }: AuditColumn, row: AuditRow): string {
  const value = row[field]
  switch (type) {
    case 'time':
      return `${new Date(Number(value)).toISOString().slice(0, 19)}Z`
    case 'money':
      return fixedDollars(Number(value))
    case 'flag':
      return value === true ? 'yes' : 'no'
    default:
      return value === '' ? '-' : String(value)
  }
}

/** The first that a narrow terminal drops comes first. The time, the model and the cost always stay. */
const DROPPED: readonly AuditColumn['field'][] = [
  'overageMicroUsd',
  'kind',
  'estimated',
  'organization',
  'id',
  'provider',
  'inputTokens',
  'outputTokens',
  'key',
  'outcome',
]

/** From left to right. */
const COLUMNS: readonly Column<AuditRow>[] = auditColumns
  .filter(({ shown }) => shown !== undefined)
  .sort((one, other) => (one.shown?.[0] ?? 0) - (other.shown?.[0] ?? 0))
  .map((column) => ({
    heading: column.shown?.[1] ?? '',
    isNumber: column.type === 'count' || column.type === 'money' || column.type === 'flag',
    cell: (row) => cellOf(column, row),
    ...(DROPPED.includes(column.field) ? { priority: DROPPED.indexOf(column.field) } : {}),
  }))

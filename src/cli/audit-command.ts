/**
 * `weir audit`: prints the audit trail, one line per request, whether or not the gateway runs. Prints page by page:
 * there may be millions of lines.
 */

import { openAuditLog } from '../assembly/open-ledger.ts'
import { quoted } from '../config/problems.ts'
import { instant } from '../config/timestamps.ts'
import { type AuditColumn, type AuditRow, auditColumns } from '../ledger/audit-columns.ts'
import type { AuditLog, AuditQuery } from '../ledger/audit-log.ts'
import { fixedDollars } from './amounts.ts'
import { exit, type Flags, misused, parseFlags } from './command.ts'
import { csvLine } from './csv.ts'
import { displayOf } from './display.ts'
import { configured, untilProblem, withLedger } from './ledger-access.ts'
import { type Column, TextTable } from './text-table.ts'

const DAY_MS = 86_400_000

type Form = 'table' | 'json' | 'csv'

/** Returns the exit code. */
export async function audit(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'audit')
  if ('code' in parsed) return parsed.code
  const query = queryOf(parsed.flags, Date.now())
  if (typeof query === 'string') return misused(query)
  const read = await configured(parsed.flags['config'])
  if ('code' in read) return read.code
  const { json, csv } = parsed.flags
  const form = json === true ? 'json' : csv === true ? 'csv' : 'table'
  return untilProblem(async () => {
    await withLedger(openAuditLog, read.config, (log) => print(log, query, form, parsed.flags['wide'] === true))
    return exit.done
  })
}

async function print(log: AuditLog, query: AuditQuery, form: Form, isWide: boolean): Promise<void> {
  // A failed write is reported to its callback. Without a listener the event would also end the process.
  process.stdout.on('error', () => undefined)
  if (form === 'csv' && !(await write(csvLine(auditColumns.map(({ name }) => name))))) return
  // Each page has its own column widths; the heading comes once, above the first page, even if there are no rows.
  const table = new TextTable(COLUMNS, displayOf(isWide))
  let isEmpty = true
  for await (const rows of log.read(query)) {
    isEmpty = false
    if (!(await write(printed(form, rows, table)))) return
  }
  if (form === 'table' && isEmpty) await write(table.print([]))
}

/** The query, or what is wrong with the flags. */
function queryOf(flags: Flags, nowMs: number): AuditQuery | string {
  const { org, key, request, since, until, json, csv } = flags
  if (json === true && csv === true) return '--json and --csv exclude each other'
  const today = nowMs - (nowMs % DAY_MS)
  const sinceMs = typeof since === 'string' ? instant(since) : request === undefined ? today : 0
  // Includes requests that end in this millisecond; a time in the future is allowed.
  const untilMs = typeof until === 'string' ? instant(until) : Math.max(nowMs, sinceMs ?? 0) + DAY_MS
  const form = 'a date (2026-11-01) or an RFC 3339 time'
  if (sinceMs === undefined) return `--since must be ${form}, not ${quoted(String(since))}`
  if (untilMs === undefined) return `--until must be ${form}, not ${quoted(String(until))}`
  if (untilMs <= sinceMs) return '--until must be after --since'
  return {
    sinceMs,
    untilMs,
    organization: typeof org === 'string' ? org : undefined,
    key: typeof key === 'string' ? key : undefined,
    id: typeof request === 'string' ? request : undefined,
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

function printed(form: Form, rows: readonly AuditRow[], table: TextTable): string {
  switch (form) {
    case 'json':
      return rows
        .map(
          (row) =>
            `${JSON.stringify(Object.fromEntries(auditColumns.map((column) => [column.name, jsonOf(column, row)])))}\n`,
        )
        .join('')
    case 'csv':
      return rows.map((row) => csvLine(auditColumns.map((column) => jsonOf(column, row) ?? ''))).join('')
    case 'table':
      return table.print(rows.map((row) => shownColumns.map((column) => cellOf(column, row))))
  }
}

/** A value as JSON and CSV have it; null if it is not known. */
function jsonOf({ type, field }: AuditColumn, row: AuditRow): string | number | boolean | null {
  const value = row[field]
  if (type === 'time') return value === 0 ? null : new Date(Number(value)).toISOString()
  return value === '' ? null : value
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

/** The columns of the table, from left to right. */
const shownColumns = auditColumns
  .filter(({ shown }) => shown !== undefined)
  .sort((one, other) => (one.shown?.[0] ?? 0) - (other.shown?.[0] ?? 0))

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

const COLUMNS: readonly Column[] = shownColumns.map(({ field, type, shown }) => ({
  heading: shown?.[1] ?? '',
  isNumber: type === 'count' || type === 'money' || type === 'flag',
  ...(DROPPED.includes(field) ? { priority: DROPPED.indexOf(field) } : {}),
}))

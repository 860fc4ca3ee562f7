/**
 * `weir audit`: prints the audit trail, one line per request, whether or not the gateway runs. Prints page by page:
 * there may be millions of lines.
 */

import { openAuditLog } from '../assembly/open-ledger.ts'
import { quoted } from '../config/problems.ts'
import { instant } from '../config/timestamps.ts'
import { tagsByName, tagsText } from '../core/tags.ts'
import { type AuditColumn, type AuditRow, auditColumns, type Outcome } from '../ledger/audit-columns.ts'
import type { AuditLog, AuditQuery } from '../ledger/audit-log.ts'
import { adminAudit } from './admin-audit-command.ts'
import { fixedDollars } from './amounts.ts'
import { exit, type Flags, misused, parseFlags, printToStderr } from './command.ts'
import { csvLine } from './csv.ts'
import { displayOf } from './display.ts'
import { configured, untilProblem, withLedger } from './ledger-access.ts'
import { type Column, TextTable } from './text-table.ts'

const DAY_MS = 86_400_000

type Form = 'table' | 'json' | 'csv'

/** Lines without `--limit`. */
const LIMIT = 100

const OUTCOMES = [
  'completed',
  'caller_left',
  'provider_cut',
  'timed_out',
  'drained',
  'refused',
] as const satisfies readonly Outcome[]

const TAG_PAIRS = /^[^=,]+=[^=,]+(?:,[^=,]+=[^=,]+)*$/

/** Returns the exit code. */
export async function audit(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, 'audit')
  if ('code' in parsed) return parsed.code
  if (parsed.flags['admin'] === true) return adminAudit(parsed.flags)
  const question = questionOf(parsed.flags, Date.now())
  if (typeof question === 'string') return misused(question)
  const read = await configured(parsed.flags['config'])
  if ('code' in read) return read.code
  return untilProblem(async () => {
    await withLedger(openAuditLog, read.config, (log) => print(log, question))
    return exit.done
  })
}

/** What of the trail is printed. */
interface Question {
  readonly query: AuditQuery
  readonly model: string | undefined
  readonly outcome: string | undefined
  /** All of them, with these values. */
  readonly tags: Readonly<Record<string, string>>
  /** The last lines; Infinity for all of them. */
  readonly limit: number
  /** Whether lines that are added later are printed, too. */
  readonly follows: boolean
  readonly form: Form
  readonly isWide: boolean
}

const FOLLOW_MS = 1000
/** The rows of one commit, and those of several gateways, are not in the order of their ends. */
const LATE_MS = 60_000

async function print(log: AuditLog, question: Question): Promise<void> {
  const { query, form, limit } = question
  // A failed write is reported to its callback. Without a listener the event would also end the process.
  process.stdout.on('error', () => undefined)
  if (form === 'csv' && !(await write(csvLine(auditColumns.map(({ name }) => name))))) return
  // Each page has its own column widths; the heading comes once, above the first page, even if there are no rows.
  const table = new TextTable(COLUMNS, displayOf(question.isWide))
  const wanted = Object.entries(question.tags)
  const isWanted = ({ model, outcome, tags }: AuditRow) =>
    model === (question.model ?? model) &&
    outcome === (question.outcome ?? outcome) &&
    (wanted.length === 0 || hasTags(tags, wanted))
  let last: readonly AuditRow[] = []
  let left = 0
  let isEmpty = true
  for await (const page of log.read(query)) {
    const rows = page.filter(isWanted)
    if (limit === Number.POSITIVE_INFINITY) {
      if (rows.length === 0) continue
      isEmpty = false
      if (!(await write(printed(form, rows, table)))) return
    } else {
      left += Math.max(0, last.length + rows.length - limit)
      last = [...last, ...rows].slice(-limit)
    }
  }
  if (last.length > 0 && !(await write(printed(form, last, table)))) return
  if (form === 'table' && isEmpty && last.length === 0 && !(await write(table.print([])))) return
  if (left > 0) printToStderr(`the last ${last.length} of ${left + last.length} lines; --limit 0 prints all`)
  if (question.follows) await follow(log, question, (rows) => write(printed(form, rows.filter(isWanted), table)))
}

/** Prints what is added, until the reader is gone or a signal ends the process. */
async function follow(
  log: AuditLog,
  { query }: Question,
  print: (rows: readonly AuditRow[]) => Promise<boolean>,
): Promise<void> {
  let sinceMs = Date.now() - LATE_MS
  const seen = new Map<string, number>()
  const fresh = async () => {
    const found: AuditRow[] = []
    const untilMs = Date.now() + LATE_MS
    for await (const page of log.read({ ...query, sinceMs: Math.max(sinceMs, query.sinceMs), untilMs }))
      for (const row of page) if (!seen.has(`${row.id} ${row.kind}`)) found.push(row)
    for (const { id, kind, endedMs } of found) seen.set(`${id} ${kind}`, endedMs)
    sinceMs = Date.now() - LATE_MS
    for (const [name, endedMs] of seen) if (endedMs < sinceMs - LATE_MS) seen.delete(name)
    return found
  }
  // What was printed already.
  await fresh()
  for (;;) {
    await Bun.sleep(FOLLOW_MS)
    const rows = await fresh()
    if (rows.length > 0 && !(await print(rows))) return
  }
}

/** The query, or what is wrong with the flags. */
function questionOf(flags: Flags, nowMs: number): Question | string {
  const { json, csv, limit, model, outcome, tag } = flags
  if (json === true && csv === true) return '--json and --csv exclude each other'
  if (limit !== undefined && !/^\d{1,9}$/.test(String(limit)))
    return `--limit must be a whole number, not ${quoted(String(limit))}`
  if (outcome !== undefined && !OUTCOMES.some((known) => known === outcome))
    return `--outcome must be one of ${OUTCOMES.join(', ')}, not ${quoted(String(outcome))}`
  if (tag !== undefined && !TAG_PAIRS.test(String(tag)))
    return `--tag must be NAME=VALUE, or several with commas between them, not ${quoted(String(tag))}`
  const query = queryOf(flags, nowMs)
  if (typeof query === 'string') return query
  const count = Number(limit ?? LIMIT)
  return {
    query,
    model: typeof model === 'string' ? model : undefined,
    outcome: typeof outcome === 'string' ? outcome : undefined,
    tags: tagsByName(typeof tag === 'string' ? tag : ''),
    limit: count === 0 ? Number.POSITIVE_INFINITY : count,
    follows: flags['follow'] === true,
    form: json === true ? 'json' : csv === true ? 'csv' : 'table',
    isWide: flags['wide'] === true,
  }
}

function hasTags(text: string, wanted: readonly (readonly [name: string, value: string])[]): boolean {
  const tags = tagsByName(text)
  return wanted.every(([name, value]) => tags[name] === value)
}

function queryOf(flags: Flags, nowMs: number): AuditQuery | string {
  const { org, key, request, since, until } = flags
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
      return rows.map((row) => csvLine(auditColumns.map((column) => csvOf(column, row)))).join('')
    case 'table':
      return table.print(rows.map((row) => shownColumns.map((column) => cellOf(column, row))))
  }
}

type Json = string | number | boolean | null | Readonly<Record<string, string>>

/** A value as JSON has it; null if it is not known. */
function jsonOf({ type, field }: AuditColumn, row: AuditRow): Json {
  const value = row[field]
  if (type === 'tags') return tagsByName(row.tags)
  if (type === 'time') return value === 0 ? null : new Date(Number(value)).toISOString()
  return value === '' ? null : value
}

/** A value as CSV has it; tags are `project=checkout,team=payments`. */
function csvOf(column: AuditColumn, row: AuditRow): string | number | boolean {
  const value = jsonOf(column, row) ?? ''
  return typeof value === 'object' ? tagsText(value) : value
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

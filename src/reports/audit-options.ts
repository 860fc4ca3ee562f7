/**
 * What `weir audit` and `GET /api/requests` ask of the audit trail: the flags that both take, the rows that they want,
 * and the JSON of a row.
 */

import { quoted } from '../config/problems.ts'
import { instant } from '../config/timestamps.ts'
import { DAY_MS } from '../core/durations.ts'
import { stringOf } from '../core/json.ts'
import { tagsByName, tierOfTags } from '../core/tags.ts'
import { type AuditColumn, type AuditRow, auditColumns, SERVICE_TIER } from '../ledger/audit-columns.ts'
import type { AuditLog, AuditQuery } from '../ledger/audit-log.ts'
import { type Given, OUTCOMES } from './parameters.ts'

/** Lines without `--limit`. */
const LIMIT = 100

const TAG_PAIRS = /^[^=,]+=[^=,]+(?:,[^=,]+=[^=,]+)*$/

export interface AuditOptions {
  readonly query: AuditQuery
  readonly model: string | undefined
  readonly outcome: string | undefined
  /** All of them, with these values. */
  readonly tags: Readonly<Record<string, string>>
  /** The last rows; Infinity for all of them. */
  readonly limit: number
}

/** The options, or what is wrong with the flags. */
export function auditOptions(flags: Given, nowMs: number): AuditOptions | string {
  const { model, outcome, tag } = flags
  const limit = lineLimit(flags)
  if (typeof limit === 'string') return limit
  if (outcome !== undefined && !OUTCOMES.some((known) => known === outcome))
    return `--outcome must be one of ${OUTCOMES.join(', ')}, not ${quoted(String(outcome))}`
  if (tag !== undefined && !TAG_PAIRS.test(String(tag)))
    return `--tag must be NAME=VALUE, or several with commas between them, not ${quoted(String(tag))}`
  const query = queryOf(flags, nowMs)
  if (typeof query === 'string') return query
  return {
    query,
    model: stringOf(model),
    outcome: stringOf(outcome),
    tags: tagsByName(stringOf(tag) ?? ''),
    limit,
  }
}

/** How many of the last lines are printed, Infinity for all of them; or what is wrong with the flags. */
export function lineLimit({ json, csv, limit }: Given): number | string {
  if (json === true && csv === true) return '--json and --csv exclude each other'
  if (limit !== undefined && !/^\d{1,9}$/.test(String(limit)))
    return `--limit must be a whole number, not ${quoted(String(limit))}`
  return Number(limit ?? LIMIT) || Number.POSITIVE_INFINITY
}

/** The times of `--since` and `--until`, undefined for one that is not given; or what is wrong with them. */
export function timesOf(flags: Given): { readonly sinceMs?: number; readonly untilMs?: number } | string {
  const times: { sinceMs?: number; untilMs?: number } = {}
  for (const name of ['since', 'until'] as const) {
    const words = flags[name]
    if (typeof words !== 'string') continue
    const ms = instant(words)
    if (ms === undefined) return `--${name} must be a date (2026-11-01) or an RFC 3339 time, not ${quoted(words)}`
    times[`${name}Ms`] = ms
  }
  return times
}

function queryOf(flags: Given, nowMs: number): AuditQuery | string {
  const { org, key, request } = flags
  const times = timesOf(flags)
  if (typeof times === 'string') return times
  const today = nowMs - (nowMs % DAY_MS)
  const { sinceMs = request === undefined ? today : 0 } = times
  // Includes requests that end in this millisecond; a time in the future is allowed.
  const { untilMs = Math.max(nowMs, sinceMs) + DAY_MS } = times
  if (untilMs <= sinceMs) return '--until must be after --since'
  return { sinceMs, untilMs, organization: stringOf(org), key: stringOf(key), id: stringOf(request) }
}

/** Whether a row is wanted, of those that `query` reads. */
export function wantedBy(options: AuditOptions): (row: AuditRow) => boolean {
  const wanted = Object.entries(options.tags)
  return ({ model, outcome, tags }) =>
    model === (options.model ?? model) &&
    outcome === (options.outcome ?? outcome) &&
    (wanted.length === 0 || hasTags(tags, wanted))
}

function hasTags(text: string, wanted: readonly (readonly [name: string, value: string])[]): boolean {
  const tags = tagsByName(text)
  return wanted.every(([name, value]) => tags[name] === value)
}

/**
 * The last rows, and how many came before them. Lets other work of the process run between two pages. `isOver`: the
 * rows are no longer wanted.
 */
export async function lastRows(
  log: Pick<AuditLog, 'read'>,
  options: AuditOptions,
  isOver: () => boolean = () => false,
): Promise<{ readonly rows: readonly AuditRow[]; readonly left: number }> {
  const isWanted = wantedBy(options)
  let rows: readonly AuditRow[] = []
  let left = 0
  for await (const page of log.read(options.query)) {
    if (isOver()) break
    const found = page.filter(isWanted)
    left += Math.max(0, rows.length + found.length - options.limit)
    if (found.length > 0) rows = [...rows, ...found].slice(-options.limit)
    await Bun.sleep(0)
  }
  return { rows, left }
}

/** A row as JSON has it, by the names of its columns. */
export function auditLine(row: AuditRow): Readonly<Record<string, Json>> {
  const own = auditColumns.map((column) => [column.name, jsonOf(column, row)] as const)
  return Object.fromEntries([...own, [SERVICE_TIER, tierOfTags(row.tags)]])
}

type Json = string | number | boolean | null | Readonly<Record<string, string>>

/** A value as JSON has it; null if it is not known. */
export function jsonOf({ type, field }: AuditColumn, row: AuditRow): Json {
  const value = row[field]
  if (type === 'tags') return tagsByName(row.tags)
  if (type === 'time') return value === 0 ? null : new Date(Number(value)).toISOString()
  return value === '' ? null : value
}

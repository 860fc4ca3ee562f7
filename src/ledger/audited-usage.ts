/**
 * Usage that is summed too coarsely to know its windows, from the single requests of the audit. Usage older than 31
 * days is kept by day, also if only a wrong clock called it old, and combinations of tags beyond the bound have one
 * sum.
 */

import { DAY_MS } from '../core/durations.ts'
import { isOtherTags } from '../core/tags.ts'
import { type AuditRow, chargeOfRow } from './audit-columns.ts'
import type { AuditLog } from './audit-log.ts'
import { addUsage, usageOf } from './usage-figures.ts'
import type { UsageRow } from './usage-log.ts'
import { partsOf, seriesAt, seriesOf } from './usage-series.ts'
import { dayOf } from './window.ts'

/**
 * The rows with those of the audit in place of coarse ones, from a day on. The audit may lack requests, because old
 * ones are deleted: only sums that it has exactly, to the micro-dollar, are replaced.
 */
export async function auditedUsage(
  organization: string,
  usage: readonly UsageRow[],
  sinceDay: number,
  log: AuditLog,
): Promise<readonly UsageRow[]> {
  const coarse = new Set(usage.filter((row) => row.day >= sinceDay && isCoarse(row)).map(placeOf))
  if (coarse.size === 0) return usage
  const sums = new Map<string, Sum>()
  for (const row of usage) if (coarse.has(placeOf(row))) add(sums, placeOf(row), row)
  const audited = new Map<string, Map<string, UsageRow>>()
  const query = { sinceMs: sinceDay * DAY_MS, untilMs: Number.MAX_SAFE_INTEGER, organization }
  for await (const page of log.read(query)) {
    for (const row of page.flatMap(usageOfRequest)) {
      const place = placeOf({ ...row, series: seriesOf(partsOf(row.series)) })
      if (!coarse.has(place)) continue
      const rows = audited.getOrInsertComputed(place, () => new Map())
      const known = rows.get(row.series)
      rows.set(row.series, known === undefined ? row : { ...known, ...addUsage(known, row) })
    }
  }
  const exact = new Map([...audited].filter(([place, rows]) => isEqual(sums.get(place), rows.values())))
  return [
    ...usage.filter((row) => !exact.has(placeOf(row))),
    ...[...exact.values()].flatMap((rows) => [...rows.values()]),
  ]
}

interface Sum {
  requests: number
  costMicroUsd: number
}

function isCoarse({ series }: UsageRow): boolean {
  const { tags, hour } = partsOf(series)
  return hour === undefined || isOtherTags(tags)
}

/** What a day has of a key and a series, whatever the hour. */
function placeOf({ day, key, series }: Pick<UsageRow, 'day' | 'key' | 'series'>): string {
  const { model, provider, tags } = partsOf(series)
  return [day, key, model, provider, tags].join('\0')
}

/** The usage of one request, with its hour and all its tags. */
function usageOfRequest(row: AuditRow): readonly UsageRow[] {
  const figures = usageOf(chargeOfRow(row))
  if (figures === undefined) return []
  const { organization, key, admittedMs, model, provider, tags } = row
  const series = seriesAt([model, provider, tags].join('\t'), admittedMs)
  return [{ day: dayOf(admittedMs), organization, key, series, ...figures }]
}

function add(sums: Map<string, Sum>, place: string, { requests, costMicroUsd }: Sum): void {
  const sum = sums.getOrInsertComputed(place, () => ({ requests: 0, costMicroUsd: 0 }))
  sum.requests += requests
  sum.costMicroUsd += costMicroUsd
}

function isEqual(sum: Sum | undefined, rows: Iterable<UsageRow>): boolean {
  const sums = new Map<string, Sum>()
  for (const row of rows) add(sums, '', row)
  return Bun.deepEquals(sum, sums.get(''))
}

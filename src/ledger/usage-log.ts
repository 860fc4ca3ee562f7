/** Usage and its cost by day, organisation, key and series, as `weir usage` reads it. */

import { tagValue, tierOfTags } from '../core/tags.ts'
import type { Admission, Charge } from './ledger.ts'
import { addUsage, noUsage, type UsageFigures, usageOf } from './usage-figures.ts'
import { partsOf, type Series, seriesOf } from './usage-series.ts'
import { bucketOf, dayOf, dayText, hourText } from './window.ts'

/** Where a request is counted: under the UTC day on which it was admitted. */
export interface UsagePlace {
  /** As `dayOf` numbers days. */
  readonly day: number
  readonly organization: string
  readonly key: string
  /** As in `usage-series.ts`. */
  readonly series: string
}

export type UsageRow = UsagePlace & UsageFigures

/** Identifies a place within its organisation. */
export function placeName({ day, key, series }: UsagePlace): string {
  return `${day}\0${key}\0${series}`
}

export interface UsageQuery {
  /** Days of `dayOf`, from `sinceDay` on and before `untilDay`. */
  readonly sinceDay: number
  readonly untilDay: number
  readonly organization?: string | undefined
  readonly key?: string | undefined
}

export interface UsageLog {
  /** One row for each day, organisation, key and series, in no particular order. */
  read(query: UsageQuery): Promise<readonly UsageRow[]>
  close(): Promise<void>
}

type Settled = Admission & { readonly charge: Charge }

/** The place of a settled request, without the hour. */
export function placeOf({ account: { organization, key }, admittedMs, charge }: Settled): UsagePlace {
  return { day: dayOf(admittedMs), organization, key, series: seriesOf(charge) }
}

/** The usage of a settled request, and its place, without the hour; undefined if no provider was called. */
export function usageRowOf(settled: Settled): UsageRow | undefined {
  const usage = usageOf(settled.charge)
  return usage === undefined ? undefined : { ...placeOf(settled), ...usage }
}

/** The sums of rows by `placeName`; days before `foldedBefore` are summed by month. */
export function foldUsageRows(rows: Iterable<UsageRow>, foldedBefore: number): ReadonlyMap<string, UsageRow> {
  const folded = new Map<string, UsageRow>()
  for (const row of rows) {
    const place = { ...row, day: bucketOf(row.day, foldedBefore) }
    const name = placeName(place)
    const known = folded.get(name)
    folded.set(name, known === undefined ? place : { ...known, ...addUsage(known, row) })
  }
  return folded
}

/** What sums can be grouped by: `tag:` is followed by the name of a tag. */
export type UsageBy = 'model' | 'key' | 'organization' | 'provider' | 'day' | 'hour' | 'service_tier' | `tag:${string}`

/**
 * A row for each combination of the columns, in the order of their values. A day is `2026-11-21`, an hour
 * `2026-11-21T13:00:00Z`; a value that the ledger does not know, and that of a tag without one, is ''.
 */
export interface UsageGroup {
  readonly names: readonly string[]
  readonly figures: UsageFigures
}

/** The sums of rows by some of their columns, added to those of other rows. */
export function groupUsage(
  rows: readonly UsageRow[],
  by: readonly UsageBy[],
  others: readonly UsageGroup[] = [],
): readonly UsageGroup[] {
  const groups = new Map(others.map((group) => [group.names.join('\0'), group]))
  const parts = new Map<string, Series>()
  for (const row of rows) {
    const series = parts.get(row.series) ?? partsOf(row.series)
    parts.set(row.series, series)
    const names = by.map((column) => nameIn(column, row, series))
    const name = names.join('\0')
    groups.set(name, { names, figures: addUsage(groups.get(name)?.figures ?? noUsage, row) })
  }
  return [...groups.values()].sort(({ names: a }, { names: b }) => {
    const at = a.findIndex((name, index) => name !== b[index])
    return at < 0 ? 0 : (a[at] ?? '') < (b[at] ?? '') ? -1 : 1
  })
}

function nameIn(column: UsageBy, row: UsageRow, { model, provider, tags, hour }: Series): string {
  switch (column) {
    case 'model':
      return model
    case 'provider':
      return provider
    case 'key':
      return row.key
    case 'organization':
      return row.organization
    case 'day':
      return dayText(row.day)
    case 'hour':
      return hour === undefined ? '' : hourText(row.day, hour)
    case 'service_tier':
      return tierOfTags(tags)
    default:
      return tagValue(tags, column.slice(TAG.length))
  }
}

const TAG = 'tag:'

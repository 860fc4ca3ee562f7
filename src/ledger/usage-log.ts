/** Usage and its cost by day, organisation, key and model, as `weir usage` reads it. */

import type { Admission, Charge } from './ledger.ts'
import { addUsage, noUsage, type UsageFigures, usageOf } from './usage-figures.ts'
import { bucketOf, dayOf } from './window.ts'

/** Where a request is counted: under the UTC day on which it was admitted. */
export interface UsagePlace {
  /** Of `dayOf`. */
  readonly day: number
  readonly organization: string
  readonly key: string
  /** The public name of the model; '' if the gateway died before it reported one. */
  readonly model: string
}

export type UsageRow = UsagePlace & UsageFigures

/** Identifies a place within its organisation. */
export function placeName({ day, key, model }: UsagePlace): string {
  return `${day}\0${key}\0${model}`
}

export interface UsageQuery {
  /** Days of `dayOf`, from `sinceDay` on and before `untilDay`. */
  readonly sinceDay: number
  readonly untilDay: number
  readonly organization?: string | undefined
  readonly key?: string | undefined
}

export interface UsageLog {
  /** One row for each day, organisation, key and model, in no particular order. */
  read(query: UsageQuery): Promise<readonly UsageRow[]>
  close(): Promise<void>
}

/** The usage of a settled request, and its day, key and model; undefined if no provider was called. */
export function usageRowOf({
  account,
  admittedMs,
  charge,
}: Admission & { readonly charge: Charge }): UsageRow | undefined {
  const usage = usageOf(charge)
  if (usage === undefined) return undefined
  const { organization, key } = account
  return { day: dayOf(admittedMs), organization, key, model: charge.model, ...usage }
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

export type UsageBy = 'model' | 'key' | 'organization' | 'day'

/** A row for each combination of the columns, in the order of their values. Days are numbers of `dayOf`. */
interface UsageGroup {
  readonly names: readonly (string | number)[]
  readonly figures: UsageFigures
}

/** The sums of rows by some of their columns. */
export function groupUsage(rows: readonly UsageRow[], by: readonly UsageBy[]): readonly UsageGroup[] {
  const groups = new Map<string, UsageGroup>()
  for (const row of rows) {
    const names = by.map((column) => row[column])
    const name = names.join('\0')
    groups.set(name, { names, figures: addUsage(groups.get(name)?.figures ?? noUsage, row) })
  }
  return [...groups.values()].sort(({ names: a }, { names: b }) => {
    const at = a.findIndex((name, index) => name !== b[index])
    return at < 0 ? 0 : (a[at] ?? '') < (b[at] ?? '') ? -1 : 1
  })
}

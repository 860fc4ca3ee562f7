/**
 * What usage is summed up by besides day, organisation and key, as one text: `model TAB provider TAB tags`, and a last
 * part with the hour of the day (0 to 23) if the sum is of one hour. Stores keep the text where earlier versions keep
 * the model alone: in the column `model` of SQLite, in the field of a hash in Redis. Such a version adds to sums, gives
 * them back and folds them without understanding the text, so two versions run side by side during an upgrade, and an
 * operator can go back. None of the parts can contain a tab.
 */

import { HOUR_MS } from '../core/durations.ts'
import { countedTags } from '../core/tags.ts'
import type { Charge, Hold } from './ledger.ts'

const SEPARATOR = '\t'
const DAY_HOURS = 24

export interface Series {
  /** The public name; '' if the gateway died before it reported one. */
  readonly model: string
  /** '' if it is not known: the gateway died before it settled, or an earlier version counted the request. */
  readonly provider: string
  /** As in `core/tags.ts`; '' for none. */
  readonly tags: string
  /** The hour of the UTC day; undefined if the sum is not of one hour. */
  readonly hour: number | undefined
}

type Served = Pick<Charge, 'model' | 'provider' | 'tags'>

/** The last text that was made: most requests in a row have the same. */
let last = { model: '', provider: '', tags: '', series: '' }
let lastOfHour = { series: '', hour: -1, ofHour: '' }

/** Without the hour; '' if no provider was called: such a request is in no sum. */
export function seriesOf({ model, provider, tags }: Served): string {
  if (model === last.model && provider === last.provider && tags === last.tags) return last.series
  const counted = countedTags(tags)
  // A settlement that an earlier version logged is in the node's sums by its model alone.
  const isWhole = model !== '' && counted !== undefined
  const series = isWhole ? model + SEPARATOR + provider + SEPARATOR + counted : model
  last = { model, provider, tags, series }
  return series
}

/** The series of a request that may never be settled: its provider is not known. */
export function seriesOfHold({ model = '', tags = '' }: Pick<Hold, 'model' | 'tags'>): string {
  return tags === '' ? model : model + SEPARATOR + SEPARATOR + (countedTags(tags) ?? '')
}

/** The series of the hour in which a request was admitted. `by_hour` in `store.lua` is the same. */
export function seriesAt(series: string, admittedMs: number): string {
  const hour = Math.floor(admittedMs / HOUR_MS) % DAY_HOURS
  if (series !== lastOfHour.series || hour !== lastOfHour.hour)
    lastOfHour = { series, hour, ofHour: series + SEPARATOR + hour }
  return lastOfHour.ofHour
}

/** The series of the whole day. */
export function seriesOfDay(series: string): string {
  const parts = series.split(SEPARATOR)
  return isOfHour(parts) ? parts.slice(0, -1).join(SEPARATOR) : series
}

/** The condition of SQL that the series in a column is of one hour. */
export function isOfHourSql(column: string): string {
  return `(length(${column}) - length(replace(${column}, char(${SEPARATOR.charCodeAt(0)}), ''))) % 2 = 1`
}

export function partsOf(series: string): Series {
  const parts = series.split(SEPARATOR)
  const hour = isOfHour(parts) ? Number(parts.pop()) : undefined
  const [model = '', provider = '', tags = ''] = parts
  return { model, provider, tags, hour }
}

/** One part or three without the hour, so two or four with it. */
function isOfHour(parts: readonly string[]): boolean {
  return parts.length % 2 === 0
}

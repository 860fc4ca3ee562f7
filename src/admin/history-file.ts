/**
 * Keeps the last hour of figures in `data_dir`, so that the charts go on after a restart. A file that cannot be read or
 * written costs the charts alone: the history then begins anew.
 */

import fs from 'node:fs'
import { join } from 'node:path'
import { HOUR_MS } from '../core/durations.ts'
import { FILE_MODE, keepPrivate } from '../sqlite/private-files.ts'
import type { FiguresNow } from './api-shapes.ts'

/** The figures of one step. */
export interface HistoryPoint extends FiguresNow {
  /** The end of the point, RFC 3339 in UTC. */
  readonly at: string
}

const FILE = 'history.json'

/** Each field of a point, and whether it may be unknown. */
const FIELDS = {
  requests_per_second: false,
  open_streams: false,
  in_flight: false,
  error_share: true,
  limited_share: true,
  time_to_first_token_p50_ms: true,
  time_to_first_token_p95_ms: true,
  tokens_per_second: false,
  cost_micro_usd_per_second: false,
} as const satisfies Record<keyof FiguresNow, boolean>

/** The points of the last hour, the oldest first; none if there is no usable file. */
export function readHistory(dataDir: string, nowMs: number): readonly HistoryPoint[] {
  const file = join(dataDir, FILE)
  let parsed: unknown
  try {
    keepPrivate(file)
    parsed = JSON.parse(fs.readFileSync(file, 'utf8'))
  } catch {
    // There is none after the first start.
    return []
  }
  if (!Array.isArray(parsed)) return []
  return parsed.filter(isPoint).filter(({ at }) => {
    const ageMs = nowMs - Date.parse(at)
    return ageMs >= 0 && ageMs < HOUR_MS
  })
}

/** Writes the points beside the file and renames them into place, so that a reader never sees half of them. */
export function writeHistory(dataDir: string, points: readonly HistoryPoint[]): void {
  const file = join(dataDir, FILE)
  try {
    fs.writeFileSync(`${file}.new`, JSON.stringify(points), { mode: FILE_MODE })
    fs.renameSync(`${file}.new`, file)
  } catch {
    // A full disk is reported by the ledger, which needs it.
  }
}

function isPoint(value: unknown): value is HistoryPoint {
  if (typeof value !== 'object' || value === null || !('at' in value) || typeof value.at !== 'string') return false
  const fields: Readonly<Record<string, unknown>> = { ...value }
  return Object.entries(FIELDS).every(([name, isNullable]) => {
    const field = fields[name]
    return (isNullable && field === null) || Number.isFinite(field)
  })
}

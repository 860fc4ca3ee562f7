/**
 * Keeps the last hour of figures in `data_dir`, so that the charts go on after a restart. A file that cannot be read or
 * written costs the charts alone: the history then begins anew.
 */

import fs from 'node:fs'
import { join } from 'node:path'
import { HOUR_MS } from '../core/durations.ts'
import { isObject } from '../core/json.ts'
import { FILE_MODE, keepPrivate } from '../sqlite/private-files.ts'
import type { FiguresNow } from './api-shapes.ts'
import { isFigures } from './node-reports.ts'

/** The figures of one step. */
export interface HistoryPoint extends FiguresNow {
  /** The end of the point, RFC 3339 in UTC. */
  readonly at: string
}

const FILE = 'history.json'

/** The points of the last hour, the oldest first; none if there is no usable file. */
export function readHistory(dataDir: string, nowMs: number): readonly HistoryPoint[] {
  const file = join(dataDir, FILE)
  try {
    keepPrivate(file)
    const parsed: unknown = JSON.parse(fs.readFileSync(file, 'utf8'))
    return Array.isArray(parsed) ? parsed.filter(isPoint).filter(({ at }) => isOfLastHour(at, nowMs)) : []
  } catch {
    // There is none after the first start.
    return []
  }
}

function isPoint(value: unknown): value is HistoryPoint {
  return isObject(value) && typeof value['at'] === 'string' && isFigures(value)
}

function isOfLastHour(at: string, nowMs: number): boolean {
  const ageMs = nowMs - Date.parse(at)
  return ageMs >= 0 && ageMs < HOUR_MS
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

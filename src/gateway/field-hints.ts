/** Warns the operator, a line a day and key, that callers send fields to which only native mode gives an effect. */

import type { Key } from '../catalog/catalog.ts'
import { DAY_MS } from '../core/durations.ts'

/** The first parts of fields that switches of native mode give an effect, as the log names ignored fields. */
const OF_NATIVE_MODE: ReadonlySet<string> = new Set([
  ...['reasoning', 'text', 'include', 'thinking', 'output_config', 'output_format', 'context_management'],
  ...['container', 'mcp_servers', 'speed', 'inference_geo', 'top_k'],
])

/** When the last line of each key was written. With more keys, all are forgotten and named again. */
const loggedAt = new Map<string, number>()
const KEYS_MAX = 4096

/**
 * Those of the ignored fields that native mode passes, if the log is to name them now: the key has no switch
 * of it on, and was not named within a day.
 */
export function fieldsToLog(key: Key, ignored: readonly string[], nowMs = performance.now()): readonly string[] {
  if (ignored.length === 0) return ignored
  const { reasoning, structured_output: format, betas } = key.compatibility
  if (reasoning !== 'off' || format !== 'off' || betas !== 'off') return NOTHING
  const fields = ignored.filter((field) => OF_NATIVE_MODE.has(field.split('.')[0] ?? ''))
  if (fields.length === 0) return NOTHING
  const name = `${key.organization.id}/${key.id}`
  const lastMs = loggedAt.get(name)
  if (lastMs !== undefined && nowMs - lastMs < DAY_MS) return NOTHING
  if (loggedAt.size >= KEYS_MAX) loggedAt.clear()
  loggedAt.set(name, nowMs)
  return fields
}

const NOTHING: readonly string[] = []

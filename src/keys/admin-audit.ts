/**
 * The admin audit: one entry for each change by the admin API, by `weir keys` or by a reload. It is stored beside the
 * keys, so that a change of a key and its entry are written together or not at all. No entry holds a secret.
 */

import { isObject, type JsonObject, numberOf, parseObject, stringOf } from '../core/json.ts'

/** Where a change came from. */
export type ChangeSource = 'cli' | 'api' | 'config'

export interface AdminEntry {
  readonly timeMs: number
  readonly source: ChangeSource
  /** `key.created`, `key.updated`, `key.rotated`, `key.revoked`; of a reload also `model.updated` and the like. */
  readonly action: string
  /** The id of what was changed. */
  readonly target: string
  readonly details: JsonObject
}

/** Entries that are kept; older ones are deleted. */
export const ADMIN_ENTRIES_KEPT = 100_000
/** Entries in one read. */
export const ADMIN_ENTRIES_A_PAGE = 500

/** An entry with its position: a later entry has a later position. */
export interface PlacedEntry {
  readonly position: string
  readonly entry: AdminEntry
}

export interface AdminAudit {
  append(entries: readonly AdminEntry[]): Promise<void>
  /**
   * Up to `ADMIN_ENTRIES_A_PAGE` entries after a position, oldest first; without one, from the oldest on.
   */
  entriesAfter(position: string | undefined): Promise<readonly PlacedEntry[]>
  /** A position after which all later entries come, and none of those that there are; undefined if there are none. */
  newest(): Promise<string | undefined>
  /** Deletes entries from before a time. */
  trim(beforeMs: number): Promise<void>
}

/** As stored. */
export function entryText({ timeMs, source, action, target, details }: AdminEntry): string {
  return JSON.stringify({ timeMs, source, action, target, details })
}

/** Undefined if the text is not an entry: a foreign text among the entries must not prevent reading the others. */
export function parseEntry(text: string): AdminEntry | undefined {
  const value = parseObject(text)
  if (value === undefined) return undefined
  const [timeMs, action, target] = [numberOf(value['timeMs']), stringOf(value['action']), stringOf(value['target'])]
  const source = (['cli', 'api', 'config'] as const).find((known) => known === value['source'])
  const details = value['details']
  if (timeMs === undefined || action === undefined || target === undefined || source === undefined) return undefined
  return { timeMs, source, action, target, details: isObject(details) ? details : {} }
}

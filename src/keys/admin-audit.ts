/**
 * The admin audit: one entry for each change by the admin API, by `weir keys` or by a reload. It is stored beside the
 * keys, so that a change of a key and its entry are written together or not at all. No entry holds a secret.
 */

import { isObject, type JsonObject, numberOf, parseObject, stringOf } from '../core/json.ts'

/** Where a change came from. */
type ChangeSource = 'cli' | 'api' | 'config'

/** Who changed something, and from where. */
export interface Changer {
  readonly source: ChangeSource
  /** `uid:1000 (deploy)` of a command, `token:NAME (ADDRESS)` of the admin API, `signal:SIGHUP`. */
  readonly actor: string
}

export interface AdminEntry {
  readonly timeMs: number
  readonly source: ChangeSource
  /** Undefined in entries of versions without it. */
  readonly actor?: string | undefined
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

/** A part of the audit. */
export interface AuditPage {
  /** Oldest first. A text that is not an entry is left out. */
  readonly entries: readonly AdminEntry[]
  /** Where the page ends, which is where the next one begins; undefined if nothing is left to read. */
  readonly end: string | undefined
}

export interface AdminAudit {
  append(entries: readonly AdminEntry[]): Promise<void>
  /** The next page after a position, of at most `ADMIN_ENTRIES_A_PAGE` entries; without one, from the oldest on. */
  entriesAfter(position: string | undefined): Promise<AuditPage>
  /** A position after which all later entries come, and none of those that there are; undefined if there are none. */
  newest(): Promise<string | undefined>
  /** Deletes entries from before a time. */
  trim(beforeMs: number): Promise<void>
}

/** As stored. */
export function entryText({ timeMs, source, actor, action, target, details }: AdminEntry): string {
  return JSON.stringify({ timeMs, source, actor, action, target, details })
}

/** Undefined if the text is not an entry: a foreign text among the entries must not prevent reading the others. */
function parseEntry(text: string): AdminEntry | undefined {
  const value = parseObject(text)
  if (value === undefined) return undefined
  const [timeMs, action, target] = [numberOf(value['timeMs']), stringOf(value['action']), stringOf(value['target'])]
  const source = (['cli', 'api', 'config'] as const).find((known) => known === value['source'])
  const details = value['details']
  if (timeMs === undefined || action === undefined || target === undefined || source === undefined) return undefined
  const actor = stringOf(value['actor'])
  return { timeMs, source, actor, action, target, details: isObject(details) ? details : {} }
}

/** A page of stored texts. */
export function auditPage(stored: readonly { readonly position: string; readonly text: string }[]): AuditPage {
  const entries = stored.map(({ text }) => parseEntry(text)).filter((entry) => entry !== undefined)
  return { entries, end: stored.at(-1)?.position }
}

/** Reports the changes that other processes make. */
export class AuditTail {
  private position: string | undefined
  private isPlaced = false

  constructor(
    private readonly audit: AdminAudit,
    /** Called with each change by a command or by the admin API: a reload reports its own. */
    private readonly changed: (entry: AdminEntry) => void,
  ) {}

  /** Changes from before the first call are not reported. */
  async begin(): Promise<void> {
    if (!this.isPlaced) this.position = await this.audit.newest()
    this.isPlaced = true
  }

  /** Reports what was added since the last call. */
  async report(): Promise<void> {
    for (;;) {
      const { entries, end } = await this.audit.entriesAfter(this.position)
      if (end === undefined) return
      for (const entry of entries) if (entry.source !== 'config') this.changed(entry)
      this.position = end
    }
  }
}

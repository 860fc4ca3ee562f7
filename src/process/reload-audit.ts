/**
 * Records what a reload changed: one entry of the admin audit for each thing, and one log line for each key. Changes of
 * anything else are in the line `config.reloaded`.
 */

import { openKeyStore, withPart } from '../assembly/open-ledger.ts'
import { type ConfigChange, listChanges } from '../config/changes.ts'
import type { Config } from '../config/config.ts'
import { messageOf } from '../core/error-message.ts'
import type { AdminEntry } from '../keys/admin-audit.ts'
import { logKeyChange } from '../logging/key-events.ts'
import type { Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'

/**
 * `actor`: who wanted the reload. Resolves when the entries are stored, or when a line of the log reports that they
 * cannot be.
 */
export async function auditReload(current: Config, next: Config, actor: string, logger: Logger): Promise<void> {
  const timeMs = Date.now()
  const entries = listChanges(current, next).map((change) => entryOf(change, actor, timeMs))
  if (entries.length === 0) return
  for (const entry of entries) logKeyChange(logger, entry)
  await appendToAudit(next, entries, logger)
}

/** Resolves when the entries are stored, or when a line of the log reports that they cannot be. */
export async function appendToAudit(config: Config, entries: readonly AdminEntry[], logger: Logger): Promise<void> {
  try {
    await withPart(openKeyStore, config, (store) => store.audit.append(entries))
  } catch (error) {
    const why = messageOf(error)
    logEvent(logger, 'audit.incomplete', { entries: entries.length, why })
  }
}

function entryOf({ noun, verb, target, fields, lines }: ConfigChange, actor: string, timeMs: number): AdminEntry {
  const details = fields.length === 0 ? { change: lines[0] ?? '' } : { fields }
  return { timeMs, source: 'config', actor, action: actionOf(noun, verb, fields), target, details }
}

/** The actions of keys are those of commands. */
function actionOf(noun: string, verb: ConfigChange['verb'], fields: readonly string[]): string {
  if (noun !== 'key') return `${noun}.${verb}`
  if (verb === 'removed') return 'key.revoked'
  return verb === 'updated' && fields.includes('secret') ? 'key.rotated' : `key.${verb}`
}

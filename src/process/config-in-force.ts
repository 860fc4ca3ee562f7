/** The configuration in force: loaded at the start, and replaced by a reload as a whole or not at all. */

import { resolve } from 'node:path'
import type { LastReload, ReloadResult } from '../admin/supervision.ts'
import { openKeyStore, withPart } from '../assembly/open-ledger.ts'
import { revokedKeys } from '../assembly/revoked-keys.ts'
import type { ConfigLoader } from '../assembly/served-config.ts'
import { type ConfigChange, changesOf, listChanges } from '../config/changes.ts'
import type { Config } from '../config/config.ts'
import { messageOf } from '../core/error-message.ts'
import type { AdminEntry } from '../keys/admin-audit.ts'
import { logKeyChange } from '../logging/key-events.ts'
import type { Logger } from '../logging/log.ts'
import { logEvent } from '../logging/log-events.ts'
import { restartProblems } from './children/reload.ts'
import { StartProblem } from './system/start-problem.ts'

/** The parts of weir that a reload changes. */
interface ConfigUsers {
  /** Resolves to the problems; if there are any, nothing has changed. */
  readonly swap: (current: Config, next: Config) => Promise<readonly string[]>
  /** The configuration is in force. */
  readonly use: (config: Config) => Promise<void>
}

export class ConfigInForce {
  /** Undefined until the file is read. */
  current: Config | undefined
  /** The warnings of `weir check` about it. */
  warnings: readonly string[] = []
  /** When it was loaded, in Unix milliseconds. */
  loadedMs = 0
  lastReload: LastReload | undefined

  constructor(
    private readonly load: ConfigLoader,
    private readonly logger: Logger,
    private readonly users: ConfigUsers,
  ) {}

  /** Throws `StartProblem`. */
  async start(): Promise<Config> {
    const loaded = await this.load()
    if (!loaded.ok) throw new StartProblem(loaded.problems)
    this.put(loaded.config)
    this.warnings = loaded.warnings
    return loaded.config
  }

  /**
   * For a command whose file has mistakes: without the credentials that no command uses, and with a `data_dir` that
   * holds in every working directory. Undefined until the file is read.
   */
  forCommands(): Config | undefined {
    if (this.current === undefined) return undefined
    const { alerts: _alerts, tracing: _tracing, ...rest } = this.current
    const { dataDir, responses } = rest
    const kept = { rememberItemsSeconds: responses.rememberItemsSeconds }
    return { ...rest, dataDir: resolve(dataDir), providers: [], compaction: {}, responses: kept }
  }

  /** `actor`: who wants it, for the admin audit. */
  async reload(actor: string): Promise<ReloadResult> {
    const result = await this.replace(actor)
    this.lastReload = { atMs: Date.now(), ...result }
    return result
  }

  private async replace(actor: string): Promise<ReloadResult> {
    const { current } = this
    const loaded = await this.load()
    if (!loaded.ok) return { problems: loaded.problems, changes: [] }
    if (current === undefined) return { problems: ['starting'], changes: [] }
    const restart = restartProblems(current, loaded.config)
    const problems = restart.length > 0 ? restart : await this.users.swap(current, loaded.config)
    if (problems.length > 0) return { problems, changes: [] }
    this.put(loaded.config)
    await this.users.use(loaded.config)
    const revoked = await revokedKeys(loaded.config)
    // Read again only in an emergency: with the lines of the file that are about revoked keys.
    this.warnings = (revoked.size === 0 ? loaded : await this.load(revoked)).warnings
    await auditReload(current, loaded.config, actor, this.logger)
    const warnings = this.warnings.filter((line) => !loaded.warnings.includes(line))
    const changes = changesOf(current, loaded.config)
    return { problems: [], changes, ...(warnings.length === 0 ? {} : { warnings }) }
  }

  private put(config: Config): void {
    this.current = config
    this.loadedMs = Date.now()
  }
}

/**
 * Records what a reload changed: one entry of the admin audit for each thing, and one log line for each key. Changes of
 * anything else are in the line `config.reloaded`. `actor`: who wanted the reload.
 */
async function auditReload(current: Config, next: Config, actor: string, logger: Logger): Promise<void> {
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

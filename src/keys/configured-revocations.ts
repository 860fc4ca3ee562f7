/**
 * Revocations of keys of the configuration, which `weir keys revoke` makes for emergencies. Such a revocation holds
 * until the configuration drops or disables the key, also if it has the key again when the revocation is deleted.
 */

import type { AdminEntry } from './admin-audit.ts'
import { type KeyRecord, parseKeyRecord, revocationId, revokedKeyOf } from './key-record.ts'
import type { KeyBackend } from './key-store.ts'
import type { KeyTable } from './key-table.ts'

/** After a change of the configuration, all processes of this machine know it by this time. */
const CONFIG_KNOWN_MS = 2000

/** The keys of the configuration in force, which may be revoked by command. */
export interface ConfiguredKeys {
  /** Ids of all of them. */
  ids(): readonly string[]
  /** Whether it has a key with this id that is not disabled. */
  has(organization: string, key: string): boolean
}

export interface RevocationOptions {
  /** Without it, the store has no effect on keys of the configuration. */
  readonly configured?: ConfiguredKeys
  /** Called with the change when a revocation was deleted, and with each that another process made. */
  readonly changed?: (entry: AdminEntry) => void
  /** Called with each revocation that is still needed: at the start, after a reload and hourly. */
  readonly inForce?: (revocation: KeyRecord) => void
}

export class ConfiguredRevocations {
  /** When the revocations that are no longer needed are deleted. */
  private dueMs = 0
  /**
   * When each revocation was made whose key a configuration dropped or disabled, by the id of its record. A later
   * revocation of the same key is another one.
   */
  private readonly released = new Map<string, number>()

  constructor(
    private readonly backend: Pick<KeyBackend, 'texts' | 'replace'>,
    private readonly table: KeyTable,
    private readonly options: RevocationOptions,
  ) {}

  /** The ids of the records that may revoke keys of the configuration. */
  get ids(): readonly string[] {
    return this.options.configured?.ids().map(revocationId) ?? []
  }

  /** Whether a revocation that the store no longer has must be restored: another machine deleted it. */
  mustStay(record: KeyRecord): boolean {
    return revokedKeyOf(record.id) !== undefined && this.isNeeded(record)
  }

  /** The store no longer has the record. */
  forget(id: string): void {
    this.released.delete(id)
  }

  /** Call after a change of the configuration. */
  configurationChanged(): void {
    for (const record of this.table.allRevocations())
      if (!this.isConfigured(record)) this.released.set(record.id, record.createdMs)
    this.dueMs = performance.now() + CONFIG_KNOWN_MS
  }

  /** Lets the next `removeReleased` look again. */
  lookAgain(): void {
    this.dueMs = 0
  }

  /**
   * Once after each change of the configuration: deletes the revocations of keys that it dropped or disabled, and
   * reports the others. If deleting fails, the next call tries again.
   */
  async removeReleased(): Promise<void> {
    if (performance.now() < this.dueMs) return
    const { configured, inForce } = this.options
    if (configured !== undefined) {
      const revocations = this.table.allRevocations()
      for (const record of revocations) if (!this.isNeeded(record)) await this.remove(record)
      for (const record of revocations) if (this.isNeeded(record)) inForce?.(record)
    }
    this.dueMs = Number.POSITIVE_INFINITY
  }

  private async remove({ id, organization, createdMs }: KeyRecord): Promise<void> {
    const [before] = await this.backend.texts([id])
    // The key may have been revoked again since the table was read: that is another revocation.
    if (before === undefined || parseKeyRecord(before)?.createdMs !== createdMs) return
    const target = revokedKeyOf(id) ?? ''
    const details = { organization, revocation: 'removed' }
    const entry = {
      timeMs: Date.now(),
      source: 'config',
      actor: 'weir',
      action: 'key.updated',
      target,
      details,
    } as const
    const written = await this.backend.replace([{ id, before, after: undefined }], entry)
    if (written.length === 0) return
    // Another machine may put it back from here on, and then it is in force again.
    this.table.delete(id)
    this.forget(id)
    this.options.changed?.(entry)
  }

  private isNeeded(record: KeyRecord): boolean {
    return this.isConfigured(record) && this.released.get(record.id) !== record.createdMs
  }

  private isConfigured({ id, organization }: KeyRecord): boolean {
    return this.options.configured?.has(organization, revokedKeyOf(id) ?? '') === true
  }
}

/** Every key that this process accepts: those of the configuration, and those made by command as the store last told them. */

import { createHash } from 'node:crypto'
import { type Catalog, type Key, keyOf } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import type { FollowedKeys } from './key-follower.ts'
import { hasForm, isMistyped } from './key-format.ts'
import type { KeyRecord } from './key-record.ts'
import { isUsable, KeyRing } from './key-ring.ts'

/** One a configuration. */
export class Keys {
  private readonly configured: KeyRing
  /** Made when a key of the store is first used. */
  private readonly made = new WeakMap<KeyRecord, Key>()
  /** Keys that came from the store, so that a revoked one is told apart from one of the configuration. */
  private readonly fromStore = new WeakSet<Key>()

  /** `isServed` tells whether the configuration that is served now, a later one perhaps, has an organisation, and a key that may be used. */
  constructor(
    private readonly catalog: Catalog,
    private readonly stored: () => FollowedKeys,
    private readonly isServed: (organization: string, key?: string) => boolean,
  ) {
    this.configured = new KeyRing(catalog.credentials)
  }

  /**
   * The key of a token, or undefined for one that is unknown, revoked or expired. Keys of the configuration may look like anything; one
   * that was made by command and is mistyped costs no look-up. Throws `ledger_unavailable` for one that may be in a store that was not
   * read yet: its caller must not take it for refused.
   */
  find(token: string, nowMs: number): Key | undefined {
    const configured = this.configured.find(token, nowMs)
    if (configured !== undefined || !hasForm(token) || isMistyped(token)) return configured
    const { table, isRead } = this.stored()
    const record = table.find(createHash('sha256').update(token).digest())
    if (record === undefined && !isRead) {
      throw new CallerError('ledger_unavailable', 'API keys cannot be looked up at the moment; try again.', {
        retryAfterSeconds: 1,
      })
    }
    const key = record && this.keyOf(record)
    return key !== undefined && isUsable(key, nowMs) ? key : undefined
  }

  /** True for a key that was accepted and no longer is: its running streams end at their next extension. */
  isRevoked(key: Key): boolean {
    const organization = key.organization.id
    if (!this.fromStore.has(key)) return !this.isServed(organization, key.id)
    const record = this.stored().table.get(key.id)
    return record === undefined || record.revokedMs !== undefined || !this.isServed(organization)
  }

  /** Undefined for a key of an organisation that the configuration does not know. */
  private keyOf(record: KeyRecord): Key | undefined {
    const known = this.made.get(record)
    const organization = this.catalog.organization(record.organization)
    if (known !== undefined || organization === undefined) return known
    const { id, models, expiresAtMs } = record
    const key = keyOf(organization, { id, models, auto: organization.auto, limits: {}, expiresAtMs, disabled: false })
    this.made.set(record, key)
    this.fromStore.add(key)
    return key
  }
}

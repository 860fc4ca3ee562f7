/** Which API keys this process accepts: those of the configuration, and those of the key store as it was last read. */

import { createHash } from 'node:crypto'
import { type Catalog, type Key, keyOf } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import type { FollowedKeys } from './key-follower.ts'
import { hasForm, isMistyped } from './key-format.ts'
import type { KeyRecord } from './key-record.ts'
import { isUsable, type KeyFinder, KeyRing, type RefusedKey } from './key-ring.ts'

/** One instance for each configuration. */
export class Keys implements KeyFinder {
  private readonly configured: KeyRing
  /** Keys of the store that were used, by record. */
  private readonly made = new WeakMap<KeyRecord, Key>()
  /** Distinguishes keys of the store from keys of the configuration when one is revoked. */
  private readonly fromStore = new WeakSet<Key>()

  /**
   * `isServed`: whether the current configuration, perhaps a later one than `catalog`, has the organization, and a
   * usable key of this id.
   */
  constructor(
    private readonly catalog: Catalog,
    private readonly stored: () => FollowedKeys,
    private readonly isServed: (organization: string, key?: string) => boolean,
  ) {
    this.configured = new KeyRing(catalog.credentials)
  }

  /**
   * The key of a token; undefined if it is unknown, revoked or expired. Configured keys may have any form. A key with
   * the form of the store and a wrong checksum is rejected without a look-up. Throws `CallerError` `ledger_unavailable`
   * for a key that may be in a store that was not read yet: the key may be valid.
   */
  find(token: string, nowMs: number): Key | undefined {
    const configured = this.configured.find(token, nowMs)
    if (configured !== undefined || !hasForm(token) || isMistyped(token)) return configured
    const { table, isRead } = this.stored()
    const record = table.find(createHash('sha256').update(token).digest())
    if (record === undefined && !isRead) {
      throw new CallerError('ledger_unavailable', 'API keys cannot be looked up at the moment. Retry.', {
        retryAfterSeconds: 1,
      })
    }
    const key = record && this.keyOf(record)
    return key !== undefined && isUsable(key, nowMs) ? key : undefined
  }

  refused(token: string, nowMs: number): RefusedKey | undefined {
    const configured = this.configured.refused(token, nowMs)
    if (configured !== undefined || !hasForm(token) || isMistyped(token)) return configured
    const digest = createHash('sha256').update(token).digest()
    const { table } = this.stored()
    const revoked = table.findRevoked(digest)
    if (revoked !== undefined) return { id: revoked.id, state: 'revoked' }
    const record = table.find(digest)
    const isExpired = record?.expiresAtMs !== undefined && record.expiresAtMs <= nowMs
    return record !== undefined && isExpired ? { id: record.id, state: 'expired' } : undefined
  }

  /** True if a key that was accepted is not accepted any more: its running streams end at their next extension. */
  isRevoked(key: Key): boolean {
    const organization = key.organization.id
    if (!this.fromStore.has(key)) return !this.isServed(organization, key.id)
    const record = this.stored().table.get(key.id)
    return record === undefined || record.revokedMs !== undefined || !this.isServed(organization)
  }

  /** Undefined for a key of an organization that is not in the configuration. */
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

/** Which API keys this process accepts: those of the configuration, and those of the key store as it was last read. */

import { createHash } from 'node:crypto'
import type { Catalog, Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import type { FollowedKeys } from './key-follower.ts'
import { hasForm, isMistyped } from './key-format.ts'
import { type KeyRecord, storedKey } from './key-record.ts'
import { isUsable, type KeyFinder, KeyRing, type RefusedKey, TOKEN_LENGTH_MAX } from './key-ring.ts'
import type { KeyTable } from './key-table.ts'
import { descriptionOfRecord, storedOrganization } from './organization-record.ts'

/** One instance for each configuration. */
export class AcceptedKeys implements KeyFinder {
  private readonly configured: KeyRing
  /** Keys of the store that were used, by record. */
  private readonly made = new WeakMap<KeyRecord, Key>()
  /** Distinguishes keys of the store from keys of the configuration when one is revoked. */
  private readonly fromStore = new WeakSet<Key>()
  /** Organisations of the store whose keys were used, by record. */
  private readonly owners = new WeakMap<KeyRecord, Key['organization']>()

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
   * The key of a token; undefined if it is unknown, revoked or expired. Configured keys may have any form; those of
   * the store have its own, or that of LiteLLM. One with the store's form and a wrong checksum needs no look-up.
   * Throws `CallerError` `ledger_unavailable` for a key that may be in a store that was not read yet.
   */
  find(token: string, nowMs: number): Key | undefined {
    const configured = this.configured.find(token, nowMs)
    if (configured !== undefined) return this.isRevokedByCommand(configured) ? undefined : configured
    if (!mayBeStored(token)) return undefined
    const { table, isRead } = this.stored()
    const record = recordOf(table, createHash('sha256').update(token).digest(), nowMs)
    const key = record && this.keyOf(record)
    // Its organisation may be on a later page.
    if (key === undefined && !isRead) {
      throw new CallerError('ledger_unavailable', 'API keys cannot be looked up at the moment. Retry.', {
        retryAfterSeconds: 1,
      })
    }
    return key !== undefined && isUsable(key, nowMs) ? key : undefined
  }

  refused(token: string, nowMs: number): RefusedKey | undefined {
    const known = this.configured.find(token, nowMs)
    if (known !== undefined) return { id: known.id, state: 'revoked' }
    const configured = this.configured.refused(token, nowMs)
    if (configured !== undefined || !mayBeStored(token)) return configured
    const digest = createHash('sha256').update(token).digest()
    const { table } = this.stored()
    const revoked = table.findRevoked(digest)
    if (revoked !== undefined) return { id: revoked.id, state: 'revoked' }
    const record = recordOf(table, digest, nowMs)
    // Operators must find the callers that still send the secret of before a rotation.
    const rotated = record === undefined ? table.findPrevious(digest) : undefined
    if (rotated !== undefined) return { id: rotated.id, state: 'rotated' }
    if (record !== undefined && this.organizationOf(record.organization)?.disabled === true)
      return { id: record.id, state: 'disabled' }
    const isExpired = record?.expiresAtMs !== undefined && record.expiresAtMs <= nowMs
    return record !== undefined && isExpired ? { id: record.id, state: 'expired' } : undefined
  }

  /** True if a key that was accepted is not accepted any more: its running streams end at their next extension. */
  isRevoked(key: Key): boolean {
    const organization = key.organization.id
    if (!this.fromStore.has(key)) return !this.isServed(organization, key.id) || this.isRevokedByCommand(key)
    const { table } = this.stored()
    const record = table.get(key.id)
    if (record === undefined || record.revokedMs !== undefined) return true
    const owner = table.organization(organization)
    return !this.isServed(organization) && (owner === undefined || descriptionOfRecord(owner).disabled)
  }

  /** Whether a command revoked this key of the configuration. */
  private isRevokedByCommand(key: Key): boolean {
    return this.stored().table.revocation(key.id)?.organization === key.organization.id
  }

  /** Undefined for a key of an organization that neither the configuration nor the store has. */
  private keyOf(record: KeyRecord): Key | undefined {
    const known = this.made.get(record)
    const organization = this.organizationOf(record.organization)
    // One of the store may have changed since.
    if (organization === undefined || known?.organization === organization) return organization && known
    const key = storedKey(organization, record)
    this.made.set(record, key)
    this.fromStore.add(key)
    return key
  }

  /** That of the configuration, if it has one of this id. The same object until it changes. */
  private organizationOf(id: string): Key['organization'] | undefined {
    const configured = this.catalog.organization(id)
    if (configured !== undefined) return configured
    const record = this.stored().table.organization(id)
    if (record === undefined) return undefined
    const known = this.owners.get(record)
    if (known !== undefined) return known
    const owner = this.catalog.owner(storedOrganization(record))
    this.owners.set(record, owner)
    return owner
  }
}

/** The form of keys of LiteLLM, which `weir import litellm` takes over by their hashes. */
const IMPORTED_PREFIX = 'sk-'

function mayBeStored(token: string): boolean {
  return hasForm(token) ? !isMistyped(token) : token.startsWith(IMPORTED_PREFIX) && token.length <= TOKEN_LENGTH_MAX
}

/** The record of a token's SHA-256: of the present secret, or of the one before a rotation whose grace runs. */
function recordOf(table: KeyTable, digest: Uint8Array, nowMs: number): KeyRecord | undefined {
  const record = table.find(digest)
  if (record !== undefined) return record
  const rotated = table.findPrevious(digest)
  return rotated?.previous !== undefined && nowMs < rotated.previous.untilMs ? rotated : undefined
}

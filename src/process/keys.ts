/** Every key that this process accepts: those of the configuration, and those made by command as the store last told them. */

import { type Catalog, type Credential, type Key, keyOf } from '../catalog/catalog.ts'
import { KeyRing } from '../catalog/keys.ts'
import { Failure } from '../core/error.ts'
import type { KeyRecord } from '../ledger/key-store.ts'
import { hasForm, isMistyped } from '../ledger/token.ts'

/** What the store told last: outlives configurations, since running requests keep the keys of theirs. */
export interface Stored {
  readonly records: readonly KeyRecord[]
  readonly ids: ReadonlySet<string>
  /** False until the store was read for the first time: Redis may be away when a gateway starts. */
  readonly isRead: boolean
}

/** One a configuration. */
export class Keys {
  private readonly configured: KeyRing
  private ring = new KeyRing([])
  private told: Stored | undefined
  /** Keys that came from the store, so that a revoked one is told apart from one of the configuration. */
  private readonly fromStore = new WeakSet<Key>()

  /** `isServed` tells whether the configuration that is served now, a later one perhaps, has an organisation, and a key that may be used. */
  constructor(
    private readonly catalog: Catalog,
    private readonly stored: () => Stored,
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
    if (configured !== undefined || isMistyped(token)) return configured
    const key = this.storedRing().find(token, nowMs)
    if (key === undefined && !this.stored().isRead && hasForm(token)) {
      throw new Failure('ledger_unavailable', 'API keys cannot be looked up at the moment; try again.', {
        retryAfterSeconds: 1,
      })
    }
    return key
  }

  /** True for a key that was accepted and no longer is: its running streams end at their next extension. */
  isRevoked(key: Key): boolean {
    const organization = key.organization.id
    if (!this.fromStore.has(key)) return !this.isServed(organization, key.id)
    return !this.stored().ids.has(key.id) || !this.isServed(organization)
  }

  /** Made anew where the store told something new. Keys of organisations that the configuration does not know are left out. */
  private storedRing(): KeyRing {
    const stored = this.stored()
    if (stored !== this.told) {
      this.told = stored
      this.ring = new KeyRing(stored.records.flatMap((record) => this.credentialOf(record)))
    }
    return this.ring
  }

  private credentialOf(record: KeyRecord): readonly Credential[] {
    const organization = this.catalog.organization(record.organization)
    if (organization === undefined) return []
    const { id, sha256, models, expiresAtMs } = record
    const { auto } = organization
    const key = keyOf(organization, { id, models, auto, limits: {}, expiresAtMs, disabled: false })
    this.fromStore.add(key)
    return [{ sha256, key }]
  }
}

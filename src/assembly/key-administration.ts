/** Wires what changes and lists API keys and organisations to the store and the ledger of a configuration. */

import type { Config } from '../config/config.ts'
import type { JsonObject } from '../core/json.ts'
import type { Changer } from '../keys/admin-audit.ts'
import { KeyChanges, type KeyChangesParts, keyWarnings } from '../keys/key-changes.ts'
import { keyJson, type ListedKey, listedRecord, listKeys } from '../keys/key-list.ts'
import type { KeyRecord } from '../keys/key-record.ts'
import {
  type ListedOrganization,
  listedOrganization,
  listOrganizations,
  OrganizationChanges,
  organizationJson,
} from '../keys/organization-changes.ts'
import { allOrganizations } from '../keys/organization-record.ts'
import { type Closable, type LedgerPlace, openKeyActivity, openKeyStore, withPart } from './open-ledger.ts'

/** Opens a part of the ledger, uses it and closes it. */
type WithLedger = <Part extends Closable, Result>(
  open: (place: LedgerPlace) => Promise<Part>,
  use: (part: Part) => Promise<Result>,
) => Promise<Result>

/** Lists and changes keys as one configuration decides. Opens the store for each call, so that none stays open. */
export class KeyAdministration {
  readonly changes: KeyChanges
  readonly organizationChanges: OrganizationChanges

  /** `withLedger`: for a caller that reports problems of the ledger in its own way. */
  constructor(
    private readonly config: Config,
    by: Changer,
    private readonly withLedger: WithLedger = (open, use) => withPart(open, config, use),
  ) {
    const parts: KeyChangesParts = { config, by, withStore: (use) => withLedger(openKeyStore, use) }
    this.changes = new KeyChanges(parts)
    this.organizationChanges = new OrganizationChanges(parts)
  }

  /**
   * A key of the store after a change, as JSON. What the ledger knows of it is null if the ledger cannot be read: the
   * change is made, and a new secret is shown this once.
   */
  async changedJson(record: KeyRecord): Promise<JsonObject> {
    const { organization, id } = record
    const warnings = keyWarnings(this.config, record)
    try {
      const found = await this.withLedger(openKeyActivity, (activity) => activity.read(organization, [id]))
      return { ...keyJson(listedRecord(record, found.get(id), Date.now())), warnings }
    } catch {
      return { ...keyJson(listedRecord(record, undefined, Date.now())), spend_today_micro_usd: null, warnings }
    }
  }

  /** All keys, or those of one organisation, by id; the first `most` of them. */
  async list(only?: string, most?: number): Promise<readonly ListedKey[]> {
    return await this.withLedger(openKeyStore, async (store) => {
      const organizations = allOrganizations(this.config.organizations, await store.organizations())
      return await this.withLedger(openKeyActivity, (activity) =>
        listKeys(store, (organization, keys) => activity.read(organization, keys), {
          organizations,
          only,
          most,
          nowMs: Date.now(),
        }),
      )
    })
  }

  /** All organisations, of the store and of the configuration, by id. */
  async organizations(): Promise<readonly ListedOrganization[]> {
    const stored = await this.withLedger(openKeyStore, (store) => store.organizations())
    return listOrganizations(this.config.organizations, stored)
  }

  /** An organisation of the store after a change, as JSON. */
  changedOrganizationJson(record: KeyRecord): JsonObject {
    return { ...organizationJson(listedOrganization(record)), warnings: [...keyWarnings(this.config, record)] }
  }
}

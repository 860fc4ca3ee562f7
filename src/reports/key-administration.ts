/** Wires what changes and lists API keys and organisations to the store and the ledger of a configuration. */

import { openKeyActivity, openKeyStore } from '../assembly/open-ledger.ts'
import type { Config } from '../config/config.ts'
import type { JsonObject } from '../core/json.ts'
import type { Changer } from '../keys/admin-audit.ts'
import { BudgetAdministration } from '../keys/budget-changes.ts'
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
import { setCounterBack, spentOfCounter } from './counter-usage.ts'
import { withLedger } from './ledger-part.ts'

/**
 * Lists and changes keys as one configuration decides. Opens the store for each call, so that none stays open. Throws
 * `KeyProblem` or `LedgerProblem`.
 */
export class KeyAdministration {
  readonly changes: KeyChanges
  readonly organizationChanges: OrganizationChanges
  readonly budgetChanges: BudgetAdministration

  constructor(
    private readonly config: Config,
    by: Changer,
  ) {
    const parts: KeyChangesParts = { config, by, withStore: (use) => withLedger(openKeyStore, config, use) }
    this.changes = new KeyChanges(parts)
    this.organizationChanges = new OrganizationChanges(parts)
    this.budgetChanges = new BudgetAdministration(parts, async (...of) => {
      await setCounterBack(config, ...of)
      return await spentOfCounter(config, ...of)
    })
  }

  /**
   * A key of the store after a change, as JSON. What the ledger knows of it is null if the ledger cannot be read: the
   * change is made, and a new secret is shown this once.
   */
  async changedJson(record: KeyRecord): Promise<JsonObject> {
    const { organization, id } = record
    const warnings = keyWarnings(this.config, record)
    try {
      const found = await withLedger(openKeyActivity, this.config, (activity) => activity.read(organization, [id]))
      return { ...keyJson(listedRecord(record, found.get(id), Date.now())), warnings }
    } catch {
      return { ...keyJson(listedRecord(record, undefined, Date.now())), spend_today_micro_usd: null, warnings }
    }
  }

  /** All keys, or those of one organisation, by id; the first `most` of them. */
  async list(only?: string, most?: number): Promise<readonly ListedKey[]> {
    return await withLedger(openKeyStore, this.config, async (store) => {
      const organizations = allOrganizations(this.config.organizations, await store.organizations())
      return await withLedger(openKeyActivity, this.config, (activity) =>
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
    const stored = await withLedger(openKeyStore, this.config, (store) => store.organizations())
    return listOrganizations(this.config.organizations, stored)
  }

  /** An organisation of the store after a change, as JSON. */
  changedOrganizationJson(record: KeyRecord): JsonObject {
    return { ...organizationJson(listedOrganization(record)), warnings: [...keyWarnings(this.config, record)] }
  }
}

/** The store of Responses output items that a caller may refer to by id instead of sending them again. */

import type { JsonObject } from '../core/json.ts'

/** An item as the JSON text that is stored. */
export interface ItemText {
  readonly id: string
  readonly json: string
}

export interface ItemStore {
  /**
   * The item as it was sent to this organization; undefined if it is not stored or has expired. No organization gets
   * the item of another. A store in this process returns the item itself, so that `accept` needs no promise. Throws
   * `CallerError` `ledger_unavailable` if the store cannot be reached.
   */
  get(organization: string, id: string): Promise<JsonObject | undefined> | JsonObject | undefined
  /** Stores the items of a complete answer. Never throws: an item that cannot be stored is dropped. */
  put(organization: string, items: readonly ItemText[]): void
  /** Called once, after a reload has replaced the store. */
  close?(): void
}

/** The store of Responses output items that a caller may refer to by id instead of sending them again. */

import { CallerError } from '../core/caller-error.ts'
import type { JsonObject } from '../core/json.ts'

/** An item as the JSON text that is stored. */
export interface ItemText {
  readonly id: string
  readonly json: string
}

export interface ItemStore {
  /**
   * The item as it was sent to this organization; undefined if it is not stored or has expired. No organization gets
   * the item of another. Rejects with `CallerError` `ledger_unavailable` if the store cannot be reached.
   */
  get(organization: string, id: string): Promise<JsonObject | undefined>
  /** Stores the items of a complete answer. Never throws: an item that cannot be stored is dropped. */
  put(organization: string, items: readonly ItemText[]): void
  /** Called once, after a reload has replaced the store. */
  close?(): void
}

/** The way to the process that stores the items of a machine. */
export interface ItemChannel {
  /** Never throws, and drops items that it cannot send. `isUrgent`: they may be asked for at once, and only once. */
  put(organization: string, items: readonly ItemText[], isUrgent?: boolean): void
  /** Resolves to the JSON text; undefined if it is not stored. Rejects if there is no answer. */
  get(organization: string, id: string): Promise<string | undefined>
}

/**
 * Looks up an item that may have been sent just now, so that it is stored within milliseconds: calls `get` until it
 * finds the item, once more after each of `waitsMs`. Resolves to undefined if it is not found. Throws `CallerError`
 * `ledger_unavailable` if `get` rejects.
 */
export async function findWithWaits<Item>(
  get: () => Promise<Item | undefined>,
  waitsMs: readonly number[],
): Promise<Item | undefined> {
  try {
    for (const waitMs of waitsMs) {
      const item = await get()
      if (item !== undefined) return item
      await Bun.sleep(waitMs)
    }
    return await get()
  } catch (cause) {
    const message = 'Stored items cannot be read at the moment. Retry, or send the items themselves.'
    throw new CallerError('ledger_unavailable', message, { retryAfterSeconds: 1, cause })
  }
}

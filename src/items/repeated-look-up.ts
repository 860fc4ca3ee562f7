/** The look-up of an item that may have been sent just now, so that it is stored within milliseconds. */

import { CallerError } from '../core/caller-error.ts'

/**
 * Calls `get` until it finds the item: once more after each of `waitsMs`. Resolves to undefined if it is not found.
 * Throws `CallerError` `ledger_unavailable` if `get` rejects.
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

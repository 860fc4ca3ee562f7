/**
 * Items of all workers of a machine, in the memory of the process that outlives them: a worker that was replaced or
 * killed takes none with it. Reaches them through a channel that this file does not know.
 */

import { CallerError } from '../core/caller-error.ts'
import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import type { ItemStore, ItemText } from './item-store.ts'

/** The way to the process that stores the items. */
export interface ItemChannel {
  /** Never throws, and drops items that it cannot send. */
  put(organization: string, items: readonly ItemText[]): void
  /** Resolves to the JSON text; undefined if it is not stored. Rejects if there is no answer. */
  get(organization: string, id: string): Promise<string | undefined>
}

/** Waits before an item that is missing is looked up again: another worker may have sent it just now. */
const LOOK_UP_AGAIN_MS = [10, 15, 75]

export class PeerItemStore implements ItemStore {
  constructor(private readonly channel: ItemChannel) {}

  async get(organization: string, id: string): Promise<JsonObject | undefined> {
    const json = await this.find(organization, id)
    const item: JsonValue | undefined = json === undefined ? undefined : JSON.parse(json)
    return isObject(item) ? item : undefined
  }

  put(organization: string, items: readonly ItemText[]): void {
    this.channel.put(organization, items)
  }

  private async find(organization: string, id: string): Promise<string | undefined> {
    try {
      for (const waitMs of LOOK_UP_AGAIN_MS) {
        const json = await this.channel.get(organization, id)
        if (json !== undefined) return json
        await Bun.sleep(waitMs)
      }
      return await this.channel.get(organization, id)
    } catch (cause) {
      const message = 'Stored items cannot be read at the moment. Retry, or send the items themselves.'
      throw new CallerError('ledger_unavailable', message, { retryAfterSeconds: 1, cause })
    }
  }
}

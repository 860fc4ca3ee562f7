/**
 * Items of all workers of a machine, in the memory of the process that outlives them: a worker that was replaced or
 * killed takes none with it. Reaches them through a channel that this file does not know.
 */

import { type JsonObject, parseObject } from '../core/json.ts'
import type { ItemStore, ItemText } from './item-store.ts'
import { findWithWaits } from './repeated-look-up.ts'

/** The way to the process that stores the items. */
export interface ItemChannel {
  /** Never throws, and drops items that it cannot send. `isUrgent`: they may be asked for at once, and only once. */
  put(organization: string, items: readonly ItemText[], isUrgent?: boolean): void
  /** Resolves to the JSON text; undefined if it is not stored. Rejects if there is no answer. */
  get(organization: string, id: string): Promise<string | undefined>
}

/** Waits before an item that is missing is looked up again: another worker may have sent it just now. */
const WAITS_MS = [10, 15, 75]

export class PeerItemStore implements ItemStore {
  constructor(private readonly channel: ItemChannel) {}

  async get(organization: string, id: string): Promise<JsonObject | undefined> {
    const json = await findWithWaits(() => this.channel.get(organization, id), WAITS_MS)
    return json === undefined ? undefined : parseObject(json)
  }

  put(organization: string, items: readonly ItemText[]): void {
    this.channel.put(organization, items)
  }
}

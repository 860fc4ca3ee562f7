/** What outlives a request of its conversation: output items that callers refer to, and thoughts of models. */

import type { Config } from '../config/config.ts'
import type { ReservationPipeline } from '../core/redis-config.ts'
import type { ThoughtStore } from '../core/thoughts.ts'
import type { ItemChannel, ItemStore } from '../items/item-store.ts'
import { itemStorePlace, openItemStore } from '../items/item-stores.ts'
import type { Sealer } from '../items/sealer.ts'
import { openThoughtStore, thoughtStorePlace } from '../items/thought-stores.ts'

export interface ConversationStores {
  readonly items: ItemStore | undefined
  readonly thoughts: ThoughtStore | undefined
}

/** How the stores reach others: the workers of this machine, and Redis together with the ledger's reservations. */
export interface SharedStores {
  readonly channel: ItemChannel
  readonly pipeline: ReservationPipeline | undefined
}

/**
 * The stores of a configuration. They outlive a reload, unless it changes where or for how long something is stored;
 * `before`: those of the configuration before.
 */
export function openStores(
  config: Config,
  sealer: Sealer,
  { channel, pipeline }: SharedStores,
  before?: { readonly config: Config; readonly stores: ConversationStores },
): ConversationStores {
  const keepsItems = before !== undefined && itemStorePlace(config) === itemStorePlace(before.config)
  const keepsThoughts = before !== undefined && thoughtStorePlace(config) === thoughtStorePlace(before.config)
  return {
    items: keepsItems ? before.stores.items : openItemStore(config, sealer, channel),
    thoughts: keepsThoughts ? before.stores.thoughts : openThoughtStore(config, sealer, channel, pipeline),
  }
}

/** Closes those stores that are not among the others. */
export function closeStores({ items, thoughts }: ConversationStores, others: ConversationStores): void {
  if (items !== others.items) items?.close?.()
  if (thoughts !== others.thoughts) thoughts?.close?.()
}

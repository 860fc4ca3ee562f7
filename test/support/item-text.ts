/** Items of Responses as an item store takes them, and a store of them within a test. */

import { parseObject } from '../../src/core/json.ts'
import type { ItemStore, ItemText } from '../../src/items/item-store.ts'
import type { LocalItemStore } from '../../src/items/local-item-store.ts'

export function itemText(item: { readonly id: string; readonly [name: string]: unknown }): ItemText {
  return { id: item.id, json: JSON.stringify(item) }
}

export function storeIn(items: LocalItemStore): ItemStore {
  return {
    get: async (organization, id) => parseObject(items.getText(organization, id) ?? ''),
    put: (organization, texts) => items.put(organization, texts),
  }
}

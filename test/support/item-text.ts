/** An item of Responses as an item store takes it. */

import type { ItemText } from '../../src/items/item-store.ts'

export function itemText(item: { readonly id: string; readonly [name: string]: unknown }): ItemText {
  return { id: item.id, json: JSON.stringify(item) }
}

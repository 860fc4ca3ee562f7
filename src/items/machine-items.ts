/**
 * What the supervisor keeps for its workers, because it outlives them: output items of Responses, and thoughts of
 * models.
 */

import type { Config } from '../config/config.ts'
import type { ItemText } from './item-store.ts'
import { itemStorePlace, openMachineItems } from './item-stores.ts'
import type { LocalItemStore } from './local-item-store.ts'
import { isOfThoughts, openMachineThoughts, recalledThoughts, thoughtStorePlace } from './thought-stores.ts'

export class MachineItems {
  private items: LocalItemStore | undefined
  private thoughts: LocalItemStore | undefined

  /**
   * Keeps what is stored, unless the configuration changes where or for how long. `before`: the configuration in force
   * until now; undefined at the start.
   */
  use(config: Config, before: Config | undefined): void {
    if (before === undefined || itemStorePlace(before) !== itemStorePlace(config)) this.items = openMachineItems(config)
    if (before === undefined || thoughtStorePlace(before) !== thoughtStorePlace(config))
      this.thoughts = openMachineThoughts(config)
  }

  put(organization: string, items: readonly ItemText[]): void {
    const isThought = ({ id }: ItemText) => isOfThoughts(id)
    if (!items.some(isThought)) return this.items?.put(organization, items)
    this.thoughts?.put(organization, items.filter(isThought))
    this.items?.put(
      organization,
      items.filter((item) => !isThought(item)),
    )
  }

  /** The JSON text of an item, or of what was found of thoughts; undefined if it is not stored. */
  getText(organization: string, id: string): string | undefined {
    if (!isOfThoughts(id)) return this.items?.getText(organization, id)
    return this.thoughts && recalledThoughts(this.thoughts, organization, id)
  }
}

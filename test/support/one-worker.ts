/** What a worker shares with others through the supervisor, for a service that runs alone in a process. */

import {
  type Amount,
  type Ask,
  CommonRoom,
  type RoomReport,
  type RoomSource,
  type Taken,
} from '../../src/capacity/common-room.ts'
import type { Config } from '../../src/config/config.ts'
import type { ItemChannel, ItemText } from '../../src/items/item-store.ts'
import { MachineItems } from '../../src/items/machine-items.ts'

export function oneWorker(config: Config): { readonly items: ItemChannel; readonly room: RoomSource } {
  return { items: new OwnItems(config), room: new OwnRoom() }
}

class OwnItems implements ItemChannel {
  private readonly kept = new MachineItems()

  constructor(config: Config) {
    this.kept.use(config, undefined)
  }

  put(organization: string, items: readonly ItemText[]): void {
    this.kept.put(organization, items)
  }

  async get(organization: string, id: string): Promise<string | undefined> {
    return this.kept.getText(organization, id)
  }
}

/** Room within this process. */
export class OwnRoom implements RoomSource {
  private readonly room = new CommonRoom()

  async take(asks: readonly Ask[], isLow: boolean): Promise<Taken> {
    return this.room.take(asks, isLow, '')
  }

  give(amounts: readonly Amount[]): void {
    this.room.give(amounts, '')
  }

  renew(held: readonly Amount[]): void {
    this.room.renew(held, '')
  }

  report(reports: readonly RoomReport[]): void {
    this.room.report(reports)
  }
}

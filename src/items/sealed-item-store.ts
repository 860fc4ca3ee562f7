/** Items of all gateways in Redis, encrypted before they leave the process. */

import { createHash } from 'node:crypto'
import { type JsonObject, parseObject } from '../core/json.ts'
import type { ItemStore, ItemText } from './item-store.ts'
import type { RedisItems } from './redis-items.ts'
import type { Sealer } from './sealer.ts'

export class SealedItemStore implements ItemStore {
  constructor(
    private readonly sealer: Sealer,
    private readonly items: Promise<RedisItems>,
  ) {}

  async get(organization: string, id: string): Promise<JsonObject | undefined> {
    const items = await this.items
    const sealed = await items.get(organization, digest(id))
    const json = sealed === undefined ? undefined : this.sealer.open('item', organization, sealed)
    return json === undefined ? undefined : parseObject(json)
  }

  put(organization: string, items: readonly ItemText[]): void {
    const pieces = items.map(({ id, json }) => {
      return { id: digest(id), bytes: this.sealer.seal('item', organization, json) }
    })
    void this.items.then((redis) => redis.put(organization, pieces))
  }

  close(): void {
    void this.items.then((redis) => redis.close())
  }
}

/** A caller chooses the id that it asks for, and that id may be as long as a request body. */
function digest(id: string): string {
  return createHash('sha256').update(id).digest('base64url')
}

/** Where the items that callers refer back to are remembered: in this process, or in Redis where there is one, for all workers and nodes. */

import { createHash } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { Sealer } from '../dialects/responses/compaction.ts'
import { type ItemMemory, LocalItemMemory } from '../dialects/responses/memory.ts'
import type { RedisShelf } from '../ledger/redis/shelf.ts'

/** Undefined where nothing is to be remembered. `sealer` has the keys that all nodes share. */
export function itemMemory({ responses, ledger }: Config, sealer: Sealer): ItemMemory | undefined {
  const { rememberItemsSeconds: ttlSeconds } = responses
  if (ttlSeconds === 0) return undefined
  if (ledger.kind === 'redis') {
    const { redis } = ledger
    // Loaded only where there is a Redis, like all that needs its client.
    const shelf = import('../ledger/redis/shelf.ts').then((module) => new module.RedisShelf(redis, ttlSeconds))
    return new SharedItemMemory(sealer, shelf)
  }
  // Sealed under a key of the process's own: nothing of it outlives the process.
  const key = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64')
  return new LocalItemMemory({ sealer: new Sealer([key]), ttlSeconds })
}

class SharedItemMemory implements ItemMemory {
  constructor(
    private readonly sealer: Sealer,
    private readonly shelf: Promise<RedisShelf>,
  ) {}

  async recall(organization: string, id: string): Promise<JsonObject | undefined> {
    const shelf = await this.shelf
    const sealed = await shelf.get(keyOf(organization, id))
    const json = sealed === undefined ? undefined : this.sealer.open('item', organization, sealed)
    if (json === undefined) return undefined
    const item: JsonValue = JSON.parse(json)
    return isObject(item) ? item : undefined
  }

  remember(organization: string, items: readonly JsonObject[]): void {
    for (const item of items) {
      const { id } = item
      if (typeof id !== 'string') continue
      const sealed = this.sealer.seal('item', organization, JSON.stringify(item))
      void this.shelf.then((shelf) => shelf.put(keyOf(organization, id), sealed))
    }
  }
}

/** A caller chooses the id that it asks for: hashed, whatever it is names one key and no other's. */
function keyOf(organization: string, id: string): string {
  return createHash('sha256').update(`${id}\0${organization}`).digest('base64url')
}

/** Where the items that callers refer back to are remembered: in this process, or in Redis if there is one, for all workers and nodes. */

import { createHash } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import type { RedisConfig } from '../core/redis-config.ts'
import { Sealer } from '../dialects/responses/compaction.ts'
import { type ItemMemory, LocalItemMemory } from '../dialects/responses/local-item-memory.ts'
import type { RedisItems } from './redis-items.ts'

/** What a configuration says of it, so that a reload that changes nothing of it keeps what is remembered. */
export function itemMemoryPlace({ responses, ledger }: Config): string {
  return JSON.stringify([
    responses,
    ledger.kind === 'redis' && responses.redis === undefined ? ledger.redis : undefined,
  ])
}

/** Undefined if nothing is to be remembered. `sealer` has the keys that all nodes share. */
export function itemMemory({ responses, ledger }: Config, sealer: Sealer): ItemMemory | undefined {
  const { rememberItemsSeconds: ttlSeconds } = responses
  if (ttlSeconds === 0) return undefined
  const redis = responses.redis ?? (ledger.kind === 'redis' ? ledger.redis : undefined)
  if (redis !== undefined) return new SharedItemMemory(sealer, openShelf(redis, ttlSeconds))
  // Sealed under a key of the process's own: nothing of it outlives the process.
  const key = Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64')
  return new LocalItemMemory({ sealer: new Sealer([key]), ttlSeconds })
}

/** Loaded only if there is a Redis, like all that needs its client. */
async function openShelf(redis: RedisConfig, ttlSeconds: number): Promise<RedisItems> {
  const { RedisItems } = await import('./redis-items.ts')
  return new RedisItems(redis, { ttlSeconds })
}

class SharedItemMemory implements ItemMemory {
  constructor(
    private readonly sealer: Sealer,
    private readonly shelf: Promise<RedisItems>,
  ) {}

  async recall(organization: string, id: string): Promise<JsonObject | undefined> {
    const shelf = await this.shelf
    const sealed = await shelf.get(organization, digest(id))
    const json = sealed === undefined ? undefined : this.sealer.open('item', organization, sealed)
    if (json === undefined) return undefined
    const item: JsonValue = JSON.parse(json)
    return isObject(item) ? item : undefined
  }

  remember(organization: string, items: readonly JsonObject[]): void {
    const pieces = items.flatMap((item) => {
      const { id } = item
      if (typeof id !== 'string') return []
      return [{ id: digest(id), bytes: this.sealer.seal('item', organization, JSON.stringify(item)) }]
    })
    void this.shelf.then((shelf) => shelf.put(organization, pieces))
  }

  close(): void {
    void this.shelf.then((shelf) => shelf.close())
  }
}

/** A caller chooses the id that it asks for, and it may be as long as a body. */
function digest(id: string): string {
  return createHash('sha256').update(id).digest('base64url')
}

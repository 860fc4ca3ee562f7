/** Where the output items of a configuration are kept: on this machine, or in Redis for all gateways. */

import { createHash } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { type JsonObject, parseObject } from '../core/json.ts'
import type { RedisConfig } from '../core/redis-config.ts'
import { findWithWaits, type ItemChannel, type ItemStore, type ItemText } from './item-store.ts'
import { LocalItemStore } from './local-item-store.ts'
import type { RedisItems } from './redis-items.ts'
import type { Sealer } from './sealer.ts'

/** The Redis that keeps items and thoughts; undefined if the machine does. */
export function redisOf({ responses, ledger }: Config): RedisConfig | undefined {
  return responses.redis ?? (ledger.kind === 'redis' ? ledger.redis : undefined)
}

/** Equal for two configurations that can share one store: a reload that changes nothing here keeps the stored items. */
export function itemStorePlace(config: Config): string {
  return JSON.stringify([config.responses, redisOf(config)])
}

/**
 * Undefined if the configuration stores no items. `sealer` has the keys that all gateways share; `peers` leads to the
 * items of all workers of this machine.
 */
export function openItemStore(config: Config, sealer: Sealer, peers: ItemChannel): ItemStore | undefined {
  const { rememberItemsSeconds: ttlSeconds } = config.responses
  if (ttlSeconds === 0) return undefined
  const redis = redisOf(config)
  return redis === undefined ? new PeerItemStore(peers) : new SealedItemStore(sealer, loadRedisItems(redis, ttlSeconds))
}

/** Where a machine keeps its workers' items; undefined if the configuration stores none, or stores them in Redis. */
export function openMachineItems(config: Config): LocalItemStore | undefined {
  const { rememberItemsSeconds: ttlSeconds } = config.responses
  return redisOf(config) === undefined && ttlSeconds > 0 ? new LocalItemStore({ ttlSeconds }) : undefined
}

/** The Redis client is loaded only if a configuration needs it. */
async function loadRedisItems(redis: RedisConfig, ttlSeconds: number): Promise<RedisItems> {
  const { RedisItems } = await import('./redis-items.ts')
  return new RedisItems(redis, { ttlSeconds })
}

/** Waits before an item that is missing is looked up again: another worker may have sent it just now. */
const WAITS_MS = [10, 15, 75]

/**
 * Items of all workers of a machine, in the memory of the process that outlives them: a worker that was replaced or
 * killed takes none with it.
 */
class PeerItemStore implements ItemStore {
  constructor(private readonly channel: ItemChannel) {}

  async get(organization: string, id: string): Promise<JsonObject | undefined> {
    const json = await findWithWaits(() => this.channel.get(organization, id), WAITS_MS)
    return json === undefined ? undefined : parseObject(json)
  }

  put(organization: string, items: readonly ItemText[]): void {
    this.channel.put(organization, items)
  }
}

/** Items of all gateways in Redis, encrypted before they leave the process. */
class SealedItemStore implements ItemStore {
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

/** Reads the activity of keys from the ledger in Redis, for commands and the admin API. */

import { batchesOf } from '../../../core/batches.ts'
import type { RedisConfig } from '../../../core/redis-config.ts'
import type { KeyActivity } from '../../../keys/key-list.ts'
import type { RedisClient } from '../../../redis/connect.ts'
import { activityOf, type KeyActivityReader } from '../../key-activity.ts'
import { RedisStore } from '../store/redis-store.ts'
import { openReader } from './redis-readers.ts'

/** A script that reads as many keys takes less than a millisecond. */
const KEYS_A_CALL = 200

export class RedisKeyActivityReader implements KeyActivityReader {
  private constructor(
    private readonly client: RedisClient,
    private readonly store: RedisStore,
  ) {}

  static async open(place: RedisConfig): Promise<RedisKeyActivityReader> {
    const client = await openReader(place)
    return new RedisKeyActivityReader(client, new RedisStore(client, client))
  }

  async read(organization: string, keys: readonly string[]): Promise<ReadonlyMap<string, KeyActivity>> {
    const found = new Map<string, KeyActivity>()
    for (const some of batchesOf(keys, KEYS_A_CALL)) {
      const days = await this.store.activity(organization, some)
      for (const [at, day] of days.entries()) {
        const id = some[at]
        if (id !== undefined && day.usedMs > 0) found.set(id, activityOf(day, Date.now()))
      }
    }
    return found
  }

  async close(): Promise<void> {
    this.client.disconnect()
  }
}

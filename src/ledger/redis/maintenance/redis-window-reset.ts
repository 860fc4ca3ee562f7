/** Sets back windows that began too early, in Redis, whether or not a gateway runs. */

import type { RedisConfig } from '../../../core/redis-config.ts'
import type { RedisClient } from '../../../redis/connect.ts'
import { connectOnce } from '../../../redis/connect-once.ts'
import { readHash } from '../../../redis/hash-pages.ts'
import type { UsageRow } from '../../usage-log.ts'
import { spentNow, type WindowReset, WindowResetError } from '../../window-reset.ts'
import { checkDataVersion } from '../store/data-version.ts'
import { redisKey } from '../store/redis-keys.ts'
import { RedisStore } from '../store/redis-store.ts'

export class RedisWindowReset implements WindowReset {
  private constructor(
    private readonly client: RedisClient,
    private readonly store: RedisStore,
  ) {}

  static async open(place: RedisConfig): Promise<RedisWindowReset> {
    const client = await connectOnce(place)
    try {
      await checkDataVersion(client)
      return new RedisWindowReset(client, new RedisStore(client, client))
    } catch (error) {
      client.disconnect()
      throw error
    }
  }

  async reset(organization: string, usage: readonly UsageRow[]): Promise<number> {
    const whole = spentNow(usage, undefined, Date.now())
    let count = 0
    for (const key of await this.keys(organization)) {
      const set = await this.store.reset(organization, key, whole, spentNow(usage, key, Date.now()))
      if (set === undefined)
        throw new WindowResetError(
          'The clock of Redis and the clock of this machine are more than a minute apart. Correct them first.',
        )
      count += set
    }
    return count
  }

  async close(): Promise<void> {
    this.client.disconnect()
  }

  /** The keys that have figures. */
  private async keys(organization: string): Promise<readonly string[]> {
    const found = await readHash(this.client, redisKey(organization, 'scopes'), 'k*')
    return Array.from(found.keys(), (field) => field.slice(1))
  }
}

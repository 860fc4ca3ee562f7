/** Sets back windows that began too early, in Redis, whether or not a gateway runs. */

import type { RedisConfig } from '../../../core/redis-config.ts'
import type { RedisClient } from '../../../redis/connect.ts'
import { connectOnce } from '../../../redis/connect-once.ts'
import type { UsageRow } from '../../usage-log.ts'
import { spentNow, type WindowReset, WindowResetError } from '../../window-reset.ts'
import { checkDataVersion } from '../store/data-version.ts'
import { redisKey } from '../store/redis-keys.ts'
import { RedisStore } from '../store/redis-store.ts'

const SCANNED_A_CALL = 500

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
  private async keys(organization: string): Promise<ReadonlySet<string>> {
    const keys = new Set<string>()
    let cursor = '0'
    do {
      const name = redisKey(organization, 'scopes')
      const [next, words] = await this.client.hscan(name, cursor, 'MATCH', 'k*', 'COUNT', SCANNED_A_CALL)
      cursor = next
      for (let i = 0; i < words.length; i += 2) keys.add((words[i] ?? '').slice(1))
    } while (cursor !== '0')
    return keys
  }
}

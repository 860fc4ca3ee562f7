/** Chooses, of all nodes that share a Redis, the one that reports an alert. */

import type { RedisClient } from '../redis/connect.ts'
import type { LedgerPlace } from './open-ledger.ts'

interface AlertClaims {
  /**
   * Whether this node reports the alert: true if no other node has claimed it, also if an earlier call with this token
   * did. The claim holds for `forMs`. Rejects if Redis does not answer.
   */
  claim(id: string, owner: { readonly organization: string; readonly token: string }, forMs: number): Promise<boolean>
  close(): void
}

/** Connects to Redis at the first claim. With the embedded ledger there is one node. */
export function alertClaims({ ledger }: Pick<LedgerPlace, 'ledger'>): AlertClaims {
  if (ledger.kind === 'embedded') return { claim: async () => true, close() {} }
  let connecting: Promise<RedisClient> | undefined
  const connected = async () => {
    const { connectOnce } = await import('../redis/connect-once.ts')
    return await connectOnce(ledger.redis)
  }
  return {
    async claim(id, { organization, token }, forMs) {
      const { redisKey } = await import('../ledger/redis/store/redis-keys.ts')
      connecting ??= connected()
      // The next claim tries to connect again.
      connecting.catch(() => {
        connecting = undefined
      })
      const client = await connecting
      // In the slot of the organisation, as all of its keys: a user of Redis may be confined to `weir:*`.
      const key = redisKey(organization, `alert:${id}`)
      const before = await client.set(key, token, 'PX', Math.ceil(forMs), 'NX', 'GET')
      return before === null || before === token
    },
    close() {
      void connecting?.then(
        (client) => client.disconnect(),
        () => {},
      )
    },
  }
}

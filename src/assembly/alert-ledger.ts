/**
 * What alerts need of the ledger: the spend that reached a threshold, and, of all nodes that share a Redis, the one
 * that reports an alert. One connection, opened at the first use.
 */

import { EmbeddedCrossingReader } from '../ledger/embedded/crossing-reader.ts'
import type { CrossingReader } from '../ledger/spend-crossing.ts'
import type { RedisClient } from '../redis/connect.ts'
import type { LedgerPlace } from './open-ledger.ts'

interface AlertLedger {
  /** The same reader at each call; it must not be closed. Rejects if the ledger cannot be reached. */
  reader(): Promise<CrossingReader>
  /**
   * Whether this node reports the alert: true if no other node has claimed it, also if an earlier call with this token
   * did. The claim holds for `forMs`. Rejects if Redis does not answer.
   */
  claim(id: string, owner: { readonly organization: string; readonly token: string }, forMs: number): Promise<boolean>
  close(): void
}

export function alertLedger({ ledger, dataDir }: Pick<LedgerPlace, 'ledger' | 'dataDir'>): AlertLedger {
  if (ledger.kind === 'redis') return new RedisAlertLedger(ledger)
  const reader = new EmbeddedCrossingReader(dataDir)
  // With the embedded ledger there is one node.
  return { reader: async () => reader, claim: async () => true, close() {} }
}

interface Connected {
  readonly client: RedisClient
  readonly reader: CrossingReader
}

class RedisAlertLedger implements AlertLedger {
  private connecting: Promise<Connected> | undefined

  constructor(private readonly ledger: Extract<LedgerPlace['ledger'], { kind: 'redis' }>) {}

  async reader(): Promise<CrossingReader> {
    return (await this.connected()).reader
  }

  async claim(id: string, owner: { readonly organization: string; readonly token: string }, forMs: number) {
    const { redisKey } = await import('../ledger/redis/store/redis-keys.ts')
    const { client } = await this.connected()
    // In the slot of the organisation, as all of its keys: a user of Redis may be confined to `weir:*`.
    const key = redisKey(owner.organization, `alert:${id}`)
    const before = await client.set(key, owner.token, 'PX', Math.ceil(forMs), 'NX', 'GET')
    return before === null || before === owner.token
  }

  close(): void {
    void this.connecting?.then(
      ({ client }) => client.disconnect(),
      () => {},
    )
  }

  private connected(): Promise<Connected> {
    this.connecting ??= this.connect()
    // The next call tries to connect again.
    this.connecting.catch(() => {
      this.connecting = undefined
    })
    return this.connecting
  }

  private async connect(): Promise<Connected> {
    const { connectOnce } = await import('../redis/connect-once.ts')
    const { RedisCrossingReader } = await import('../ledger/redis/readers/redis-crossings.ts')
    const client = await connectOnce(this.ledger.redis)
    return { client, reader: new RedisCrossingReader(client) }
  }
}

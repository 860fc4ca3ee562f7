/**
 * What alerts need of the ledger: the spend that reached a threshold, and, of all nodes that share a Redis, the one
 * that reports an alert. One connection, opened at the first use.
 */

import type { Claim, WonClaim } from '../alerts/alert-queue.ts'
import type { SharedAlerts } from '../alerts/alerts.ts'
import { EmbeddedCrossingReader } from '../ledger/embedded/sqlite-readers.ts'
import type { CrossingReader } from '../ledger/spend-crossing.ts'
import type { RedisClient } from '../redis/connect.ts'
import type { LedgerPlace } from './open-ledger.ts'

interface AlertLedger extends SharedAlerts {
  /** The same reader at each call, also after it was closed. Rejects if the ledger cannot be reached. */
  reader(): Promise<CrossingReader>
  /**
   * Whether this node reports the alert: true if no other node has claimed it, also if an earlier call with this token
   * did. The claim holds for `forMs`. Rejects if Redis does not answer, or was connected just now.
   */
  claim(id: string, owner: Claim, forMs: number): Promise<boolean>
  close(): void
}

/** Distinguishes alerts of the nodes that share this Redis from those of others with the same organisations. */
const INSTALLATION = 'weir:installation'

/**
 * How long a node claims nothing after it has connected. The others connect again within half a second of the server's
 * return.
 */
const HOLD_MS = 2000

/** `claims`: those that this node has won, some at a time. */
export function alertLedger(
  { ledger, dataDir }: Pick<LedgerPlace, 'ledger' | 'dataDir'>,
  claims: () => Iterable<readonly WonClaim[]>,
): AlertLedger {
  if (ledger.kind === 'redis') return new RedisAlertLedger(ledger, claims)
  const reader = new EmbeddedCrossingReader(dataDir)
  // With the embedded ledger there is one node.
  return { reader: async () => reader, claim: async () => true, installation: async (own) => own, close() {} }
}

interface Connected {
  readonly client: RedisClient
  readonly reader: CrossingReader
}

/**
 * A Redis that was restarted or failed over may have lost claims, and the spend that the ledgers give back to it
 * reaches thresholds again. So each node repeats its claims as soon as it is connected again, and none claims anything
 * new before the others have had the time for that.
 */
class RedisAlertLedger implements AlertLedger {
  private connecting: Promise<Connected> | undefined
  private connectedMs = 0
  private known: string | undefined

  constructor(
    private readonly ledger: Extract<LedgerPlace['ledger'], { kind: 'redis' }>,
    private readonly claims: () => Iterable<readonly WonClaim[]>,
  ) {}

  async reader(): Promise<CrossingReader> {
    return (await this.connected()).reader
  }

  async claim(id: string, owner: Claim, forMs: number): Promise<boolean> {
    const { client } = await this.connected()
    if (performance.now() - this.connectedMs < HOLD_MS)
      throw new Error('The connection to Redis is new: other nodes may have claimed the alert.')
    const key = await claimKey(owner.organization, id)
    const before = await client.set(key, owner.token, 'PX', Math.ceil(forMs), 'NX', 'GET')
    return before === null || before === owner.token
  }

  async installation(own: string): Promise<string> {
    const { client } = await this.connected()
    this.known = (await client.set(INSTALLATION, own, 'NX', 'GET')) ?? own
    return this.known
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
    const renew = () => {
      this.connectedMs = performance.now()
      // If Redis fails, the next connection repeats them; a queue that cannot be read is logged by those that use it.
      this.repeatClaims(client).catch(() => {})
    }
    // A client of a cluster reports the servers that it connects to, and stays ready.
    for (const event of ['ready', '+node', '-node']) client.on(event, renew)
    renew()
    return { client, reader: new RedisCrossingReader(client) }
  }

  private async repeatClaims(client: RedisClient): Promise<void> {
    if (this.known !== undefined) await client.set(INSTALLATION, this.known, 'NX')
    for (const page of this.claims()) {
      const sets = page.map(async ({ id, organization, token, untilMs }) => {
        const forMs = Math.max(1, Math.ceil(untilMs - Date.now()))
        await client.set(await claimKey(organization, id), token, 'PX', forMs, 'NX')
      })
      await Promise.all(sets)
    }
  }
}

/** In the slot of the organisation, as all of its keys: a user of Redis may be confined to `weir:*`. */
async function claimKey(organization: string, id: string): Promise<string> {
  const { redisKey } = await import('../ledger/redis/store/redis-keys.ts')
  return redisKey(organization, `alert:${id}`)
}

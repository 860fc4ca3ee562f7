/** Reads the spend that reached a threshold from the ledger in Redis, and deletes what a gateway has queued. */

import { batchesOf, mapInBatches } from '../../../core/batches.ts'
import type { RedisClient } from '../../../redis/connect.ts'
import { readHash } from '../../../redis/hash-pages.ts'
import { type CrossingReader, ofRecordName, ownerOfScope, type SpendCrossing } from '../../spend-crossing.ts'
import { redisKey } from '../store/redis-keys.ts'
import { RedisStore } from '../store/redis-store.ts'

/** Redis is blocked for the time of a call: with 100,000 crossings in one, for a second on a busy machine. */
const TAKEN_A_CALL = 500
/** Organisations that are read at the same time. */
const ABREAST = 100

/** A record with its field and value in Redis. */
interface Stored extends SpendCrossing {
  readonly field: string
  readonly value: string
}

export class RedisCrossingReader implements CrossingReader {
  /** The connection stays the caller's. */
  constructor(
    private readonly client: RedisClient,
    private readonly store: Pick<RedisStore, 'taken'> = new RedisStore(client, client),
  ) {}

  async read(organizations: readonly string[]): Promise<readonly Stored[]> {
    return (await mapInBatches(organizations, ABREAST, (organization) => this.readOne(organization))).flat()
  }

  async take(crossings: readonly Stored[]): Promise<void> {
    const byOrganization = Map.groupBy(crossings, ({ organization }) => organization)
    await Promise.all(Array.from(byOrganization, ([organization, some]) => this.takeOf(organization, some)))
  }

  /** One call after the other: Redis serves other commands in between. */
  private async takeOf(organization: string, crossings: readonly Stored[]): Promise<void> {
    for (const some of batchesOf(crossings, TAKEN_A_CALL)) {
      await this.store.taken(
        organization,
        some.map(({ field, value }) => [field, value]),
      )
    }
  }

  /** Does nothing: the connection stays open. */
  async close(): Promise<void> {}

  private async readOne(organization: string): Promise<readonly Stored[]> {
    const values = await readHash(this.client, redisKey(organization, 'crossings'))
    return [...values].flatMap(([field, value]) => storedOf(organization, field, value))
  }
}

/** Empty for a record of a later version of weir, about a budget that this one does not know. */
function storedOf(organization: string, field: string, value: string): readonly Stored[] {
  const [scope = '', name, window] = field.split('\0')
  const named = ofRecordName(scope, name)
  if (named === undefined) return []
  const [spent, limit = -1] = value.split(' ').map(Number)
  return [
    {
      organization,
      ...ownerOfScope(scope),
      ...named,
      window: Number(window),
      spentMicroUsd: spent ?? 0,
      limitMicroUsd: limit < 0 ? undefined : limit,
      field,
      value,
    },
  ]
}

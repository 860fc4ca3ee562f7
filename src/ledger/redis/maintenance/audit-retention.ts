/**
 * Bounds the audit trail in Redis by age and by the total size of all organisations' streams. Each stream has at most
 * 100,000 entries (`store.lua`); for 10,000 organisations that alone would allow 155 GB.
 */

import { mapInBatches } from '../../../core/batches.ts'
import { HOUR_MS } from '../../../core/durations.ts'
import type { RedisClient } from '../../../redis/connect.ts'
import { isPermanent } from '../../../redis/redis-errors.ts'
import { ORGANIZATIONS_KEY, redisKey } from '../store/redis-keys.ts'

/** For all organisations together; docs/operating.md names it. An entry takes 85 to 250 bytes. */
const AUDIT_BYTES_MAX = 1024 * 1024 * 1024
/** No entry with all of its tags, and no stream besides its entries, takes more: most are far from the limit. */
const ENTRY_BYTES_MAX = 2000
const STREAM_BYTES_MAX = 4000
/** Keys that are read at once. */
const AT_ONCE = 200

interface Stream {
  readonly name: string
  readonly entries: number
  readonly bytes: number
}

export class AuditRetention {
  private trimmedMs = Number.NEGATIVE_INFINITY

  constructor(
    private readonly client: RedisClient,
    private readonly keepMs: number,
    private readonly bytesMax = AUDIT_BYTES_MAX,
  ) {}

  /** Deletes entries that are too old, at most once an hour, and then the oldest entries of the longest streams. */
  async trim(now: number): Promise<void> {
    const organizations = await this.client.smembers(ORGANIZATIONS_KEY)
    const names = organizations.map((organization) => redisKey(organization, 'audit'))
    if (now - this.trimmedMs >= HOUR_MS) {
      // Redis deletes at most 10,000 entries in one call, so that no other call waits long.
      await readEach(names, (name) => this.repeated(name, 'MINID', now - this.keepMs))
      this.trimmedMs = now
    }
    const counted = await readEach(names, async (name) => ({ name, entries: await this.client.xlen(name) }))
    const found = counted.filter(({ entries }) => entries > 0)
    const bytesAtMost = found.reduce((sum, { entries }) => sum + STREAM_BYTES_MAX + entries * ENTRY_BYTES_MAX, 0)
    if (bytesAtMost <= this.bytesMax) return
    const streams = await readEach(found, (one) => this.measure(one))
    const most = levelOf(
      streams.map(({ bytes }) => bytes),
      this.bytesMax,
    )
    const long = streams.filter(({ bytes }) => bytes > most)
    await readEach(long, ({ name, entries, bytes }) =>
      this.repeated(name, 'MAXLEN', Math.floor((entries * most) / bytes)),
    )
  }

  private async measure({ name, entries }: Omit<Stream, 'bytes'>): Promise<Stream> {
    return { name, entries, bytes: (await this.client.memory('USAGE', name)) ?? 0 }
  }

  private async repeated(name: string, how: 'MINID' | 'MAXLEN', threshold: number): Promise<void> {
    while ((await this.client.call('XTRIM', name, how, '~', threshold)) !== 0);
  }
}

/**
 * What `call` resolves to for each, many at once. An organisation with other data under its keys is left out: its
 * requests fail with an error.
 */
export async function readEach<T, R>(all: readonly T[], call: (one: T) => Promise<R>): Promise<readonly R[]> {
  const results = await mapInBatches(all, AT_ONCE, async (one) => {
    try {
      return [await call(one)]
    } catch (error) {
      if (!isPermanent(error)) throw error
      return []
    }
  })
  return results.flat()
}

/** The highest limit for each that keeps the sum of all at most `most`; infinite if the sum is below it already. */
export function levelOf(sizes: readonly number[], most: number): number {
  const ascending = sizes.toSorted((a, b) => a - b)
  let left = most
  for (const [i, size] of ascending.entries()) {
    const share = left / (ascending.length - i)
    if (size > share) return share
    left -= size
  }
  return Number.POSITIVE_INFINITY
}

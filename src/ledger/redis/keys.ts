/** The key store of several machines: one hash in Redis, and a number that changes with it. */

import { KEY_POLL_MS, type KeyListener, type KeyRecord, type KeyStore, ofOrganization, parseKey } from '../key-store.ts'
import { connect, type RedisPlace } from './connect.ts'
import { connected } from './readings.ts'

/** One slot of a cluster. */
const RECORDS = 'weir:{keys}:records'
const VERSION = 'weir:{keys}:version'

const SCANNED_A_CALL = 500

/** Every key there ever was, some at a time; one may come twice. */
export async function* scanKeys(client: ReturnType<typeof connect>): AsyncGenerator<readonly KeyRecord[]> {
  let cursor = '0'
  do {
    const [next, words] = await client.hscan(RECORDS, cursor, 'COUNT', SCANNED_A_CALL)
    cursor = next
    yield words.flatMap((word, i) => (i % 2 === 0 ? [] : (parseKey(word) ?? [])))
  } while (cursor !== '0')
}

/** What a gateway has read last. */
interface Seen {
  version: number | undefined
  records: readonly KeyRecord[]
}

export class RedisKeyStore implements KeyStore {
  private constructor(private readonly client: ReturnType<typeof connect>) {}

  /** For a command: throws `RedisUnfitError` where Redis does not answer. */
  static async open(place: RedisPlace): Promise<RedisKeyStore> {
    return new RedisKeyStore(await connected(place))
  }

  /** For a gateway, which begins without Redis where it must: the keys come when it does. */
  static begin(place: RedisPlace): RedisKeyStore {
    return new RedisKeyStore(connect(place, 'weir-keys'))
  }

  async create(record: KeyRecord): Promise<boolean> {
    const created = await this.client.hsetnx(RECORDS, record.id, JSON.stringify(record))
    await this.client.incr(VERSION)
    return created === 1
  }

  async list(organization?: string): Promise<readonly KeyRecord[]> {
    return ofOrganization(await this.all(), organization)
  }

  async revoke(id: string, nowMs: number): Promise<'revoked' | 'already_revoked' | 'unknown'> {
    const text = await this.client.hget(RECORDS, id)
    const record = text === null ? undefined : parseKey(text)
    if (record === undefined) return 'unknown'
    if (record.revokedMs !== undefined) return 'already_revoked'
    const revoked: KeyRecord = { ...record, revokedMs: nowMs }
    await this.client.hset(RECORDS, id, JSON.stringify(revoked))
    await this.client.incr(VERSION)
    return 'revoked'
  }

  watch(listener: KeyListener): () => void {
    const seen: Seen = { version: undefined, records: [] }
    let looking = false
    let ended = false
    const look = async () => {
      if (looking) return
      looking = true
      try {
        const changed = await this.look(seen)
        if (changed && !ended) listener(seen.records.filter(({ revokedMs }) => revokedMs === undefined))
      } catch {
        // Redis is away: the keys that were read last stand, and the next look is soon.
      } finally {
        looking = false
      }
    }
    look()
    const timer = setInterval(look, KEY_POLL_MS)
    timer.unref()
    return () => {
      ended = true
      clearInterval(timer)
    }
  }

  async close(): Promise<void> {
    this.client.disconnect()
  }

  /** True where the keys have changed since they were seen. */
  private async look(seen: Seen): Promise<boolean> {
    // The number first: what changes between the two is seen again the next time.
    let version = await this.version()
    if (version === seen.version) return false
    // It only ever grows: Redis was emptied, or set back.
    if (seen.version !== undefined && version < seen.version) version = await this.giveBack(seen.records, seen.version)
    seen.records = await this.all()
    seen.version = version
    return true
  }

  /** Keys that were made are made again, and those that were revoked stay revoked. Every gateway that remembers them does the same. */
  private async giveBack(records: readonly KeyRecord[], version: number): Promise<number> {
    for (const record of records) {
      const text = JSON.stringify(record)
      if (record.revokedMs === undefined) await this.client.hsetnx(RECORDS, record.id, text)
      else await this.client.hset(RECORDS, record.id, text)
    }
    await this.client.set(VERSION, version + 1)
    return version + 1
  }

  private async version(): Promise<number> {
    return Number((await this.client.get(VERSION)) ?? 0)
  }

  private async all(): Promise<readonly KeyRecord[]> {
    const records = await this.client.hvals(RECORDS)
    return records.map(parseKey).filter((record) => record !== undefined)
  }
}

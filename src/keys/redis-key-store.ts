/**
 * The key store of several machines, in one slot of a cluster: a hash of all keys, a number that grows with each change, and a sorted set of
 * the latest changes by that number.
 */

import { randomBytes } from 'node:crypto'
import type { RedisConfig } from '../core/redis-config.ts'
import { connect, type RedisClient } from '../redis/connect.ts'
import { connectOnce } from '../redis/connect-once.ts'
import { accessProblem, isPermanent } from '../redis/redis-errors.ts'
import { type KeyRecord, parseKey } from './key-record.ts'
import {
  CHANGES_A_PAGE,
  CHANGES_KEPT,
  type Change,
  KEYS_A_PAGE,
  type KeyBackend,
  type KeyPage,
  KeyStore,
  type Replacement,
  type Version,
} from './key-store.ts'
import replaceKeys from './replace-keys.lua' with { type: 'text' }

type Client = RedisClient

/** Texts by id. Earlier versions of this program wrote it, and counted up the version, without a log. */
const RECORDS = 'weir:{keys}:records'
const VERSION = 'weir:{keys}:version'
/** `NONCE ID` by the version that the change made. */
const CHANGES = 'weir:{keys}:changes'

/** Revoking a key must be possible on a server that is full. */
const REPLACE = `#!lua flags=allow-oom\n${replaceKeys}`

/** A command that failed for a moment is repeated until then: each says the same when it is given twice. */
const PATIENT_MS = 3000
const PATIENT_PAUSE_MS = 100

/** Every key there is, some at a time; one may come twice. */
export async function* scanKeys(client: Client): AsyncGenerator<readonly KeyRecord[]> {
  let cursor: string | undefined
  do {
    const page = await scan(client, cursor)
    yield page.texts.flatMap((text) => parseKey(text) ?? [])
    cursor = page.next
  } while (cursor !== undefined)
}

async function scan(client: Client, cursor: string | undefined): Promise<KeyPage> {
  const [next, words] = await client.hscan(RECORDS, cursor ?? '0', 'COUNT', KEYS_A_PAGE)
  return { texts: words.filter((_, i) => i % 2 === 1), next: next === '0' ? undefined : next }
}

/** For a command. Throws `RedisUnfitError` if Redis does not answer. */
export async function openRedisKeys(place: RedisConfig): Promise<KeyStore> {
  return new KeyStore(new RedisKeys(await connectOnce(place), PATIENT_MS))
}

/** For a gateway, which begins without Redis if it must: the keys come when it does. */
export function beginRedisKeys(place: RedisConfig): KeyBackend {
  return new RedisKeys(connect(place, 'weir-keys'), 0)
}

class RedisKeys implements KeyBackend {
  readonly isShared = true

  constructor(
    private readonly client: Client,
    /** For how long a failed call is repeated. */
    private readonly patientMs: number,
  ) {}

  changes(from: number): Promise<{ readonly newest: number; readonly entries: readonly Change[] }> {
    return this.patiently(async () => {
      const [newest, words] = await Promise.all([
        this.client.get(VERSION),
        this.client.zrangebyscore(CHANGES, from, '+inf', 'WITHSCORES', 'LIMIT', 0, CHANGES_A_PAGE),
      ])
      return { newest: Number(newest ?? 0), entries: entriesOf(words) }
    })
  }

  async head(): Promise<Version> {
    const newest = Number((await this.client.get(VERSION)) ?? 0)
    if (newest === 0) return { number: 0, nonce: '' }
    const logged = await this.logged(newest)
    if (logged !== undefined) return logged
    await this.call([])
    return this.head()
  }

  texts(ids: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.patiently(async () => {
      const texts = await this.client.hmget(RECORDS, ...ids)
      return texts.map((text) => text ?? undefined)
    })
  }

  page(cursor: string | undefined): Promise<KeyPage> {
    return this.patiently(() => scan(this.client, cursor))
  }

  async size(): Promise<number> {
    return await this.client.hlen(RECORDS)
  }

  replace(replacements: readonly Replacement[]): Promise<readonly string[]> {
    const words = replacements.flatMap(({ id, before, after }) => [id, before ?? '', after ?? ''])
    return this.patiently(() => this.call(words))
  }

  async nowMs(): Promise<number> {
    const [seconds] = await this.client.time()
    return Number(seconds) * 1000
  }

  async close(): Promise<void> {
    this.client.disconnect()
  }

  private async logged(number: number): Promise<Version | undefined> {
    const words = await this.client.zrangebyscore(CHANGES, number, number, 'WITHSCORES')
    return entriesOf(words)[0]
  }

  private async call(words: readonly string[]): Promise<readonly string[]> {
    const nonce = randomBytes(8).toString('hex')
    const written = await this.client.eval(REPLACE, 3, RECORDS, VERSION, CHANGES, CHANGES_KEPT, nonce, ...words)
    return Array.isArray(written) ? written.map(String) : []
  }

  private async patiently<T>(call: () => Promise<T>): Promise<T> {
    const end = performance.now() + this.patientMs
    for (;;) {
      try {
        return await call()
      } catch (error) {
        const isLasting = isPermanent(error) || accessProblem(error) !== undefined
        if (isLasting || performance.now() >= end) throw accessProblem(error) ?? error
      }
      await Bun.sleep(PATIENT_PAUSE_MS)
    }
  }
}

function entriesOf(words: readonly string[]): readonly Change[] {
  const entries: Change[] = []
  for (let i = 0; i + 1 < words.length; i += 2) {
    const [nonce = '', id = ''] = (words[i] ?? '').split(' ')
    entries.push({ number: Number(words[i + 1]), nonce, id })
  }
  return entries
}

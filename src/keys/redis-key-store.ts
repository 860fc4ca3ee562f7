/**
 * The key store of several machines, in one slot of a cluster: a hash of all keys, a version that grows with each
 * change, and a sorted set of the latest changes by version.
 */

import type { RedisConfig } from '../core/redis-config.ts'
import { readSettled } from '../redis/agreed-master.ts'
import { connect, type RedisClient } from '../redis/connect.ts'
import { connectOnce } from '../redis/connect-once.ts'
import { readHash } from '../redis/hash-pages.ts'
import { accessProblem, commandProblem, isPermanent, RedisUnfitError } from '../redis/redis-errors.ts'
import {
  ADMIN_ENTRIES_A_PAGE,
  ADMIN_ENTRIES_KEPT,
  type AdminAudit,
  type AdminEntry,
  type AuditPage,
  auditPage,
  entryText,
} from './admin-audit.ts'
import { type KeyRecord, parseKeyRecord } from './key-record.ts'
import {
  CHANGES_A_PAGE,
  CHANGES_KEPT,
  type Change,
  KEYS_A_PAGE,
  type KeyBackend,
  type KeyPage,
  KeyStore,
  newNonce,
  type Replacement,
  type Standing,
  type Version,
} from './key-store.ts'
import replaceKeys from './replace-keys.lua' with { type: 'text' }

/** Texts by id. Earlier versions of weir changed them and the version without writing the log. */
const RECORDS = 'weir:{keys}:records'
const VERSION = 'weir:{keys}:version'
/** `NONCE ID` by the version of the change. */
const CHANGES = 'weir:{keys}:changes'
/** The admin audit: a stream, whose ids begin with Redis' clock. */
const AUDIT = 'weir:{keys}:audit'
/**
 * The ids of the organisations among the records, which would take long to find among many keys. In a Redis that an
 * earlier version has refilled after a loss, an id may be missing until its next change: it is then not listed.
 */
const ORGANIZATIONS = 'weir:{keys}:organizations'
/** How far the clocks of the servers of a cluster may be apart. */
const CLOCKS_APART_MS = 60_000

/** A key can be revoked even if Redis has reached maxmemory. */
const REPLACE = `#!lua flags=allow-oom\n${replaceKeys}`

/** A call that failed is retried for this time: every call may be sent twice. */
const RETRY_MS = 3000
const RETRY_PAUSE_MS = 100

/** All keys, page by page; a key may occur twice. */
export async function* scanKeys(client: RedisClient): AsyncGenerator<readonly KeyRecord[]> {
  let cursor: string | undefined
  do {
    const page = await scan(client, cursor)
    yield page.texts.flatMap((text) => parseKeyRecord(text) ?? [])
    cursor = page.next
  } while (cursor !== undefined)
}

async function scan(client: RedisClient, cursor: string | undefined): Promise<KeyPage> {
  const [next, words] = await client.hscan(RECORDS, cursor ?? '0', 'COUNT', KEYS_A_PAGE)
  return { texts: words.filter((_, i) => i % 2 === 1), next: next === '0' ? undefined : next }
}

/** For commands. Throws `RedisUnfitError` if Redis does not answer. */
export async function openRedisKeyStore(place: RedisConfig): Promise<KeyStore> {
  return new KeyStore(new RedisKeyBackend(place, await connectOnce(place), RETRY_MS))
}

/** For gateways, which start without Redis if necessary: the keys are read when it answers. */
export function redisKeyBackend(place: RedisConfig): KeyBackend {
  return new RedisKeyBackend(place, connect(place, 'weir-keys'), 0)
}

class RedisKeyBackend implements KeyBackend, AdminAudit {
  readonly isShared = true
  readonly audit: AdminAudit = this

  constructor(
    private readonly place: RedisConfig,
    private readonly client: RedisClient,
    /** How long a failed call is retried; 0 for a gateway, which polls again anyway. */
    private readonly retryMs: number,
  ) {}

  changes(from: number): Promise<{ readonly newest: number; readonly entries: readonly Change[] }> {
    return this.withRetry(async () => {
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
    await this.call([], newNonce())
    return this.head()
  }

  texts(ids: readonly string[]): Promise<readonly (string | undefined)[]> {
    return this.withRetry(async () => {
      const texts = await this.client.hmget(RECORDS, ...ids)
      return texts.map((text) => text ?? undefined)
    })
  }

  organizationIds(): Promise<readonly string[]> {
    return this.withRetry(async () => [...(await readHash(this.client, ORGANIZATIONS)).keys()])
  }

  page(cursor: string | undefined): Promise<KeyPage> {
    return this.withRetry(() => scan(this.client, cursor))
  }

  async size(): Promise<number> {
    return await this.client.hlen(RECORDS)
  }

  replace(
    replacements: readonly Replacement[],
    entry?: AdminEntry,
    nonce: string = newNonce(),
  ): Promise<readonly string[]> {
    const words = replacements.flatMap(({ id, before, after }) => [id, before ?? '', after ?? ''])
    return this.withRetry(() => this.call(words, nonce, entry))
  }

  problemOf(error: unknown): string {
    return commandProblem(error)
  }

  isFinal(error: unknown): boolean {
    return error instanceof RedisUnfitError || isPermanent(error)
  }

  async standing(changes: readonly Pick<Change, 'id' | 'nonce'>[]): Promise<Standing> {
    try {
      const { value, doubt } = await readSettled(this.place, this.client, RECORDS, (master) => found(master, changes))
      return { found: value, doubt }
    } catch (error) {
      throw accessProblem(error) ?? error
    }
  }

  async append(entries: readonly AdminEntry[]): Promise<void> {
    const pipeline = this.client.pipeline()
    for (const entry of entries) pipeline.xadd(AUDIT, 'MAXLEN', '~', ADMIN_ENTRIES_KEPT, '*', 'entry', entryText(entry))
    // Not retried: a second try would add the entries twice.
    for (const [error] of (await pipeline.exec()) ?? []) if (error !== null) throw error
  }

  entriesAfter(position: string | undefined): Promise<AuditPage> {
    return this.withRetry(async () => {
      const start = position === undefined ? '-' : `(${position}`
      const found = await this.client.xrange(AUDIT, start, '+', 'COUNT', ADMIN_ENTRIES_A_PAGE)
      return auditPage(found.map(([id, words]) => ({ position: id, text: words[words.indexOf('entry') + 1] ?? '' })))
    })
  }

  /**
   * Reads what was added in the last minute. XREVRANGE would find the newest entry at once, but it is not among the
   * commands that operators have permitted for earlier versions of weir.
   */
  async newest(): Promise<string> {
    let position = `${(await this.withRetry(() => this.nowMs())) - CLOCKS_APART_MS}-0`
    for (;;) {
      const { end } = await this.entriesAfter(position)
      if (end === undefined) return position
      position = end
    }
  }

  async trim(beforeMs: number): Promise<void> {
    await this.client.xtrim(AUDIT, 'MINID', Math.max(0, beforeMs))
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

  private async call(words: readonly string[], nonce: string, entry?: AdminEntry): Promise<readonly string[]> {
    const text = entry === undefined ? '' : entryText(entry)
    const names = [RECORDS, VERSION, CHANGES, AUDIT, ORGANIZATIONS]
    const numbers = [CHANGES_KEPT, ADMIN_ENTRIES_KEPT]
    const written = await this.client.eval(REPLACE, names.length, ...names, ...numbers, nonce, text, ...words)
    return Array.isArray(written) ? written.map(String) : []
  }

  private async withRetry<T>(call: () => Promise<T>): Promise<T> {
    const end = performance.now() + this.retryMs
    for (;;) {
      try {
        return await call()
      } catch (error) {
        const isLasting = isPermanent(error) || accessProblem(error) !== undefined
        if (isLasting || performance.now() >= end) throw accessProblem(error) ?? error
      }
      await Bun.sleep(RETRY_PAUSE_MS)
    }
  }
}

async function found(
  client: RedisClient,
  changes: readonly Pick<Change, 'id' | 'nonce'>[],
): Promise<Standing['found']> {
  const [texts, ...numbers] = await Promise.all([
    client.hmget(RECORDS, ...changes.map(({ id }) => id)),
    ...changes.map(({ id, nonce }) => client.zscore(CHANGES, `${nonce} ${id}`)),
  ])
  return changes.map((_, i) => ({ text: texts[i] ?? undefined, isLogged: numbers[i] != null }))
}

function entriesOf(words: readonly string[]): readonly Change[] {
  const entries: Change[] = []
  for (let i = 0; i + 1 < words.length; i += 2) {
    const [nonce = '', id = ''] = (words[i] ?? '').split(' ')
    entries.push({ number: Number(words[i + 1]), nonce, id })
  }
  return entries
}

/** Keys of `weir keys create`: their format, and both stores. */

import { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { keyFollower, type LedgerPlace, openKeyStore } from '../../src/assembly/open-ledger.ts'
import { ADMIN_ENTRIES_A_PAGE } from '../../src/keys/admin-audit.ts'
import { KeyChanges, type KeyChangesParts } from '../../src/keys/key-changes.ts'
import type { FollowerOptions, KeyFollower } from '../../src/keys/key-follower.ts'
import { isMistyped, newToken } from '../../src/keys/key-format.ts'
import { KEY_KEPT_MS, type KeyRecord, revocationOf } from '../../src/keys/key-record.ts'
import { CHANGES_KEPT, type KeyBackend, type KeyStore } from '../../src/keys/key-store.ts'
import { openRedisKeyStore, redisKeyBackend } from '../../src/keys/redis-key-store.ts'
import { SqliteKeyBackend } from '../../src/keys/sqlite-key-store.ts'
import { LossyProxy } from '../ledger/lossy-proxy.ts'
import { RedisServer } from '../ledger/redis-server.ts'
import { until } from '../ledger/seen.ts'

describe('a new key', () => {
  test('has a prefix, a name, a secret and a checksum, of letters and digits alone', () => {
    const { token, sha256, shown } = newToken()
    expect(token).toMatch(/^gwk_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/)
    expect(sha256).toBe(createHash('sha256').update(token).digest('hex'))
    expect(token.startsWith(shown)).toBe(true)
    expect(shown).toHaveLength(12)
    expect(new Set(Array.from({ length: 100 }, () => newToken().token)).size).toBe(100)
  })

  test('is recognized as mistyped with any wrong or missing character', () => {
    const { token } = newToken()
    expect(isMistyped(token)).toBe(false)
    for (let i = 4; i < token.length; i++) {
      const other = token[i] === 'x' ? 'y' : 'x'
      expect(isMistyped(token.slice(0, i) + other + token.slice(i + 1))).toBe(true)
      expect(isMistyped(token.slice(0, i) + token.slice(i + 1))).toBe(true)
    }
  })

  test('differs from keys of the configuration, which have no fixed format', () => {
    expect(['sk-whatever-it-is', 'gw', ''].map(isMistyped)).toEqual([false, false, false])
  })
})

function record(id: string, organization = 'acme'): KeyRecord {
  const { sha256, shown } = newToken()
  return { id, organization, sha256, shown, models: ['gpt-*'], createdMs: 1000, expiresAtMs: Date.now() + 1e9 }
}

const dataDir = mkdtempSync(join(tmpdir(), 'weir-keys-'))
let server: RedisServer | undefined

const places: readonly [string, () => LedgerPlace][] = [
  ['embedded', () => ({ ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir })],
  [
    'Redis',
    () => {
      const redis = { kind: 'single', url: server?.socket ?? '' } as const
      return { ledger: { kind: 'redis', redis }, ledgerUnreachable: 'refuse', dataDir }
    },
  ],
]

beforeAll(async () => {
  server = await RedisServer.start()
})
afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  rmSync(dataDir, { recursive: true, force: true })
})

/** A gateway that follows the store: it polls on its own, or only when the test calls `update`. */
async function follow(place: LedgerPlace, options: Partial<FollowerOptions> & { byHand?: boolean } = {}) {
  const { byHand: _, ...rest } = options
  const keys = await keyFollower(place, {
    prunes: false,
    pruneFailed: (error) => expect(error).toBeUndefined(),
    ...rest,
  })
  if (options.byHand === true) await until(async () => (await keys.update()) === undefined)
  else await keys.start()
  return {
    keys,
    sees: (id: string, isThere: boolean) =>
      until(async () => {
        if (options.byHand === true) await keys.update()
        return isAccepted(keys, id) === isThere
      }),
    [Symbol.asyncDispose]: () => keys.stop(),
  }
}

function backendOf({ ledger, dataDir: directory }: LedgerPlace): KeyBackend {
  return ledger.kind === 'embedded' ? new SqliteKeyBackend(directory) : redisKeyBackend(ledger.redis)
}

function isAccepted({ table }: KeyFollower, id: string): boolean {
  const known = table.get(id)
  return known !== undefined && table.find(Buffer.from(known.sha256, 'hex'))?.id === id
}

describe.each(places)('the %s key store', (name, place) => {
  async function withStore(use: (store: KeyStore) => Promise<void>): Promise<void> {
    const store = await openKeyStore(place())
    await use(store)
    await store.close()
  }

  test('stores keys by id, for later readers', async () => {
    const [ci, dev] = [record('ci'), record('dev', 'other')]
    await withStore(async (store) => {
      expect([await store.create(dev), await store.create(ci)]).toEqual([true, true])
      expect(await store.create(record('ci'))).toBe(false)
    })
    await withStore(async (store) => {
      expect(await store.list()).toEqual([ci, dev])
      expect(await store.list('other')).toEqual([dev])
    })
  })

  test('revokes once, and rejects the id for a new key', async () => {
    await withStore(async (store) => {
      const now = Date.now()
      await store.create(record('old'))
      expect(await store.revoke('old', now)).toBe('revoked')
      expect(await store.revoke('old', now + 1)).toBe('already_revoked')
      expect(await store.revoke('nobody', now)).toBe('unknown')
      expect((await store.list()).find(({ id }) => id === 'old')?.revokedMs).toBe(now)
      expect(await store.create(record('old'))).toBe(false)
    })
  })

  test('changes a key once, whatever others change at the same time, with its entry of the admin audit', async () => {
    const entry = {
      timeMs: Date.now(),
      source: 'cli',
      action: 'key.updated',
      target: 'busy',
      details: { a: 1 },
    } as const
    await withStore(async (store) => {
      const seen = (await store.audit.newest()) ?? undefined
      expect(await store.change('nobody', (one) => ({ ...one, shown: 'x' }), entry)).toBeUndefined()
      await store.create(record('busy'), { ...entry, action: 'key.created' })
      const added = Array.from({ length: 12 }, (_, i) => i + 1)
      const all = added.map((n) =>
        store.change(
          'busy',
          (one) => ({ ...one, limits: { requestsPerMinute: (one.limits?.requestsPerMinute ?? 0) + n } }),
          entry,
        ),
      )
      await Promise.all(all)
      expect(await store.get('busy')).toMatchObject({ limits: { requestsPerMinute: 78 }, revision: 12 })
      // A change that changes nothing writes nothing.
      expect(await store.change('busy', (one) => one, entry)).toMatchObject({ revision: 12 })
      const refusal = store.change(
        'busy',
        () => {
          throw new Error('refused')
        },
        entry,
      )
      expect(await refusal.catch(String)).toBe('Error: refused')
      const { entries } = await store.audit.entriesAfter(seen)
      expect(entries).toEqual([{ ...entry, action: 'key.created' }, ...added.map(() => entry)])
    })
  })

  test('keeps limits, tags and the secret of before a rotation', async () => {
    const full: KeyRecord = {
      ...record('full'),
      limits: { tokensPerMinute: 7, spend: { month: 5_250_000, strict: true, onExhausted: 'cut' } },
      tags: { team: 'a' },
      previous: { sha256: newToken().sha256, untilMs: Date.now() + 60_000 },
    }
    await using gateway = await follow(place())
    await withStore(async (store) => {
      await store.create(full)
      expect(await store.get('full')).toEqual(full)
      await gateway.sees('full', true)
      expect(gateway.keys.table.get('full')).toEqual(full)
      const previous = Buffer.from(full.previous?.sha256 ?? '', 'hex')
      expect(gateway.keys.table.findPrevious(previous)?.id).toBe('full')
      await store.change('full', ({ previous: _, ...rest }) => rest)
      await until(async () => gateway.keys.table.findPrevious(previous) === undefined)
    })
  })

  test('the admin audit keeps the order, and drops what is older than a time', async () => {
    await withStore(async (store) => {
      const at = (timeMs: number) =>
        ({ timeMs, source: 'config', action: 'model.updated', target: `m-${timeMs}`, details: {} }) as const
      const seen = await store.audit.newest()
      await store.audit.append([at(1000), at(2000)])
      await store.audit.append([at(Date.now())])
      const targets = async () => (await store.audit.entriesAfter(seen)).entries.map(({ target }) => target)
      const [one, two, three] = await targets()
      expect([one, two]).toEqual(['m-1000', 'm-2000'])
      await store.audit.trim(name === 'Redis' ? 0 : 1500)
      expect(await targets()).toEqual(
        name === 'Redis' ? ['m-1000', 'm-2000', String(three)] : ['m-2000', String(three)],
      )
      await store.audit.trim(Date.now() + 60_000)
      expect(await targets()).toEqual([])
    })
  })

  test('a configuration that disables a revoked key and enables it at once drops its revocation', async () => {
    const enabled = new Set(['ci', 'bot'])
    const configured = { ids: () => ['ci', 'bot'], has: (_: string, id: string) => enabled.has(id) }
    const changed: string[] = []
    const inForce = new Map<string, number>()
    await using pruning = await follow(place(), {
      ...{ prunes: true, configured },
      changed: ({ action, target }) => changed.push(`${action} ${target}`),
      inForce: ({ id, createdMs }) => inForce.set(id, createdMs),
    })
    await using other = await follow(place(), { configured })
    const known = (id: string) => [pruning, other].map(({ keys }) => keys.table.revocation(id)?.createdMs)
    const reload = () => {
      for (const { keys } of [pruning, other]) keys.configurationChanged()
    }
    await withStore(async (store) => {
      const revoked = ['ci', 'bot'].map((id) => revocationOf('acme', id, 1000))
      for (const one of revoked) await store.create(one)
      await until(async () => [...known('ci'), ...known('bot')].join() === '1000,1000,1000,1000')
      enabled.clear()
      reload()
      for (const id of ['ci', 'bot']) enabled.add(id)
      reload()
      // A second revocation before the first is deleted is not that of the earlier configuration.
      const keys = [{ id: 'bot', disabled: false }]
      const config = { organizations: [{ id: 'acme', keys }], models: [] } as unknown as KeyChangesParts['config']
      const changes = new KeyChanges({
        config,
        by: { source: 'cli', actor: 'uid:1' },
        withStore: async (use) => await use(store),
      })
      expect(await changes.revoke('bot')).toEqual({ outcome: 'already_revoked', isConfigured: true })
      await until(async () => (inForce.get(revoked[1]?.id ?? '') ?? 0) > 1000)
      expect(changed).toEqual(['key.updated ci'])
      await until(async () => known('ci').join() === ',')
      expect(known('bot').map((createdMs) => Number(createdMs) > 1000)).toEqual([true, true])
      expect((await store.revocations(['ci', 'bot'])).size).toBe(1)
      enabled.clear()
      reload()
      await until(async () => known('bot').join() === ',')
    })
  })

  test('entries of the admin audit that cannot be read hide none of the others', async () => {
    const reported: string[] = []
    await using gateway = await follow(place(), { changed: ({ target }) => reported.push(target) })
    await withStore(async (store) => {
      const seen = await store.audit.newest()
      const entry = { timeMs: Date.now(), source: 'cli', action: 'key.updated', details: {} } as const
      // A page of entries from a later version of weir, which knows more sources.
      const foreign = { ...entry, source: 'later' as 'cli', target: 'foreign' }
      await store.audit.append(Array.from({ length: ADMIN_ENTRIES_A_PAGE }, () => foreign))
      await store.create(record('readable'), { ...entry, target: 'readable' })
      const found: string[] = []
      for (let { entries, end } = await store.audit.entriesAfter(seen); end !== undefined; ) {
        found.push(...entries.map(({ target }) => target))
        ;({ entries, end } = await store.audit.entriesAfter(end))
      }
      expect(found).toEqual(['readable'])
      await gateway.sees('readable', true)
      await until(async () => reported.length > 0)
      expect(reported).toEqual(['readable'])
    })
  })

  test('a gateway sees new keys and revoked ones', async () => {
    await using gateway = await follow(place())
    await withStore(async (store) => {
      const live = record('live')
      await store.create(live)
      await gateway.sees('live', true)
      await store.revoke('live', Date.now())
      await gateway.sees('live', false)
    })
    expect([gateway.keys.isRead, gateway.keys.complaint]).toEqual([true, undefined])
  })

  test('deletes records 30 days after their keys ended, also of keys that no gateway knew', async () => {
    const long = Date.now() - KEY_KEPT_MS - 60_000
    const recent = long + 120_000
    await withStore(async (store) => {
      await store.create({ ...record('long-expired'), expiresAtMs: long })
      await store.create({ ...record('long-revoked'), revokedMs: long, expiresAtMs: undefined })
      await store.create({ ...record('expired'), expiresAtMs: recent })
      await store.create({ ...record('revoked-lately'), revokedMs: recent })
    })
    await using gateway = await follow(place(), { prunes: true })
    await using other = await follow(place())
    await withStore(async (store) => {
      await until(async () => !(await store.list()).some(({ id }) => id.startsWith('long-')))
      const ids = (await store.list()).map(({ id }) => id)
      expect(ids).toEqual(expect.arrayContaining(['expired', 'revoked-lately']))
      // Their ids are free again.
      expect(await store.create(record('long-expired'))).toBe(true)
      await Promise.all([gateway.sees('long-expired', true), other.sees('long-expired', true)])
    })
  })

  test('more changes than the log keeps: a gateway that missed them reads all keys again', async () => {
    await using gateway = await follow(place(), { byHand: true })
    await withStore(async (store) => {
      await store.create(record('before'))
      await gateway.sees('before', true)
      await store.revoke('before', Date.now())
    })
    const backend = backendOf(place())
    for (let i = 0; i < CHANGES_KEPT; i += 500) {
      const ids = Array.from({ length: 500 }, (_, j) => `many-${i + j}`)
      await until(async () => {
        const created = ids.map((id) => ({ id, before: undefined, after: JSON.stringify(record(id)) }))
        return (await backend.replace(created).catch(() => [])).length > 0
      })
    }
    await backend.close()
    await gateway.keys.update()
    expect([isAccepted(gateway.keys, 'before'), isAccepted(gateway.keys, 'many-0')]).toEqual([false, true])
  })

  if (name === 'Redis') {
    const RECORDS = 'weir:{keys}:records'
    const VERSION = 'weir:{keys}:version'
    const CHANGES = 'weir:{keys}:changes'

    async function withClient(use: (client: Redis) => Promise<void>): Promise<void> {
      const client = server?.client()
      if (client === undefined) throw new Error('There is no Redis.')
      await use(client)
      client.disconnect()
    }

    test(
      'a Redis that is rolled back or emptied: gateways restore their keys, and revoked ones stay revoked',
      () =>
        withClient(async (client) => {
          const names = [RECORDS, VERSION, CHANGES]
          await client.flushall()
          await withStore(async (store) => {
            await store.create(record('known'))
            await store.create(record('revoked'))
            const before = await Promise.all(names.map((one) => client.dumpBuffer(one)))
            await using one = await follow(place())
            await using two = await follow(place())
            await store.revoke('revoked', Date.now())
            await store.create(record('late'))
            const seen = () => Promise.all([one, two].flatMap((g) => [g.sees('late', true), g.sees('revoked', false)]))
            await seen()
            const setBack = async () => {
              for (const [i, dump] of before.entries()) await client.restore(names[i] ?? '', 0, dump ?? '', 'REPLACE')
            }
            for (const lose of [setBack, () => client.flushall()]) {
              await lose()
              await until(
                async () => (await store.get('late')) !== undefined && (await store.get('known')) !== undefined,
              )
              await until(async () => (await store.get('revoked'))?.revokedMs !== undefined)
              const after = `after-${Math.random()}`
              await store.create(record(after))
              await Promise.all([one.sees(after, true), two.sees(after, true), seen()])
            }
          })
        }),
      20_000,
    )

    test.each(['emptied', 'set back', 'another Redis'])(
      '%s, and changed as often since: it is not taken for unchanged',
      (how) =>
        withClient(async (client) => {
          await client.flushall()
          await withStore(async (store) => {
            for (let i = 0; i < 5; i++) await store.create(record(`known-${i}`))
          })
          await using gateway = await follow(place(), { byHand: true })
          expect(isAccepted(gateway.keys, 'known-4')).toBe(true)
          const version = Number(await client.get(VERSION))
          const begin = how === 'emptied' ? 0 : version - 1
          const lost = client.multi().flushall().set(VERSION, version)
          for (let i = begin; i < version; i++) lost.zadd(CHANGES, i + 1, `0123456789abcdef other-${i}`)
          if (how === 'set back') lost.zadd(CHANGES, version - 1, '0123456789abcdef earlier')
          lost.hset(RECORDS, 'other-4', JSON.stringify(record('other-4')))
          await lost.exec()
          await gateway.keys.update()
          await gateway.sees('other-4', true)
          expect(isAccepted(gateway.keys, 'known-4')).toBe(true)
          await withStore(async (store) => {
            expect((await store.list()).map(({ id }) => id)).toEqual(expect.arrayContaining(['known-0', 'known-4']))
          })
        }),
    )

    test('changes of an earlier version, which writes no log, are read', () =>
      withClient(async (client) => {
        await client.flushall()
        const write = async (one: KeyRecord) => {
          await client.hset(RECORDS, one.id, JSON.stringify(one))
          await client.incr(VERSION)
        }
        await write(record('early'))
        await using gateway = await follow(place(), { byHand: true })
        expect(isAccepted(gateway.keys, 'early')).toBe(true)
        await withStore((store) => store.create(record('new')).then(() => undefined))
        await gateway.sees('new', true)
        await write(record('late'))
        await gateway.sees('late', true)
        await write({ ...record('early'), revokedMs: 1 })
        await gateway.sees('early', false)
        expect(isAccepted(gateway.keys, 'new')).toBe(true)
      }))

    test('a command whose connection breaks before the reply reports that its change took effect', async () => {
      const between = await LossyProxy.before(server?.socket ?? '')
      const store = await openRedisKeyStore({ kind: 'single', url: between.url })
      const one = record('broken-off')
      between.breakAfter(/eval/i)
      expect(await store.create(one)).toBe(true)
      expect(await store.create(record('broken-off'))).toBe(false)
      between.breakAfter(/eval/i)
      expect(await store.revoke('broken-off', Date.now())).toBe('revoked')
      between.breakAfter(/hscan/i)
      expect((await store.list()).find(({ id }) => id === 'broken-off')).toMatchObject({ sha256: one.sha256 })
      await store.close()
      await between.close()
    })

    test('a foreign text among the records does not prevent reading the keys', () =>
      withClient(async (client) => {
        await client.hset(RECORDS, 'foreign', 'not JSON', 'strange', '[]')
        await client.del(CHANGES)
        await using gateway = await follow(place(), { byHand: true })
        await withStore((store) => store.create(record('beside')).then(() => undefined))
        await gateway.sees('beside', true)
        expect(gateway.keys.isRead).toBe(true)
        await client.hdel(RECORDS, 'foreign', 'strange')
      }))

    test('one change among 20,000 keys reads only that key from Redis', () =>
      withClient(async (client) => {
        const texts = Array.from({ length: 20_000 }, (_, i) => [`of-many-${i}`, JSON.stringify(record(`of-many-${i}`))])
        for (let i = 0; i < texts.length; i += 1000) await client.hset(RECORDS, ...texts.slice(i, i + 1000).flat())
        await client.incr(VERSION)
        await using gateway = await follow(place())
        await gateway.sees('of-many-19999', true)
        const sent = async () => Number(/total_net_output_bytes:(\d+)/.exec(await client.info('stats'))?.[1])
        const before = await sent()
        await withStore(async (store) => {
          expect(await store.revoke('of-many-7', Date.now())).toBe('revoked')
        })
        await gateway.sees('of-many-7', false)
        // All of them are 5 MB.
        expect((await sent()) - before).toBeLessThan(200_000)
      }))
  }

  if (name === 'embedded') {
    test('reading and following create no file, and the first key is noticed', async () => {
      const empty = join(dataDir, 'new')
      const place: LedgerPlace = { ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir: empty }
      await using gateway = await follow(place)
      const reading = await openKeyStore(place)
      expect([await reading.list(), await reading.revoke('first', 1)]).toEqual([[], 'unknown'])
      expect([existsSync(empty), gateway.keys.isRead]).toEqual([false, true])
      await reading.create(record('first'))
      await gateway.sees('first', true)
      expect((await reading.list()).map(({ id }) => id)).toEqual(['first'])
      await reading.close()
    })

    test('a file of an earlier version, without a change log, is read and followed', async () => {
      const old = join(dataDir, 'old')
      mkdirSync(old)
      const database = new Database(join(old, 'keys.sqlite'), { create: true, strict: true })
      database.run('PRAGMA journal_mode = WAL')
      database.run('CREATE TABLE key (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID')
      database.run('PRAGMA user_version = 1')
      const put = database.query('INSERT INTO key VALUES (?, ?)')
      put.run('early', JSON.stringify(record('early')))
      await using gateway = await follow({ ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir: old })
      await gateway.sees('early', true)
      // A command of that version, while a gateway of this version runs.
      put.run('late', JSON.stringify(record('late')))
      await gateway.sees('late', true)
      database
        .query('UPDATE key SET record = ? WHERE id = ?')
        .run(JSON.stringify({ ...record('early'), revokedMs: 1 }), 'early')
      await gateway.sees('early', false)
      database.close()
    })

    test('a file that replaces the store, such as a backup, is read; while there is none, the keys stay', async () => {
      const folder = join(dataDir, 'replaced')
      const place: LedgerPlace = { ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir: folder }
      const store = await openKeyStore(place)
      await store.create(record('old'))
      await using gateway = await follow(place)
      await gateway.sees('old', true)
      for (const end of ['', '-wal', '-shm']) rmSync(join(folder, `keys.sqlite${end}`), { force: true })
      await until(() => gateway.keys.complaint?.includes('was removed') === true)
      expect(isAccepted(gateway.keys, 'old')).toBe(true)
      await store.close()
      const restored = await openKeyStore(place)
      await restored.create(record('new'))
      await Promise.all([gateway.sees('new', true), gateway.sees('old', false)])
      expect(gateway.keys.complaint).toBeUndefined()
      await restored.close()
    })

    test('stores only the hash of a key', async () => {
      const { token, sha256, shown } = newToken()
      await withStore(async (store) => {
        await store.create({ id: 'secret', organization: 'acme', sha256, shown, createdMs: 1 })
      })
      const bytes = readFileSync(join(dataDir, 'keys.sqlite')).toString('latin1')
      expect([bytes.includes(sha256), bytes.includes(token.slice(13))]).toEqual([true, false])
    })
  }
})

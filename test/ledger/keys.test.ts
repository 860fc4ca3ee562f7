/** Keys made by command: their form, and both stores. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KeyRecord, KeyStore } from '../../src/ledger/key-store.ts'
import { isMistyped, newToken } from '../../src/ledger/token.ts'
import { type LedgerPlace, openKeyStore, watchedKeyStore } from '../../src/process/ledger.ts'
import { RedisServer } from './redis-server.ts'

describe('a new key', () => {
  test('has a prefix, a name, a secret and a checksum, of letters and digits alone', () => {
    const { token, sha256, shown } = newToken()
    expect(token).toMatch(/^gwk_[0-9A-Za-z]{8}_[0-9A-Za-z]{49}$/)
    expect(sha256).toBe(createHash('sha256').update(token).digest('hex'))
    expect(token.startsWith(shown)).toBe(true)
    expect(shown).toHaveLength(12)
    expect(new Set(Array.from({ length: 100 }, () => newToken().token)).size).toBe(100)
  })

  test('is known when it is mistyped: every wrong character, every missing one', () => {
    const { token } = newToken()
    expect(isMistyped(token)).toBe(false)
    for (let i = 4; i < token.length; i++) {
      const other = token[i] === 'x' ? 'y' : 'x'
      expect(isMistyped(token.slice(0, i) + other + token.slice(i + 1))).toBe(true)
      expect(isMistyped(token.slice(0, i) + token.slice(i + 1))).toBe(true)
    }
  })

  test('is told from keys of the configuration, which have no form', () => {
    expect(['sk-whatever-it-is', 'gw', ''].map(isMistyped)).toEqual([false, false, false])
  })
})

function record(id: string, organization = 'acme'): KeyRecord {
  const { sha256, shown } = newToken()
  return { id, organization, sha256, shown, models: ['gpt-*'], createdMs: 1000, expiresAtMs: 2000 }
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

describe.each(places)('the %s key store', (name, place) => {
  async function withStore(use: (store: KeyStore) => Promise<void>): Promise<void> {
    const store = await openKeyStore(place())
    await use(store)
    await store.close()
  }

  test('keeps what was made, by id, for those who come later', async () => {
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

  test('revokes once, and keeps the id from being used again', async () => {
    await withStore(async (store) => {
      await store.create(record('old'))
      expect(await store.revoke('old', 5000)).toBe('revoked')
      expect(await store.revoke('old', 6000)).toBe('already_revoked')
      expect(await store.revoke('nobody', 6000)).toBe('unknown')
      expect((await store.list()).find(({ id }) => id === 'old')?.revokedMs).toBe(5000)
      expect(await store.create(record('old'))).toBe(false)
    })
  })

  test('tells a gateway of new keys and of revoked ones within a second', async () => {
    const watching = await watchedKeyStore(place())
    let keys: readonly KeyRecord[] = []
    let changed = Promise.withResolvers<void>()
    const stop = watching.watch((now) => {
      keys = now
      changed.resolve()
      changed = Promise.withResolvers()
    })
    const has = async (isThere: boolean) => {
      const deadline = performance.now() + 1000
      while (keys.some(({ id }) => id === 'live') !== isThere && performance.now() < deadline) {
        await Promise.race([changed.promise, Bun.sleep(100)])
      }
      expect(keys.some(({ id }) => id === 'live')).toBe(isThere)
    }
    await withStore(async (store) => {
      await store.create(record('live'))
      await has(true)
      await store.revoke('live', 5000)
      await has(false)
    })
    stop()
    await watching.close()
  })

  if (name === 'Redis') {
    test('a Redis that is set back, or emptied: keys that a gateway knew are there again, and revoked ones stay revoked', async () => {
      const client = server?.client()
      if (client === undefined) throw new Error('There is no Redis.')
      const [known, revoked] = [record('known'), record('revoked')]
      await withStore(async (store) => {
        await store.create(known)
        await store.create(revoked)
      })
      const before = [await client.dumpBuffer('weir:{keys}:records'), await client.dumpBuffer('weir:{keys}:version')]
      const gateways = [await watchedKeyStore(place()), await watchedKeyStore(place())]
      const seen: (readonly KeyRecord[])[] = [[], []]
      const stops = gateways.map((gateway, i) =>
        gateway.watch((keys) => {
          seen[i] = keys
        }),
      )
      const see = async (ids: readonly string[], absent: string) => {
        const sees = (keys: readonly KeyRecord[]) => {
          const found = keys.map(({ id }) => id)
          return ids.every((id) => found.includes(id)) && !found.includes(absent)
        }
        while (!seen.every(sees)) await Bun.sleep(20)
      }
      await see(['known', 'revoked'], '')
      await withStore(async (store) => {
        await store.revoke('revoked', 5000)
        await store.create(record('late'))
      })
      await see(['known', 'late'], 'revoked')
      for (const lose of [
        async () => {
          const [records, version] = before
          if (records === undefined || version === undefined) return
          await client.restore('weir:{keys}:records', 0, records, 'REPLACE')
          await client.restore('weir:{keys}:version', 0, version, 'REPLACE')
        },
        () => client.flushall(),
      ]) {
        await lose()
        await withStore(async (store) => {
          for (;;) {
            const all = await store.list()
            const late = all.some(({ id }) => id === 'late')
            if (late && all.find(({ id }) => id === 'revoked')?.revokedMs === 5000) break
            await Bun.sleep(20)
          }
        })
        await withStore(async (store) => {
          await store.create(record(`after-${lose.length}-${Math.random()}`))
        })
        await see(['known', 'late'], 'revoked')
      }
      for (const stop of stops) stop()
      await Promise.all(gateways.map((gateway) => gateway.close()))
      client.disconnect()
    }, 20_000)
  }

  if (name === 'embedded') {
    test('makes no file to read or to watch, and notices the first key', async () => {
      const empty = join(dataDir, 'new')
      const place: LedgerPlace = { ledger: { kind: 'embedded' }, ledgerUnreachable: 'refuse', dataDir: empty }
      const watching = await watchedKeyStore(place)
      const told: string[][] = []
      const changed = Promise.withResolvers<void>()
      const stop = watching.watch((keys) => {
        told.push(keys.map(({ id }) => id))
        if (told.length === 2) changed.resolve()
      })
      const reading = await openKeyStore(place)
      expect([await reading.list(), await reading.revoke('first', 1)]).toEqual([[], 'unknown'])
      expect(existsSync(empty)).toBe(false)
      await reading.create(record('first'))
      await changed.promise
      expect(told).toEqual([[], ['first']])
      expect((await reading.list()).map(({ id }) => id)).toEqual(['first'])
      stop()
      await Promise.all([reading.close(), watching.close()])
    })

    test('holds no key, only its hash', async () => {
      const { token, sha256, shown } = newToken()
      await withStore(async (store) => {
        await store.create({ id: 'secret', organization: 'acme', sha256, shown, createdMs: 1 })
      })
      const bytes = readFileSync(join(dataDir, 'keys.sqlite')).toString('latin1')
      expect([bytes.includes(sha256), bytes.includes(token.slice(13))]).toEqual([true, false])
    })
  }
})

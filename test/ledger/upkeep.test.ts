/**
 * Maintenance of organisations with very many keys in Redis: a gateway deletes the records of ended keys, and raises an
 * alarm once.
 */

import { expect, test } from 'bun:test'
import type { Redis } from 'ioredis'
import type { KeyRecord } from '../../src/keys/key-record.ts'
import { openRedisKeyStore } from '../../src/keys/redis-key-store.ts'
import type { Account } from '../../src/ledger/ledger.ts'
import { FIELDS_ALARM, type Size, Upkeep } from '../../src/ledger/redis/maintenance/upkeep.ts'
import { openReader, RedisAccountUsageReader } from '../../src/ledger/redis/readers/redis-readers.ts'
import { ORGANIZATIONS_KEY, redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'

const DAY_MS = 86_400_000
const { open } = opened()

/** Fields of unknown keys, which are never deleted. */
async function fill(client: Redis, organization: string, count: number): Promise<void> {
  await client.sadd(ORGANIZATIONS_KEY, organization)
  await client.eval(
    "for i = 1, ARGV[1] do redis.call('HSET', KEYS[1], 'kunknown' .. i, 'x') end",
    1,
    redisKey(organization, 'scopes'),
    count,
  )
}

function upkeepOf(server: RedisServer, configured: readonly string[] = []) {
  const measured: number[] = []
  const alarms: Size[] = []
  const calms: Size[] = []
  const upkeep = new Upkeep(server.client(), {
    isConfigured: (_, key) => configured.includes(key),
    measured: (fields) => measured.push(fields),
    alarmed: (size) => alarms.push(size),
    denied: () => {},
    calmed: (size) => calms.push(size),
    ahead: () => {},
    timely: () => {},
    undurable: () => {},
    keepAuditMs: 1e9,
  })
  open.push(upkeep)
  return { upkeep, measured, alarms, calms }
}

test('foreign data under the keys of one organisation does not keep others from being checked', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const { upkeep, measured, alarms } = upkeepOf(server)
  await client.sadd(ORGANIZATIONS_KEY, 'foreign')
  await client.set(redisKey('foreign', 'scopes'), 'x')
  await fill(client, 'many', FIELDS_ALARM)
  await upkeep.look()
  expect([measured, alarms]).toEqual([[FIELDS_ALARM], [{ organization: 'many', fields: FIELDS_ALARM }]])
})

test.each([
  ['no', 'aof_enabled:0'],
  ['yes', 'nothing'],
])('appendonly %s: the operator is warned of %s', async (appendOnly, words) => {
  await using server = await RedisServer.start('--appendonly', appendOnly)
  const looked = Promise.withResolvers<void>()
  let warning = 'nothing'
  open.push(
    Upkeep.begin(
      { kind: 'single', url: server.socket },
      {
        isConfigured: () => false,
        keepAuditMs: 1e9,
        measured: () => looked.resolve(),
        alarmed: () => {},
        denied: () => {},
        ahead: () => {},
        timely: () => {},
        calmed: () => {},
        undurable: (text) => {
          warning = text
        },
      },
    ),
  )
  await looked.promise
  // This command was sent after those of the check, so its reply comes after theirs.
  const usageReader = await openReader(RedisAccountUsageReader, { kind: 'single', url: server.socket })
  expect((await usageReader.warning()) ?? 'nothing').toContain(words)
  expect(warning).toContain(words)
  await usageReader.close()
})

test('a server that denies the check is reported', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  await client.sadd(ORGANIZATIONS_KEY, 'acme')
  await client.call('ACL', 'SETUSER', 'default', '-hlen')
  client.disconnect()
  const denied = Promise.withResolvers<string>()
  const place = { kind: 'single', url: server.socket } as const
  const none = () => {}
  const callbacks = {
    measured: none,
    alarmed: none,
    calmed: none,
    ahead: none,
    timely: none,
    undurable: none,
    denied: denied.resolve,
  }
  open.push(Upkeep.begin(place, { isConfigured: () => false, keepAuditMs: 1e9, ...callbacks }))
  expect(await denied.promise).toContain('hlen')
})

test('the alarm is raised at the limit, for that organisation only, and once until it was below again', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const { upkeep, measured, alarms, calms } = upkeepOf(server)
  await upkeep.look()
  expect([measured, alarms]).toEqual([[0], []])
  await fill(client, 'many', FIELDS_ALARM - 1)
  // Known before the next check, and to the other nodes without a look of their own.
  await upkeep.trim()
  const other = upkeepOf(server)
  await client.config('RESETSTAT')
  await other.upkeep.trim()
  expect(await client.info('commandstats')).not.toContain('cmdstat_hlen')
  expect([measured.at(-1), other.measured]).toEqual([FIELDS_ALARM - 1, [FIELDS_ALARM - 1]])
  await fill(client, 'few', 3)
  await upkeep.look()
  expect(alarms).toEqual([])
  await client.hset(redisKey('many', 'scopes'), 'kone-more', 'x')
  for (let i = 0; i < 3; i++) await upkeep.look()
  expect(alarms).toEqual([{ organization: 'many', fields: FIELDS_ALARM }])
  expect(measured.at(-1)).toBe(FIELDS_ALARM)
  await client.hdel(redisKey('many', 'scopes'), 'kone-more')
  for (let i = 0; i < 2; i++) await upkeep.look()
  expect(calms).toEqual([{ organization: 'many', fields: FIELDS_ALARM - 1 }])
  await client.hset(redisKey('many', 'scopes'), 'kone-more', 'x')
  await upkeep.look()
  expect(alarms).toHaveLength(2)
})

/** The state of a key of an organisation: when it was last used, and whether a request of it runs. */
async function used(client: Redis, organization: string, key: string, agoMs: number, runs = false): Promise<Account> {
  const account = { ...accountOf(), organization, key }
  const at = Date.now() - agoMs
  const store = new RedisStore(client, client, () => at, `local now = ${at}\n`)
  const hold = holdOf(100)
  await store.reserve(account, hold)
  if (!runs) await store.settle({ id: hold.id, account, admittedMs: at }, chargeOf(70))
  return account
}

test('records of ended keys go a day after their last request; others stay, and so does spending', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = await openRedisKeyStore({ kind: 'single', url: server.socket })
  open.push(store)
  const organization = 'acme'
  const record = (id: string, more: Partial<KeyRecord> = {}): KeyRecord => ({
    ...{ id, organization, sha256: 'ab', shown: 'gwk', createdMs: 1, ...more },
  })
  const old = 1.5 * DAY_MS
  const cases = {
    revoked: { record: record('revoked', { revokedMs: 1 }), agoMs: old, stays: false },
    expired: { record: record('expired', { expiresAtMs: 2 }), agoMs: old, stays: false },
    'in-use': { record: record('in-use'), agoMs: old, stays: true },
    'not-yet-expired': {
      record: record('not-yet-expired', { expiresAtMs: Date.now() + DAY_MS }),
      agoMs: old,
      stays: true,
    },
    'revoked-lately': { record: record('revoked-lately', { revokedMs: 1 }), agoMs: 0.9 * DAY_MS, stays: true },
    'revoked-and-running': {
      record: record('revoked-and-running', { revokedMs: 1 }),
      agoMs: old,
      stays: true,
      runs: true,
    },
    configured: { record: record('configured', { revokedMs: 1 }), agoMs: old, stays: true },
    elsewhere: {
      record: record('elsewhere', { organization: 'other', revokedMs: 1 }),
      agoMs: old,
      stays: true,
    },
  } as const
  for (const [key, { record, agoMs, ...more }] of Object.entries(cases)) {
    await store.create(record)
    await used(client, organization, key, agoMs, 'runs' in more)
  }
  const before = await client.hget(redisKey(organization, 'scopes'), '')
  const { upkeep } = upkeepOf(server, ['configured'])
  const kept = async () => {
    const there = await client.hmget(redisKey(organization, 'scopes'), ...Object.keys(cases).map((key) => `k${key}`))
    return Object.keys(cases).filter((_, i) => there[i] !== null)
  }
  // An organisation with few keys is not checked.
  await client.sadd(ORGANIZATIONS_KEY, organization)
  await upkeep.look()
  expect(await kept()).toEqual(Object.keys(cases))
  await fill(client, organization, 1000)
  await upkeep.look()
  expect(await kept()).toEqual(Object.entries(cases).flatMap(([key, { stays }]) => (stays ? [key] : [])))
  expect(await client.hget(redisKey(organization, 'scopes'), '')).toBe(before)
  expect(await client.hlen(redisKey(organization, 'scopes'))).toBe(1000 + 6 + 2)
})

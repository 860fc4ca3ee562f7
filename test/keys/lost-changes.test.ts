/**
 * Changes of keys that Redis acknowledged and lost: in a failover by Sentinels, with the old master taking writes for
 * ten seconds, or killed; in a cluster; and by a restart from an older dump. A command reports success only for what
 * stays.
 */

import { expect, test } from 'bun:test'
import type { Config } from '../../src/config/config.ts'
import type { RedisConfig } from '../../src/core/redis-config.ts'
import { KeyChanges } from '../../src/keys/key-changes.ts'
import { KeyFollower } from '../../src/keys/key-follower.ts'
import { newToken } from '../../src/keys/key-format.ts'
import type { KeyRecord } from '../../src/keys/key-record.ts'
import type { KeyStore } from '../../src/keys/key-store.ts'
import { openRedisKeyStore, redisKeyBackend } from '../../src/keys/redis-key-store.ts'
import { RedisServer } from '../ledger/redis-server.ts'
import { until } from '../ledger/seen.ts'
import { Sentinels } from './sentinels.ts'

const RECORDS = 'weir:{keys}:records'

function record(id: string): KeyRecord {
  const { sha256, shown } = newToken()
  return { id, organization: 'acme', sha256, shown, createdMs: 1000 }
}

/** As commands make them, on a connection that is open already: to the server that is master now. */
function changesOn(store: KeyStore): KeyChanges {
  const keys = [{ id: 'configured', sha256: '', limits: {}, disabled: false }]
  const organizations = [{ id: 'acme', limits: {}, auto: 'off', keys }]
  const config = { organizations, models: [], auto: { candidates: [] } } as unknown as Config
  return new KeyChanges({ config, by: { source: 'cli', actor: 'uid:1' }, withStore: (use) => use(store) })
}

/** Stores on the connections of as many commands. */
async function stores(place: RedisConfig, count: number): Promise<readonly KeyStore[]> {
  return await Promise.all(Array.from({ length: count }, () => openRedisKeyStore(place)))
}

test('changes during a failover that an operator ordered hold on the new master, and on every gateway', async () => {
  await using set = await Sentinels.start(1, 3)
  const [first, ...others] = await stores(set.place, 6)
  if (first === undefined) throw new Error('There is no store.')
  for (const id of ['revoked', 'rotated', 'updated']) await first.create(record(id))
  await first.confirm()
  const follower = new KeyFollower(redisKeyBackend(set.place), { prunes: false, pruneFailed: () => {} })
  await follower.start()

  await set.failOver()
  const [revoking, rotating, updating, creating, configured] = others.map(changesOn)
  const old = set.servers[0]
  const done = Promise.all([
    revoking?.revoke('revoked'),
    rotating?.rotate('rotated'),
    updating?.update('updated', { limits: { requests_per_minute: 7 } }),
    creating?.create({ id: 'created', organization: 'acme' }),
    configured?.revoke('configured'),
  ])
  // The old master takes them.
  await until(async () => (await old?.client.hexists(RECORDS, 'created')) === 1)
  const [revoked, rotated, updated, created, ofConfiguration] = await done
  expect([revoked?.outcome, ofConfiguration?.outcome]).toEqual(['revoked', 'revoked'])
  // At this moment, without waiting.
  expect(follower.table.get('revoked')?.revokedMs).toBeNumber()
  expect(follower.table.get('rotated')?.sha256).toBe(rotated?.record.sha256 ?? '')
  expect(follower.table.get('updated')?.limits).toEqual(updated?.limits)
  expect(follower.table.get('created')?.sha256).toBe(created?.record.sha256 ?? '')
  expect(follower.table.revocation('configured')).toBeDefined()

  const { client, port } = await set.settle()
  expect(port).not.toBe(old?.port ?? 0)
  const texts = await client.hmget(RECORDS, 'revoked', 'rotated', 'created', 'configuration:configured')
  expect(texts.map((text) => JSON.parse(text ?? 'null'))).toMatchObject([
    { revokedMs: expect.any(Number) },
    { sha256: rotated?.record.sha256 },
    { sha256: created?.record.sha256 },
    { organization: 'acme' },
  ])
  // With the lost change, its entry of the audit came again: one for each.
  const entries = (await client.xrange('weir:{keys}:audit', '-', '+')).map(([, [, text]]) => JSON.parse(text ?? ''))
  expect(entries.map(({ action, target }) => `${action} ${target}`).sort()).toEqual([
    'key.created created',
    'key.revoked configured',
    'key.revoked revoked',
    'key.rotated rotated',
    'key.updated updated',
  ])
  await Promise.all([first, ...others].map((store) => store.close()))
  await follower.stop()
})

test('a master that is killed with changes that no replica has: each is made again', async () => {
  await using set = await Sentinels.start(2, 3)
  const [first, revoking, rotating, creating] = await stores(set.place, 4)
  const [old] = set.servers
  if (first === undefined || revoking === undefined || rotating === undefined || creating === undefined)
    throw new Error()
  if (old === undefined) throw new Error('There is no master.')
  for (const id of ['revoked', 'rotated']) await first.create(record(id))
  await first.confirm()
  const follower = new KeyFollower(redisKeyBackend(set.place), { prunes: false, pruneFailed: () => {} })
  await follower.start()

  // The replicas get nothing more of it, as if its network had failed a moment before.
  await old.client.call('ACL', 'SETUSER', 'default', '-psync', '-sync', '-replconf')
  await old.client.call('CLIENT', 'KILL', 'TYPE', 'replica')
  const done = Promise.all([
    changesOn(revoking).revoke('revoked'),
    changesOn(rotating).rotate('rotated'),
    changesOn(creating).create({ id: 'created', organization: 'acme' }),
  ])
  const takes = async (id: string, what: RegExp) => what.test((await old.client.hget(RECORDS, id)) ?? '')
  await until(async () => (await takes('revoked', /revokedMs/)) && (await takes('rotated', /"revision":1/)))
  await until(() => takes('created', /created/))
  old.process.kill('SIGKILL')
  const [revoked, rotated, created] = await done
  expect(revoked.outcome).toBe('revoked')
  // At this moment, without waiting.
  expect(follower.table.get('revoked')?.revokedMs).toBeNumber()
  expect(follower.table.get('rotated')?.sha256).toBe(rotated.record.sha256)
  expect(follower.table.get('created')?.sha256).toBe(created.record.sha256)
  const roles = await Promise.all(set.servers.slice(1).map(({ client }) => client.role()))
  const master = set.servers[1 + roles.findIndex(([role]) => role === 'master')]
  const texts = await master?.client.hmget(RECORDS, 'revoked', 'rotated', 'created')
  expect(texts?.map((text) => JSON.parse(text ?? 'null'))).toMatchObject([
    { revokedMs: expect.any(Number) },
    { sha256: rotated.record.sha256 },
    { sha256: created.record.sha256 },
  ])
  await Promise.all([first, revoking, rotating, creating].map((store) => store.close()))
  await follower.stop()
})

test('a change fails if no majority of the Sentinels or no caught-up replica vouches for it', async () => {
  await using set = await Sentinels.start(1, 3)
  const [store] = await stores(set.place, 1)
  if (store === undefined) throw new Error('There is no store.')
  await store.create(record('k'))
  await store.confirm()
  await store.revoke('k', 1)
  // A replica that is cut off would take over without the change.
  await set.servers[0]?.client.call('ACL', 'SETUSER', 'default', '-psync', '-sync')
  await set.servers[0]?.client.call('CLIENT', 'KILL', 'TYPE', 'replica')
  await expect(store.confirm(1000)).rejects.toThrow(
    /^the change of "k" was sent, and 1 s later it may still be lost: the replica 127.0.0.1:\d+ is not connected/,
  )
  // A second call looks at the same change: once all is well, it succeeds.
  // SYNC stays forbidden: a replica whose PSYNC was refused tries it next, and would not know its offset afterwards.
  await set.servers[0]?.client.call('ACL', 'SETUSER', 'default', '+psync')
  await store.confirm()
  const [left, ...gone] = set.sentinels
  for (const { process } of gone) process.kill('SIGSTOP')
  await until(async () => {
    const others = await left?.client.call('SENTINEL', 'SENTINELS', 'mymaster')
    return String(others).split('s_down').length === 3
  })
  expect(await store.revoke('k', 2)).toBe('already_revoked')
  await expect(store.confirm(500)).rejects.toThrow('no Sentinel answers that sees most of the others')
  await store.close()
})

test('a Redis that restarts from an older dump: the change is made again', async () => {
  await using server = await RedisServer.start()
  const [store] = await stores({ kind: 'single', url: server.socket }, 1)
  if (store === undefined) throw new Error('There is no store.')
  await store.create(record('old'))
  await store.confirm()
  const client = server.client()
  await client.save()
  client.disconnect()
  const changes = changesOn(store)
  const revoked = changes.revoke('old')
  const created = changes.create({ id: 'new', organization: 'acme' })
  await until(async () => (await store.get('old'))?.revokedMs !== undefined && (await store.get('new')) !== undefined)
  await server.kill()
  await server.start()
  expect(await revoked).toMatchObject({ outcome: 'revoked' })
  const { sha256 } = (await created).record
  expect((await store.get('old'))?.revokedMs).toBeNumber()
  expect(await store.get('new')).toMatchObject({ sha256 })
  await store.close()
})

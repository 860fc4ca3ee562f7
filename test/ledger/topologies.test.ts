/**
 * The ledger in a Redis Cluster of three masters, and with a Sentinel: real processes on ports that the system chose.
 */

import { expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { type LedgerPlace, openAccountUsageReader, openUsageLog } from '../../src/assembly/open-ledger.ts'
import { CallerError } from '../../src/core/caller-error.ts'
import type { RedisConfig } from '../../src/core/redis-config.ts'
import { RedisItems } from '../../src/items/redis-items.ts'
import { KeyFollower } from '../../src/keys/key-follower.ts'
import { openRedisKeyStore, redisKeyBackend } from '../../src/keys/redis-key-store.ts'
import type { Account, Ledger } from '../../src/ledger/ledger.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { openLedger } from '../support/open-ledger.ts'
import { lastingPort } from '../support/ports.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { REDIS } from './programs.ts'

const { open, directory } = opened()

function spawned(...words: string[]): Bun.Subprocess {
  const child = Bun.spawn(words, { stdout: 'ignore', stderr: 'ignore' })
  const close = () => {
    child.kill('SIGKILL')
    return child.exited
  }
  open.push({ close })
  return child
}

interface Server {
  readonly port: number
  readonly client: Redis
  readonly process: Bun.Subprocess
}

async function node(...settings: readonly string[]): Promise<Server> {
  const port = await lastingPort()
  const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory(), '--save', '']
  const process = spawned(REDIS, ...place, ...settings)
  const client = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: null })
  client.on('error', () => undefined)
  await client.ping()
  return { port, client, process }
}

/** On a busy machine a ledger opens without Redis, for which it waits a second. */
async function connectedLedger(place: LedgerPlace): Promise<Ledger> {
  const ledger = await openLedger(place)
  await until(() => ledger.health().ready)
  return ledger
}

/** The guarantees of any ledger, checked over several organisations, so that every node of a cluster has a part. */
async function exercise(redis: RedisConfig): Promise<void> {
  const place: LedgerPlace = { ledger: { kind: 'redis', redis }, ledgerUnreachable: 'refuse', dataDir: directory() }
  const ledger = await connectedLedger(place)
  const accounts = Array.from({ length: 12 }, () => accountOf(spend({ total: 1000 })))
  for (const account of accounts) {
    const reservation = await ledger.reserve(account, holdOf(600))
    const second = Promise.resolve(ledger.reserve(account, holdOf(600)))
    expect(await second.catch((error) => error instanceof CallerError && error.kind)).toBe('rate_limited')
    expect(await ledger.extend(reservation, reservation.held, { ...reservation.held, costMicroUsd: 1000 })).toBe(true)
    expect(await ledger.settle(reservation, chargeOf(700))).toBe('settled')
  }
  expect(ledger.health().ready).toBe(true)
  const [usageReader, usage] = [await openAccountUsageReader(place), await openUsageLog(place)]
  for (const account of accounts)
    expect((await usageReader.read(account)).organization.total).toMatchObject({ spent: 700, held: 0 })
  const today = dayOf(Date.now())
  const rows = await usage.read({ sinceDay: today, untilDay: today + 1 })
  expect(rows.reduce((sum, { costMicroUsd }) => sum + costMicroUsd, 0)).toBe(700 * accounts.length)
  await Promise.all([usageReader.close(), usage.close(), ledger.close()])
}

/** Three masters that share the slots; the first has the lowest. */
async function cluster(...settings: readonly string[]): Promise<readonly Server[]> {
  const nodes = await Promise.all([0, 1, 2].map(() => node('--cluster-enabled', 'yes', ...settings)))
  const ranges = [
    [0, 5460],
    [5461, 10_922],
    [10_923, 16_383],
  ] as const
  const first = nodes[0]
  for (const [i, { client, port }] of nodes.entries()) {
    await client.call('CLUSTER', 'ADDSLOTSRANGE', ...(ranges[i] ?? []))
    await client.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
    if (i > 0) await first?.client.call('CLUSTER', 'MEET', '127.0.0.1', port)
  }
  for (const { client } of nodes) {
    while (!String(await client.call('CLUSTER', 'INFO')).includes('cluster_state:ok')) await Bun.sleep(20)
  }
  return nodes
}

function placeOf(nodes: readonly Server[]): RedisConfig {
  return { kind: 'cluster', nodes: nodes.map(({ port }) => `redis://127.0.0.1:${port}`) }
}

test('a cluster of three masters spreads the organisations', async () => {
  const nodes = await cluster()
  await exercise(placeOf(nodes))
  for (const { client } of nodes) {
    // Each master holds some of the organisations.
    expect(await client.dbsize()).toBeGreaterThan(0)
    client.disconnect()
  }
})

test('a process that ends its connection while the client looks for the slots exits', async () => {
  const nodes = await cluster()
  const script = `
    import { connect } from './src/redis/connect.ts'
    const client = connect(${JSON.stringify(placeOf(nodes))}, 'test')
    client.options.slotsRefreshInterval = 10
    client.once('ready', () => {
      const look = client.refreshSlotsCache
      client.refreshSlotsCache = (callback) => {
        client.refreshSlotsCache = look
        look.call(client, callback)
        client.disconnect()
      }
    })`
  const child = Bun.spawn([process.execPath, '-e', script], { cwd: join(import.meta.dir, '../..'), stderr: 'pipe' })
  expect([await child.exited, await new Response(child.stderr).text()]).toEqual([0, ''])
  for (const { client } of nodes) client.disconnect()
})

test('stored Responses items in a cluster: bytes as they were, of owners on every node', async () => {
  const nodes = await cluster()
  const shelf = new RedisItems(placeOf(nodes), { ttlSeconds: 60 })
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, n) => n))
  for (let n = 0; n < 12; n++) {
    let found: Buffer | undefined
    await until(async () => {
      shelf.put(`owner-${n}`, [{ id: 'item', bytes }])
      found = await shelf.get(`owner-${n}`, 'item').catch(() => undefined)
      return found !== undefined
    })
    expect(found?.equals(bytes)).toBe(true)
  }
  shelf.close()
  for (const { client } of nodes) client.disconnect()
})

test('API keys in a cluster: created, followed and revoked', async () => {
  const nodes = await cluster()
  const place = placeOf(nodes)
  const store = await openRedisKeyStore(place)
  const follower = new KeyFollower(redisKeyBackend(place), { prunes: true, pruneFailed: () => {} })
  const record = (id: string) => ({ id, organization: 'acme', sha256: 'ab'.repeat(32), shown: 'gwk_x', createdMs: 1 })
  expect(await store.create(record('early'))).toBe(true)
  await follower.start()
  expect(follower.table.get('early')).toMatchObject(record('early'))
  expect(await store.create(record('late'))).toBe(true)
  await until(() => follower.table.get('late') !== undefined)
  expect(await store.revoke('early', Date.now())).toBe('revoked')
  await store.confirm()
  await until(() => follower.table.get('early')?.revokedMs !== undefined)
  await Promise.all([store.close(), follower.stop()])
  for (const { client } of nodes) client.disconnect()
})

test('a change of a key that a forced failover in a cluster loses is made again', async () => {
  const settings = ['--cluster-node-timeout', '1000', '--cluster-replica-validity-factor', '0']
  const nodes = await cluster(...settings)
  // The keys are in slot 2915, of the first master.
  const [first] = nodes
  if (first === undefined) throw new Error('There is no master.')
  const replica = await replicaOfFirst(nodes, ...settings, '--repl-diskless-sync-delay', '0')
  const place = placeOf(nodes)
  const store = await openRedisKeyStore(place)
  const record = { id: 'k', organization: 'acme', sha256: 'ab'.repeat(32), shown: 'gwk_x', createdMs: 1 }
  expect(await store.create(record)).toBe(true)
  await store.confirm()
  await abandon(replica, first)
  expect(await store.revoke('k', 5)).toBe('revoked')
  const confirmed = store.confirm()
  await replica.client.call('CLUSTER', 'FAILOVER', 'TAKEOVER')
  await first.client.call('ACL', 'SETUSER', 'default', '+psync', '+sync')
  await confirmed
  expect((await replica.client.role())[0]).toBe('master')
  expect(JSON.parse((await replica.client.hget('weir:{keys}:records', 'k')) ?? '')).toMatchObject({ revokedMs: 5 })
  await store.close()
  for (const { client } of [...nodes, replica]) client.disconnect()
})

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(20)
}

/**
 * A replica of a cluster's first master, in sync with it and known to all nodes: nodes elect only replicas that they
 * know.
 */
async function replicaOfFirst(masters: readonly Server[], ...settings: readonly string[]): Promise<Server> {
  const [master] = masters
  if (master === undefined) throw new Error('There is no master.')
  const replica = await node('--cluster-enabled', 'yes', ...settings)
  const id = String(await master.client.call('CLUSTER', 'MYID'))
  await replica.client.call('CLUSTER', 'MEET', '127.0.0.1', master.port)
  await until(async () => String(await replica.client.call('CLUSTER', 'NODES')).includes(id))
  await until(() =>
    replica.client.call('CLUSTER', 'REPLICATE', id).then(
      () => true,
      () => false,
    ),
  )
  await until(async () => (await replica.client.info('replication')).includes('master_link_status:up'))
  const ids = await Promise.all(masters.map(async ({ client }) => String(await client.call('CLUSTER', 'MYID'))))
  const own = String(await replica.client.call('CLUSTER', 'MYID'))
  await until(async () => {
    const seen = await Promise.all(masters.map(async ({ client }) => String(await client.call('CLUSTER', 'NODES'))))
    const known = String(await replica.client.call('CLUSTER', 'NODES'))
    return (
      seen.every((lines) => new RegExp(`^${own} .* slave ${id} `, 'm').test(lines)) &&
      ids.every((other) => known.includes(other)) &&
      ![...seen, known].some((lines) => lines.includes('handshake'))
    )
  })
  return replica
}

/** Cuts the replication; the master goes on alone. */
async function abandon(replica: Server, master: Server): Promise<void> {
  await master.client.call('ACL', 'SETUSER', 'default', '-psync', '-sync')
  await master.client.call('CLIENT', 'KILL', 'TYPE', 'replica')
  await until(async () => (await replica.client.info('replication')).includes('master_link_status:down'))
}

/** An account whose keys are on the master with the lowest slots. */
async function accountOn(first: Server): Promise<Account> {
  for (;;) {
    const account = accountOf(spend({ total: 100_000 }))
    if (Number(await first.client.call('CLUSTER', 'KEYSLOT', redisKey(account.organization, 'scopes'))) <= 5460)
      return account
  }
}

test('a master of a cluster dies with data that its replica lacks: all of it is charged, once', async () => {
  const settings = [
    '--cluster-node-timeout',
    '1000',
    '--cluster-replica-validity-factor',
    '0',
    '--repl-diskless-sync-delay',
    '0',
  ]
  const nodes = await cluster(...settings)
  const [first] = nodes
  if (first === undefined) throw new Error('There is no master.')
  const replica = await replicaOfFirst(nodes, ...settings)
  const place: LedgerPlace = {
    ledger: { kind: 'redis', redis: placeOf(nodes) },
    ledgerUnreachable: 'refuse',
    dataDir: directory(),
  }
  const ledger = await connectedLedger(place)
  const [account, elsewhere] = [await accountOn(first), accountOf(spend({ total: 100_000 }))]
  const spendOn = async (of: Account, cost: number) =>
    ledger.settle(await ledger.reserve(of, holdOf(100)), chargeOf(cost))
  for (let i = 0; i < 5; i++) await spendOn(account, 10)
  await first.client.wait(1, 1000)
  await abandon(replica, first)
  const running = await ledger.reserve(account, holdOf(100))
  for (let i = 0; i < 20; i++) await spendOn(account, 20)
  await until(() => ledger.health().pending === 0)
  first.process.kill('SIGKILL')
  // While no node serves those slots: reservations are refused, and running requests go on.
  expect(await ledger.settle(running, chargeOf(70))).toBe('settled')
  await until(async () => (await replica.client.role())[0] === 'master')
  await until(() =>
    spendOn(account, 30).then(
      () => true,
      () => false,
    ),
  )
  await spendOn(elsewhere, 40)
  await until(() => ledger.health().pending === 0)
  const usageReader = await openAccountUsageReader(place)
  await until(async () => (await usageReader.read(account)).organization.live === 0)
  expect((await usageReader.read(account)).organization.total).toMatchObject({ spent: 50 + 400 + 70 + 30, held: 0 })
  expect((await usageReader.read(elsewhere)).organization.total).toMatchObject({ spent: 40, held: 0 })
  await Promise.all([usageReader.close(), ledger.close()])
  for (const { client } of [...nodes, replica]) client.disconnect()
})

test('slots that move to another master: calls are refused or wait meanwhile, and all is charged once', async () => {
  const nodes = await cluster()
  const [from, to] = nodes
  if (from === undefined || to === undefined) throw new Error('There are no masters.')
  const redis = placeOf(nodes)
  const place: LedgerPlace = { ledger: { kind: 'redis', redis }, ledgerUnreachable: 'refuse', dataDir: directory() }
  const ledger = await connectedLedger(place)
  const account = await accountOn(from)
  const slot = Number(await from.client.call('CLUSTER', 'KEYSLOT', redisKey(account.organization, 'scopes')))
  const running = await ledger.reserve(account, holdOf(100))
  const [here, there] = [await from.client.call('CLUSTER', 'MYID'), await to.client.call('CLUSTER', 'MYID')]
  await to.client.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(here))
  await from.client.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', String(there))
  // Some keys are on one side, others do not exist yet: neither side may run a script on them.
  const refusal = await Promise.resolve(ledger.reserve(account, holdOf(100))).catch((error) => error)
  expect(refusal).toBeInstanceOf(CallerError)
  expect(refusal.kind).toBe('ledger_unavailable')
  expect(await ledger.settle(running, chargeOf(70))).toBe('settled')
  const keys = (await from.client.call('CLUSTER', 'GETKEYSINSLOT', slot, 100)) as string[]
  await from.client.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5000, 'KEYS', ...keys)
  for (const { client } of [to, from]) await client.call('CLUSTER', 'SETSLOT', slot, 'NODE', String(there))
  await until(async () => {
    const granted = await Promise.resolve(ledger.reserve(account, holdOf(100))).catch(() => undefined)
    if (granted !== undefined) await ledger.settle(granted, chargeOf(30))
    return granted !== undefined
  })
  await until(() => ledger.health().pending === 0)
  const usageReader = await openAccountUsageReader(place)
  await until(async () => (await usageReader.read(account)).organization.live === 0)
  expect((await usageReader.read(account)).organization.total).toMatchObject({ spent: 100, held: 0 })
  expect(await to.client.exists(redisKey(account.organization, 'scopes'))).toBe(1)
  await Promise.all([usageReader.close(), ledger.close()])
  for (const { client } of nodes) client.disconnect()
})

test('a master is found through a sentinel', async () => {
  const master = await node()
  const port = await lastingPort()
  const file = join(directory(), 'sentinel.conf')
  writeFileSync(file, `port ${port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 ${master.port} 1\n`)
  spawned(REDIS, file, '--sentinel')
  const probe = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: null })
  probe.on('error', () => undefined)
  await probe.ping()
  await exercise({ kind: 'sentinel', sentinels: [`redis://127.0.0.1:${port}`], name: 'mymaster' })
  probe.disconnect()
  master.client.disconnect()
})

test('a sentinel that requires a password: the right one works; another or none fails with a clear error', async () => {
  const master = await node()
  await master.client.config('SET', 'requirepass', 'secret')
  const port = await lastingPort()
  const file = join(directory(), 'sentinel.conf')
  const watch = [`sentinel monitor mymaster 127.0.0.1 ${master.port} 1`, 'sentinel auth-pass mymaster secret']
  writeFileSync(file, [`port ${port}`, 'bind 127.0.0.1', 'requirepass secret', ...watch, ''].join('\n'))
  spawned(REDIS, file, '--sentinel')
  const probe = new Redis(port, { password: 'secret', retryStrategy: () => 20, maxRetriesPerRequest: null })
  probe.on('error', () => undefined)
  await probe.ping()
  probe.disconnect()
  master.client.disconnect()
  const place = (password: string): RedisConfig => {
    return { kind: 'sentinel', sentinels: [`redis://${password}127.0.0.1:${port}`], name: 'mymaster' }
  }
  const opened = (redis: RedisConfig) =>
    openLedger({ ledger: { kind: 'redis', redis }, ledgerUnreachable: 'refuse', dataDir: directory() })
  await expect(opened(place(''))).rejects.toThrow('Redis requires a password')
  await expect(opened(place(':nope@'))).rejects.toThrow('Redis rejected the user name or the password')
  await exercise(place(':secret@'))
})

test("a sentinel's master dies with data that its replica lacks: all of it is charged, once", async () => {
  const master = await node()
  const replica = await node('--replicaof', `127.0.0.1 ${master.port}`, '--repl-diskless-sync-delay', '0')
  await until(async () => (await replica.client.info('replication')).includes('master_link_status:up'))
  const port = await lastingPort()
  const file = join(directory(), 'sentinel.conf')
  const watch = [
    `monitor mymaster 127.0.0.1 ${master.port} 1`,
    'down-after-milliseconds mymaster 1000',
    'failover-timeout mymaster 2000',
  ]
  writeFileSync(file, [`port ${port}`, 'bind 127.0.0.1', ...watch.map((line) => `sentinel ${line}`), ''].join('\n'))
  spawned('redis-server', file, '--sentinel')
  const probe = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: null })
  probe.on('error', () => undefined)
  await until(async () => String(await probe.call('SENTINEL', 'REPLICAS', 'mymaster')).includes(String(replica.port)))
  const redis: RedisConfig = { kind: 'sentinel', sentinels: [`redis://127.0.0.1:${port}`], name: 'mymaster' }
  const place: LedgerPlace = { ledger: { kind: 'redis', redis }, ledgerUnreachable: 'refuse', dataDir: directory() }
  const ledger = await connectedLedger(place)
  const account = accountOf(spend({ total: 100_000 }))
  const spendOn = async (cost: number) => ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(cost))
  await spendOn(10)
  await master.client.wait(1, 1000)
  await abandon(replica, master)
  const running = await ledger.reserve(account, holdOf(100))
  for (let i = 0; i < 20; i++) await spendOn(20)
  await until(() => ledger.health().pending === 0)
  master.process.kill('SIGKILL')
  expect(await ledger.settle(running, chargeOf(70))).toBe('settled')
  await until(async () => (await replica.client.role())[0] === 'master')
  await until(() =>
    spendOn(30).then(
      () => true,
      () => false,
    ),
  )
  await until(() => ledger.health().pending === 0)
  const usageReader = await openAccountUsageReader(place)
  await until(async () => (await usageReader.read(account)).organization.live === 0)
  expect((await usageReader.read(account)).organization.total).toMatchObject({ spent: 10 + 400 + 70 + 30, held: 0 })
  await Promise.all([usageReader.close(), ledger.close()])
  for (const client of [probe, master.client, replica.client]) client.disconnect()
})

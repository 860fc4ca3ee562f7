/**
 * The ledger in Redis when the connection to Redis fails, and when a Redis answers but is demoted, full, busy or
 * restricted.
 */

import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { RedisItems } from '../../src/items/redis-items.ts'
import { KeyFollower } from '../../src/keys/key-follower.ts'
import { openRedisKeyStore, redisKeyBackend } from '../../src/keys/redis-key-store.ts'
import { Upkeep } from '../../src/ledger/redis/maintenance/upkeep.ts'
import { openReader, RedisAuditLog, RedisUsageLog } from '../../src/ledger/redis/readers/redis-readers.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisUnfitError } from '../../src/redis/redis-errors.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { LossyProxy } from './lossy-proxy.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { failureOf, totals, until } from './seen.ts'

/** The commands that a Redis user of the ledger must be allowed to run. */
const RIGHTS =
  '+evalsha +eval +time +hget +hmget +hgetall +hset +hincrby +hdel +hlen +hstrlen +zadd +zrem +zscore +zcard ' +
  '+zrangebyscore +zremrangebyscore +exists +xadd +xrange +xlen +xtrim +memory|usage +sadd +scard +smembers +hscan ' +
  '+incr +get +set +del +pexpire +info +ping +client +cluster'
const { open, directory, ledgerOn } = opened()

async function proxy(server: RedisServer): Promise<LossyProxy> {
  const between = await LossyProxy.before(server.socket)
  open.push(between)
  return between
}

test('a black hole: no request waits long, the connection is replaced, and nothing is charged twice', async () => {
  await using server = await RedisServer.start()
  const between = await proxy(server)
  const ledger = await ledgerOn(between.url)
  const account = accountOf()
  const running = await ledger.reserve(account, holdOf(100))
  const connections = between.accepted
  between.swallow()
  expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('ledger_unavailable')
  expect(await failureOf(ledger.extend(running, running.held, running.held))).toBe('ledger_unavailable')
  expect(await ledger.settle(running, chargeOf(70))).toBe('settled')
  await until(() => between.accepted > connections && ledger.health().ready)
  await until(() => ledger.health().pending === 0)
  await until(async () => (await totals(server, account)).live === 0)
  expect(await totals(server, account)).toEqual({ spent: 70, held: 0, live: 0 })
})

test.each([
  ['out of reach of Redis', true],
  ['with Redis at hand', false],
])('a reservation without a reply is not charged if its process ends %s', async (_, isAway) => {
  await using server = await RedisServer.start()
  const [between, own, account] = [await proxy(server), directory(), accountOf()]
  const ledger = await ledgerOn(between.url, own)
  await ledger.settle(await ledger.reserve(account, holdOf(1)), chargeOf(1))
  server.signal('SIGSTOP')
  expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('ledger_unavailable')
  if (isAway) await between.close()
  server.signal('SIGCONT')
  if (isAway) await until(async () => (await totals(server, account)).live === 1)
  await ledger.close()
  open.splice(open.indexOf(ledger), 1)
  await ledgerOn(server.socket, own)
  await until(async () => (await totals(server, account)).live === 0)
  expect(await totals(server, account)).toEqual({ spent: 1, held: 0, live: 0 })
})

test('a master demoted while connected: writes that it rejects are repeated once it accepts them', async () => {
  await using server = await RedisServer.start()
  const ledger = await ledgerOn(server.socket)
  const account = accountOf()
  const running = await ledger.reserve(account, holdOf(100))
  const client = server.client()
  await client.replicaof('127.0.0.1', 1)
  expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('ledger_unavailable')
  expect(await ledger.settle(running, chargeOf(70))).toBe('settled')
  await client.replicaof('NO', 'ONE')
  await until(() => ledger.health().ready && ledger.health().pending === 0)
  await until(async () => (await failureOf(ledger.reserve(account, holdOf(30)))) === 'none')
  expect(await totals(server, account)).toMatchObject({ spent: 70 })
})

describe('a Redis that answers and rejects reservations', () => {
  const full = async (client: Redis, isSo: boolean) => client.config('SET', 'maxmemory', isSo ? '1mb' : '0')
  const replica = async (client: Redis, isSo: boolean) =>
    isSo ? client.replicaof('127.0.0.1', 1) : client.replicaof('NO', 'ONE')
  const fewReplicas = async (client: Redis, isSo: boolean) =>
    client.config('SET', 'min-replicas-to-write', isSo ? '1' : '0')
  test.each([
    ['it is full', /is full/, full, 'settled'],
    // The connection is replaced each time: the address may lead to another master.
    ['it is a replica', /replica|not reached/, replica, 'kept'],
    ['it has too few replicas', /NOREPLICAS/, fewReplicas, 'kept'],
  ] as const)(
    '%s: health reports it, before a request and after one, until reservations work again',
    async (_, words, set, settled) => {
      await using server = await RedisServer.start()
      const ledger = await ledgerOn(server.socket)
      const account = accountOf()
      const running = await ledger.reserve(account, holdOf(100))
      const client = server.client()
      await set(client, true)
      await until(async () => words.test((await ledger.askHealth()).complaint ?? ''))
      expect(await ledger.askHealth()).toMatchObject({ ready: false, up: false })
      for (let i = 0; i < 10; i++)
        expect(await failureOf(ledger.reserve(account, holdOf(1)))).toBe('ledger_unavailable')
      await until(() => words.test(ledger.health().complaint ?? ''))
      expect(ledger.health()).toMatchObject({ ready: false, up: false })
      // Scripts that free and record run on a full server, too.
      await ledger.settle(running, chargeOf(70))
      if (settled === 'settled') expect(await totals(server, account)).toMatchObject({ spent: 70, live: 0 })
      await set(client, false)
      await until(() => ledger.health().up && ledger.health().pending === 0)
      expect(await ledger.askHealth()).toMatchObject({ ready: true, up: true })
      await until(async () => (await failureOf(ledger.reserve(account, holdOf(1)))) === 'none')
      expect(await totals(server, account)).toMatchObject({ spent: 70 })
    },
  )
})

test('a Redis that rejects writes is not reported as unreachable, however many settlements fail', async () => {
  await using server = await RedisServer.start()
  const ledger = await ledgerOn(server.socket)
  const account = accountOf()
  const running = await Promise.all(Array.from({ length: 20 }, () => ledger.reserve(account, holdOf(1))))
  const client = server.client()
  await client.config('SET', 'min-replicas-to-write', '1')
  expect(await failureOf(ledger.reserve(account, holdOf(1)))).toBe('ledger_unavailable')
  await Promise.all(running.map((reservation) => ledger.settle(reservation, chargeOf(1))))
  const complaints = new Set<string | undefined>()
  let looks = 0
  await until(() => {
    complaints.add(ledger.health().complaint)
    looks += 1
    return looks === 150
  })
  expect([...complaints]).toEqual([expect.stringContaining('NOREPLICAS')])
  await client.config('SET', 'min-replicas-to-write', '0')
  await until(() => ledger.health().up && ledger.health().pending === 0)
  expect(await totals(server, account)).toMatchObject({ spent: 20, live: 0 })
})

test('a node without requests restores what it knows within seconds after Redis is emptied', async () => {
  await using server = await RedisServer.start()
  const ledger = await ledgerOn(server.socket)
  const account = accountOf()
  await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(70))
  await until(async () => (await totals(server, account)).spent === 70)
  const client = server.client()
  await client.flushall()
  // Until then, other nodes can use its share of the budget.
  await until(async () => (await totals(server, account)).spent === 70)
})

test('a reply that comes too late: the same reservation is sent once more, and held once', async () => {
  await using server = await RedisServer.start()
  const between = await proxy(server)
  const ledger = await ledgerOn(between.url)
  const account = accountOf()
  await ledger.settle(await ledger.reserve(account, holdOf(10)), chargeOf(1))
  between.delay()
  const reservation = await ledger.reserve(account, holdOf(100))
  expect(await totals(server, account)).toEqual({ spent: 1, held: 100, live: 1 })
  await ledger.settle(reservation, chargeOf(70))
  await until(() => ledger.health().pending === 0)
  expect(await totals(server, account)).toEqual({ spent: 71, held: 0, live: 0 })
})

test('a frozen Redis: all requests get an error, queued ones too, and nothing stays held', async () => {
  await using server = await RedisServer.start()
  const ledger = await ledgerOn(server.socket)
  const account = accountOf()
  await ledger.settle(await ledger.reserve(account, holdOf(10)), chargeOf(1))
  server.signal('SIGSTOP')
  const asked = Array.from({ length: 1000 }, () => failureOf(ledger.reserve(account, holdOf(1))))
  expect(new Set(await Promise.all(asked))).toEqual(new Set(['ledger_unavailable']))
  expect(ledger.health().ready).toBe(false)
  server.signal('SIGCONT')
  await until(() => ledger.health().ready)
  await until(async () => (await totals(server, account)).live === 0)
  expect(await totals(server, account)).toEqual({ spent: 1, held: 0, live: 0 })
})

describe.each([
  'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
  'LOADING Redis is loading the dataset in memory',
  'TRYAGAIN Multiple keys request during rehashing of slot',
  'MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to no.',
  'CLUSTERDOWN The cluster is down',
])('%s', (error) => {
  test('passes: the request is granted after a moment; it stays: refused, and settled later', async () => {
    await using server = await RedisServer.start()
    const between = await proxy(server)
    const ledger = await ledgerOn(between.url)
    const account = accountOf()
    await ledger.settle(await ledger.reserve(account, holdOf(10)), chargeOf(1))
    between.fail('reserve', error, error)
    const reservation = await ledger.reserve(account, holdOf(100))
    expect(between.failuresLeft).toBe(0)
    between.fail('reserve', error, error, error)
    expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('ledger_unavailable')
    between.fail('settle', error, error, error)
    expect(await ledger.settle(reservation, chargeOf(70))).toBe('settled')
    expect(ledger.health().pending).toBe(1)
    await until(() => ledger.health().pending === 0)
    expect(await totals(server, account)).toEqual({ spent: 71, held: 0, live: 0 })
  })
})

test('a slow script: later calls are refused or wait, and nothing is lost', async () => {
  await using server = await RedisServer.start('--busy-reply-threshold', '1')
  const ledger = await ledgerOn(server.socket)
  const account = accountOf()
  const running = await ledger.reserve(account, holdOf(100))
  const client = server.client()
  // Connected before the loop begins, because a client that connects to a busy Redis is not ready until the script has
  // ended.
  const other = server.client()
  await other.ping()
  const loop = client.eval('while true do end', 0).catch(String)
  await until(() =>
    other.ping().then(
      () => false,
      (error) => String(error).includes('BUSY'),
    ),
  )
  expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('ledger_unavailable')
  await ledger.settle(running, chargeOf(70))
  await until(async () => (await other.script('KILL').catch(() => '')) === 'OK')
  expect(await loop).toContain('killed')
  await until(() => ledger.health().ready && ledger.health().pending === 0)
  await until(async () => (await totals(server, account)).live === 0)
  expect(await totals(server, account)).toEqual({ spent: 70, held: 0, live: 0 })
})

describe('permissions', () => {
  test('revoked at run time: as if Redis were down, until they are back', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const account = accountOf()
    const running = await ledger.reserve(account, holdOf(100))
    const client = server.client()
    await client.call('ACL', 'SETUSER', 'default', '-evalsha', '-eval')
    expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('ledger_unavailable')
    expect(await ledger.settle(running, chargeOf(70))).toBe('settled')
    expect(ledger.health().pending).toBe(1)
    await client.call('ACL', 'SETUSER', 'default', '+evalsha', '+eval')
    await until(() => ledger.health().pending === 0)
    expect(await totals(server, account)).toEqual({ spent: 70, held: 0, live: 0 })
  })

  test.each([
    [
      '-info',
      'Redis does not permit a command that weir needs: ' +
        "NOPERM this user has no permissions to run the 'info' command",
    ],
    [
      '-evalsha',
      'Redis does not permit a command that weir needs: ' +
        "NOPERM this user has no permissions to run the 'evalsha' command",
    ],
    ['-zrangebyscore', "can't run this command"],
    [
      '-hlen',
      'Redis does not permit a command that weir needs: ' +
        "NOPERM this user has no permissions to run the 'hlen' command",
    ],
    [
      'resetkeys',
      'Redis does not permit a command that weir needs: ' +
        'NOPERM this user has no permissions to access one of the keys',
    ],
  ])('never given, %s: the start fails with an error that names it', async (rights, words) => {
    await using server = await RedisServer.start()
    const client = server.client()
    await client.call('ACL', 'SETUSER', 'default', rights)
    const opening = ledgerOn(server.socket)
    await expect(opening).rejects.toThrow(RedisUnfitError)
    await expect(opening).rejects.toThrow(words)
    await opening.catch(() => undefined)
  })
})

test("a reading command waits for a Redis that is slow for a moment; no caller's request does", async () => {
  await using server = await RedisServer.start('--enable-debug-command', 'yes')
  const ledger = await ledgerOn(server.socket)
  const account = accountOf()
  const reservation = await ledger.reserve(account, holdOf(100))
  await ledger.settle(reservation, chargeOf(70))
  await until(() => ledger.health().pending === 0)
  const client = server.client()
  const place = { kind: 'single', url: server.socket } as const
  const [usage, audit] = await Promise.all([openReader(RedisUsageLog, place), openReader(RedisAuditLog, place)])
  const asleep = client.call('DEBUG', 'SLEEP', '0.8')
  const [rows, entries] = await Promise.all([
    usage.read({ sinceDay: 0, untilDay: 1e6 }),
    Array.fromAsync(audit.read({ sinceMs: 0, untilMs: Number.MAX_SAFE_INTEGER })),
  ])
  expect([rows.length, entries.length]).toEqual([1, 1])
  await Promise.all([asleep, usage.close(), audit.close()])
})

test('the permissions of the documentation name every command that the source has', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const known = new Set((await client.call('COMMAND', 'LIST')) as string[])
  client.disconnect()
  // A client that may connect may say these.
  const permitted = new Set(['auth', 'readonly', ...RIGHTS.split(' ').map((right) => right.replace(/^\+|\|.*$/g, ''))])
  const missing: string[] = []
  let found = 0
  for (const file of new Bun.Glob('**/*.{lua,ts}').scanSync('src')) {
    const text = await Bun.file(`src/${file}`).text()
    if (!/redis/i.test(text)) continue
    for (const [, word = ''] of text.matchAll(/\(\s*'([A-Z]{3,})'/g)) {
      const command = word.toLowerCase()
      if (!known.has(command)) continue
      found++
      if (!permitted.has(command)) missing.push(`${file}: ${command}`)
    }
  }
  expect(missing).toEqual([])
  expect(found).toBeGreaterThan(50)
})

test('the permissions of the documentation are enough for ledger and keys', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  await client.call('ACL', 'SETUSER', 'weir', 'on', '>secret', '~weir:*', '-@all', ...RIGHTS.split(' '))
  const between = await proxy(server)
  const ledger = await ledgerOn(between.url.replace('redis://', 'redis://weir:secret@'))
  const account = accountOf()
  const reservation = await ledger.reserve(account, holdOf(100))
  expect(await ledger.extend(reservation, reservation.held, reservation.held)).toBe(true)
  expect(await ledger.settle(reservation, chargeOf(70))).toBe('settled')
  await client.flushall()
  await client.script('FLUSH')
  await ledger.reserve(account, holdOf(100))
  expect(await totals(server, account)).toEqual({ spent: 70, held: 100, live: 1 })
  const url = between.url.replace('redis://', 'redis://weir:secret@')
  const keys = await openRedisKeyStore({ kind: 'single', url })
  const entry = { timeMs: Date.now(), source: 'cli', action: 'key.created', target: 'k', details: {} } as const
  await keys.create({ id: 'k', organization: account.organization, sha256: 'ab', shown: 'gwk_k', createdMs: 1 }, entry)
  await keys.audit.append([entry])
  expect(await keys.revoke('k', 2, entry)).toBe('revoked')
  // A gateway reads the keys, and deletes the record of one that was revoked long ago.
  const pruneFailed = (error: unknown) => expect(error).toBeUndefined()
  const pruning = { prunes: true, pruneFailed, keepAuditMs: 1e9, changed: () => {} }
  const follower = new KeyFollower(redisKeyBackend({ kind: 'single', url }), pruning)
  await follower.start()
  await until(async () => (await keys.get('k')) === undefined)
  await follower.stop()
  const usage = await openReader(RedisUsageLog, { kind: 'single', url })
  expect(await usage.read({ sinceDay: 0, untilDay: 1e6 })).toHaveLength(1)
  const shelf = new RedisItems({ kind: 'single', url }, { ttlSeconds: 60 })
  // The first call is sent again, after the next one, because Redis does not know the script yet.
  await until(async () => {
    shelf.put('acme', [{ id: 'piece', bytes: Buffer.from('x') }])
    return (await shelf.get('acme', 'piece').catch(() => undefined)) !== undefined
  })
  const looked = Promise.withResolvers<void>()
  const [watched, alarmed] = [{ kind: 'single', url } as const, () => {}]
  const callbacks = {
    measured: () => looked.resolve(),
    ...{ alarmed, calmed: alarmed, timely: () => {} },
    ahead: () => {},
    undurable: () => {},
    denied: looked.reject,
  }
  const upkeep = Upkeep.begin(watched, { isConfigured: () => false, keepAuditMs: 1e9, ...callbacks })
  await looked.promise
  await Promise.all([keys.close(), usage.close()])
  shelf.close()
  upkeep.close()
  const denied = await client.call('ACL', 'LOG')
  expect(denied).toEqual([])
  const page = await Bun.file(join(import.meta.dir, '../../docs/operating.md')).text()
  expect(page.replaceAll(/\s+/g, ' ').includes(RIGHTS)).toBe(true)
})

describe('records of another version', () => {
  test.each([
    ['a scope', 'scopes', ''],
    ['a reservation', 'reservations', 'r-of-tomorrow'],
  ])('%s: that organisation is refused, nothing is overwritten, the others go on', async (_, name, field) => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const client = server.client()
    const [tomorrows, ours] = [accountOf(), accountOf()]
    const key = redisKey(tomorrows.organization, name)
    // In msgpack: a list of 2 and nil.
    const record = Buffer.from([0x92, 0x02, 0xc0])
    await client.hset(key, field, record)
    const hold = { ...holdOf(1), id: 'r-of-tomorrow' }
    expect(await failureOf(ledger.reserve(tomorrows, hold))).toBe('ledger_unavailable')
    expect(await client.hgetBuffer(key, field)).toEqual(record)
    for (let i = 0; i < 10; i++) {
      await failureOf(ledger.reserve(tomorrows, hold))
      expect(await ledger.settle(await ledger.reserve(ours, holdOf(100)), chargeOf(7))).toBe('settled')
    }
    expect(ledger.health().ready).toBe(true)
  })
})

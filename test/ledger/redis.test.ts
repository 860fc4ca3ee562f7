/** The ledger in Redis when Redis is down, killed, frozen, emptied, full, holds foreign data or denies access. */

import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import type { Hold } from '../../src/ledger/ledger.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { RedisUnfitError } from '../../src/redis/redis-errors.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { failureOf, logged, totals, until } from './seen.ts'

const APPEND = ['--appendonly', 'yes', '--appendfsync', 'always']
const { directory, ledgerOn } = opened()

describe('Redis is away', () => {
  test('at the start: starts without it, reports that, refuses requests, and serves once it is there', async () => {
    await using server = await RedisServer.start()
    await server.kill()
    const ledger = await ledgerOn(server.socket)
    expect(ledger.health()).toMatchObject({ ready: false })
    expect(ledger.health().complaint).toContain('Redis is not reached')
    expect(await failureOf(ledger.reserve(accountOf(), holdOf(1)))).toBe('ledger_unavailable')
    await server.start()
    await until(() => ledger.health().ready)
    expect(await failureOf(ledger.reserve(accountOf(), holdOf(1)))).toBe('none')
  })

  test('in mid-stream: the stream continues, and is charged once when Redis is back', async () => {
    await using server = await RedisServer.start(...APPEND)
    const ledger = await ledgerOn(server.socket)
    const account = accountOf()
    const reservation = await ledger.reserve(account, holdOf(100))
    await server.kill()
    expect(await failureOf(ledger.extend(reservation, reservation.held, reservation.held))).toBe('ledger_unavailable')
    expect(await ledger.settle(reservation, chargeOf(70))).toBe('settled')
    expect(ledger.health().pending).toBe(1)
    await server.start()
    await until(() => ledger.health().pending === 0)
    expect(await totals(server, account)).toEqual({ spent: 70, held: 0, live: 0 })
    expect(await ledger.settle(reservation, chargeOf(90))).toBe('already_settled')
  })

  test('and the gateway dies too: the next one on the same directory sends what was pending', async () => {
    await using server = await RedisServer.start(...APPEND)
    const at = directory()
    const account = accountOf()
    const first = await RedisLedger.open({ kind: 'single', url: server.socket }, at, 'refuse')
    const reservation = await first.reserve(account, holdOf(100))
    await server.kill()
    await first.settle(reservation, chargeOf(70))
    await first.close()
    await server.start()
    const second = await ledgerOn(server.socket, at)
    await until(() => second.health().pending === 0)
    expect(await totals(server, account)).toEqual({ spent: 70, held: 0, live: 0 })
  })

  test('`allow` serves without limits, records the requests, and charges them when it is back', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket, directory(), undefined, 'allow')
    await server.kill()
    const account = accountOf(spend({ total: 10 }))
    for (const cost of [70, 80]) await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(cost))
    expect(ledger.health()).toMatchObject({ ready: true, pending: 2 })
    await server.start()
    await until(() => ledger.health().pending === 0)
    expect(await totals(server, account)).toEqual({ spent: 150, held: 0, live: 0 })
    expect(await failureOf(ledger.reserve(account, holdOf(1)))).toBe('quota_exhausted')
  })
})

describe('Redis is frozen', () => {
  test('callers wait 250 ms, soon not at all; a reservation made all the same is cancelled uncharged', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const account = accountOf()
    await ledger.reserve(account, holdOf(1))
    server.signal('SIGSTOP')
    const outcomes = []
    for (let i = 0; i < 40; i++) outcomes.push(await failureOf(ledger.reserve(account, holdOf(100))))
    expect(new Set(outcomes)).toEqual(new Set(['ledger_unavailable']))
    expect(ledger.health().ready).toBe(false)
    server.signal('SIGCONT')
    await until(() => ledger.health().ready)
    await until(async () => (await totals(server, account)).live === 1)
    expect(await totals(server, account)).toEqual({ spent: 0, held: 1, live: 1 })
  })

  test('settlements made meanwhile arrive once', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const account = accountOf()
    const reservations = []
    for (let i = 0; i < 20; i++) reservations.push(await ledger.reserve(account, holdOf(100)))
    server.signal('SIGSTOP')
    await Promise.all(reservations.map((reservation) => ledger.settle(reservation, chargeOf(70))))
    server.signal('SIGCONT')
    await until(() => ledger.health().pending === 0)
    expect(await totals(server, account)).toEqual({ spent: 1400, held: 0, live: 0 })
  })
})

describe('Redis loses', () => {
  test('acknowledged data: the last minute is sent again, and charged though the reservations are gone', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const account = accountOf()
    for (const cost of [70, 80]) await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(cost))
    const running = await ledger.reserve(account, holdOf(100))
    await until(() => ledger.health().pending === 0)
    // Without a disk it restarts empty: all that it acknowledged is lost.
    await server.kill()
    await server.start()
    await until(async () => (await totals(server, account)).spent === 150)
    expect(await failureOf(ledger.extend(running, running.held, running.held))).toBe('ledger_unavailable')
    expect(await ledger.settle(running, chargeOf(5))).toBe('settled')
    expect(await totals(server, account)).toEqual({ spent: 155, held: 0, live: 0 })
  })

  test('its scripts: they are loaded again without an error', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const client = server.client()
    for (let i = 0; i < 5; i++) {
      await client.script('FLUSH')
      const reservation = await ledger.reserve(accountOf(), holdOf(100))
      await client.script('FLUSH')
      expect(await ledger.settle(reservation, chargeOf(70))).toBe('settled')
    }
  })
  test('the record of old settlements: they are charged, whether they had been sent or not', async () => {
    await using server = await RedisServer.start()
    const at = directory()
    const account = accountOf()
    const outbox = new Outbox(at, () => Date.now() - 3_600_000)
    const admittedMs = Date.now() - 3_600_000
    const settlement = { id: 'old', account, admittedMs, charge: chargeOf(70), heldMicroUsd: 100 }
    await logged(outbox, settlement, true)
    await logged(outbox, { ...settlement, id: 'never-sent' }, false)
    outbox.close()
    const ledger = await ledgerOn(server.socket, at)
    await until(() => ledger.health().pending === 0)
    expect(ledger.health().complaint).toBeUndefined()
    await until(async () => (await totals(server, account)).spent === 140)
  })
})

describe('many settlements at once', () => {
  test('closing waits for them: Redis has them all when the ledger is closed', async () => {
    await using server = await RedisServer.start()
    const ledger = await RedisLedger.open({ kind: 'single', url: server.socket }, directory(), 'refuse')
    const account = accountOf()
    const reservations = []
    for (let i = 0; i < 600; i++) reservations.push(await ledger.reserve(account, holdOf(100)))
    const settlements = reservations.map((reservation) => ledger.settle(reservation, chargeOf(70)))
    await ledger.close()
    expect(await totals(server, account)).toEqual({ spent: 600 * 70, held: 0, live: 0 })
    await Promise.all(settlements)
  })

  test('what they still hold does not refuse the next request', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const account = accountOf({ concurrentRequests: 1 })
    for (let i = 0; i < 20; i++) {
      const reservation = await ledger.reserve(account, holdOf(1))
      void ledger.settle(reservation, chargeOf(1))
    }
    expect(await failureOf(ledger.reserve(account, holdOf(1)))).toBe('none')
    expect(await failureOf(ledger.reserve(account, holdOf(1)))).toBe('rate_limited')
  })
})

describe('Redis answers, but', () => {
  test('is full: no request starts, and running ones are settled', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const account = accountOf()
    const reservation = await ledger.reserve(account, holdOf(100))
    const client = server.client()
    await client.config('SET', 'maxmemory', '1')
    expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('ledger_unavailable')
    expect(await ledger.extend(reservation, reservation.held, reservation.held)).toBe(true)
    expect(await ledger.settle(reservation, chargeOf(70))).toBe('settled')
    await client.config('SET', 'maxmemory', '0')
    await until(async () => (await failureOf(ledger.reserve(account, holdOf(100)))) === 'none')
  })

  test('holds foreign data under our keys: only that organisation is refused, nothing is deleted', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const client = server.client()
    const foreign = accountOf()
    const sound = accountOf()
    const caught = await ledger.reserve(foreign, holdOf(100))
    const key = redisKey(foreign.organization, 'scopes')
    await client.set(key, 'not ours')
    for (let i = 0; i < 10; i++) {
      expect(await failureOf(ledger.reserve(foreign, holdOf(1)))).toBe('ledger_unavailable')
    }
    await ledger.settle(caught, chargeOf(70))
    for (let i = 0; i < 10; i++) {
      expect(await ledger.settle(await ledger.reserve(sound, holdOf(100)), chargeOf(70))).toBe('settled')
    }
    expect(await client.get(key)).toBe('not ours')
  })

  test('a cancellation that fails for one organisation does not block those of others', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const client = server.client()
    const [foreign, sound] = [accountOf(), accountOf()]
    await ledger.settle(await ledger.reserve(sound, holdOf(1)), chargeOf(1))
    await client.set(redisKey(foreign.organization, 'reservations'), 'not ours')
    expect(await failureOf(ledger.reserve(foreign, holdOf(100)))).toBe('ledger_unavailable')
    server.signal('SIGSTOP')
    expect(await failureOf(ledger.reserve(sound, holdOf(100)))).toBe('ledger_unavailable')
    server.signal('SIGCONT')
    await until(async () => (await totals(server, sound)).live === 0)
    expect(await totals(server, sound)).toEqual({ spent: 1, held: 0, live: 0 })
  })

  test('may evict: the start fails', async () => {
    await using server = await RedisServer.start('--maxmemory-policy', 'allkeys-lru')
    await expect(ledgerOn(server.socket)).rejects.toThrow(
      'Redis may evict keys of the ledger (maxmemory-policy allkeys-lru). Set maxmemory-policy noeviction.',
    )
  })

  test('requires a password: the start fails with its error', async () => {
    await using server = await RedisServer.start()
    const client = server.client()
    await client.config('SET', 'requirepass', 'secret')
    await expect(ledgerOn(server.socket)).rejects.toThrow(RedisUnfitError)
  })
})

describe('many requests at once', () => {
  test('holds and charges of one organisation add up over two nodes', async () => {
    await using server = await RedisServer.start()
    const account = accountOf(spend({ total: 1_000_003 }))
    const nodes = [await ledgerOn(server.socket), await ledgerOn(server.socket)]
    const attempt = async (hold: Hold, i: number): Promise<number> => {
      const node = nodes[i % 2]
      if (node === undefined) return 0
      try {
        await node.settle(await node.reserve(account, hold), chargeOf(7000))
        return 7000
      } catch (error) {
        if (error instanceof CallerError && /^(quota_exhausted|rate_limited)$/.test(error.kind)) return 0
        throw error
      }
    }
    const costs = await Promise.all(Array.from({ length: 300 }, (_, i) => attempt(holdOf(7000), i)))
    const sum = costs.reduce((total, cost) => total + cost, 0)
    expect(sum).toBe(Math.floor(1_000_003 / 7000) * 7000)
    expect(await totals(server, account)).toEqual({ spent: sum, held: 0, live: 0 })
  })
})

test('records of the previous version, which did not count when a bucket was empty, stay usable', async () => {
  await using server = await RedisServer.start()
  const ledger = await ledgerOn(server.socket)
  const account = accountOf({ requestsPerMinute: 10, tokensPerMinute: 1000, ...spend({ day: 1000 }) })
  const reservation = await ledger.reserve(account, holdOf(100, 600))
  const client = server.client()
  const shorten = `
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
      local packed = redis.call('HGET', KEYS[1], field)
      if not tonumber(packed) then
        local record, short = cmsgpack.unpack(packed), {}
        for i = 1, tonumber(ARGV[1]) do short[i] = record[i] end
        redis.call('HSET', KEYS[1], field, cmsgpack.pack(short))
      end
    end`
  await client.eval(shorten, 1, redisKey(account.organization, 'scopes'), 14)
  await client.eval(shorten, 1, redisKey(account.organization, 'reservations'), 19)
  const store = new RedisStore(client, client)
  const before = (await store.figures(account)).organization
  expect([before.requests, before.live, before.day.held]).toEqual([1, 1, 100])
  expect(before.tokens).toBeWithin(400, 601)
  expect(await ledger.extend(reservation, reservation.held, { ...reservation.held, costMicroUsd: 150 })).toBe(true)
  expect(await ledger.settle(reservation, chargeOf(70))).toBe('settled')
  await until(async () => (await totals(server, account)).live === 0)
  const { organization } = await store.figures(account)
  expect([organization.day.spent, organization.day.held]).toEqual([70, 0])
  // As in that version: unused tokens are back, except those that drained since.
  expect(organization.tokens).toBeWithin(0, 101)
  await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(30))
  expect((await store.figures(account)).organization.requests).toBe(2)
})

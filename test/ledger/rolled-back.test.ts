/**
 * A Redis that was set back by a crash without an append-only file, by a backup or by a failover. Each node sends what
 * is missing, exactly once.
 */

import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Account, Reservation } from '../../src/ledger/ledger.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { RedisLink } from '../../src/ledger/redis/redis-link.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { LossyProxy } from './lossy-proxy.ts'
import { opened } from './opened.ts'
import { Random, randomSeed } from './random.ts'
import { RedisServer } from './redis-server.ts'
import { breakConnections, copied, failureOf, logged, serve, until, usage } from './seen.ts'

const { open, directory, ledgerOn } = opened()

/** Ages all acknowledged settlements of this node, so that none is sent again for being recent. */
async function grownOld(ledger: RedisLedger, at: string): Promise<void> {
  await until(() => ledger.health().pending === 0)
  const file = new Database(join(at, 'outbox.sqlite'))
  file.run('UPDATE outbox SET taken_ms = taken_ms - 3600000, sent_ms = sent_ms - 3600000')
  // By just enough, and once. They end before their admission now: an outbox lists such rows, because the time of an
  // admission does not lead to them.
  const young = Date.now() - 60_000
  file.run('INSERT OR REPLACE INTO far_row SELECT id, batch FROM request WHERE batch_ended_ms > ?', [young])
  file.run('UPDATE request_batch SET ended_ms = ended_ms - 60000 WHERE ended_ms > ?', [young])
  file.close()
}

/** The data that Redis would find after a kill: its last snapshot. */
async function snapshot(server: RedisServer): Promise<Buffer> {
  const client = server.client()
  await client.save()
  client.disconnect()
  return readFileSync(join(server.directory, 'dump.rdb'))
}

async function setBack(server: RedisServer, snapshot: Buffer): Promise<void> {
  await server.kill()
  writeFileSync(join(server.directory, 'dump.rdb'), snapshot)
  await server.start()
}

async function spentOf(server: RedisServer, account: Account) {
  const client = server.client()
  const { organization, key } = await new RedisStore(client, client).figures(account)
  client.disconnect()
  const [days, months] = [organization.day.spent, organization.month.spent]
  return { spent: organization.total.spent, days, months, key: key.total.spent, held: organization.total.held }
}

function all(spent: number) {
  return { spent, days: spent, months: spent, key: spent, held: 0 }
}

describe('a crash without an append-only file', () => {
  test('the budget shows all spending before another request is granted', async () => {
    await using server = await RedisServer.start()
    const at = directory()
    const ledger = await ledgerOn(server.socket, at)
    const account = accountOf(spend({ total: 1000 }))
    await serve(ledger, account, 100)
    const saved = await snapshot(server)
    for (const cost of [200, 300, 350]) await serve(ledger, account, cost)
    await grownOld(ledger, at)
    await setBack(server, saved)
    await until(() => ledger.health().ready)
    expect(await failureOf(ledger.reserve(account, holdOf(51)))).toBe('quota_exhausted')
    expect(await spentOf(server, account)).toEqual(all(950))
    expect(await usage(server, account.organization)).toMatchObject({ requests: 4, inputTokens: 40, costMicroUsd: 950 })
    await serve(ledger, account, 50)
    expect(await spentOf(server, account)).toEqual(all(1000))
  })

  test('counters have what they lost, recent requests and old ones, running ones and settled ones', async () => {
    await using server = await RedisServer.start()
    const at = directory()
    const ledger = await ledgerOn(server.socket, at)
    const budgets = [
      { name: 'person', value: 'ann', limits: spend({ day: 1000 }) },
      { name: 'session', value: 's', limits: spend({ total: 1000 }), idleMs: 3_600_000 },
    ]
    const account = { ...accountOf(), budgets, timeZone: 'America/New_York' }
    await serve(ledger, account, 100)
    // Its settlement is lost, and its reservation is not.
    const running = await ledger.reserve(account, holdOf(50))
    const saved = await snapshot(server)
    for (const cost of [200, 30]) await serve(ledger, account, cost)
    await grownOld(ledger, at)
    await serve(ledger, account, 5)
    await ledger.settle(running, chargeOf(40))
    await until(() => ledger.health().pending === 0)
    await setBack(server, saved)
    await until(() => ledger.health().ready && ledger.health().pending === 0)
    expect(await failureOf(ledger.reserve(account, holdOf(626)))).toBe('quota_exhausted')
    const client = server.client()
    const figures = await new RedisStore(client, client).figures(account)
    client.disconnect()
    expect(
      figures.budgets?.map(({ usage }) => [usage.day.spent, usage.total.spent, usage.total.held, usage.live]),
    ).toEqual([
      [375, 375, 0, 0],
      [375, 375, 0, 0],
    ])
    expect((await spentOf(server, account)).spent).toBe(375)
  })

  test('a request that went on to another model after the snapshot is charged to its budgets alone', async () => {
    await using server = await RedisServer.start()
    const at = directory()
    const ledger = await ledgerOn(server.socket, at)
    const limits = spend({ day: 1000, total: 1000 })
    const [dear, cheap, person] = ['dear', 'cheap', 'person'].map((name) => ({ name, value: '', limits }))
    if (dear === undefined || cheap === undefined || person === undefined) throw new Error('Three budgets are needed.')
    const base = { ...accountOf(), timeZone: 'Asia/Kolkata' }
    const [first, second] = [
      { ...base, budgets: [dear, person] },
      { ...base, budgets: [cheap, person] },
    ]
    const goneOn = async (cost: number) => {
      const hold = holdOf(50)
      const reservation = await ledger.reserve(first, hold)
      return async () => {
        const moved = await ledger.reserve(second, { ...hold, turn: 1 }, reservation)
        await ledger.settle(moved, chargeOf(cost))
      }
    }
    const [old, recent] = [await goneOn(40), await goneOn(3)]
    const saved = await snapshot(server)
    await old()
    await grownOld(ledger, at)
    await recent()
    await until(() => ledger.health().pending === 0)
    await setBack(server, saved)
    await until(() => ledger.health().ready)
    await serve(ledger, base, 0)
    await until(() => ledger.health().pending === 0)
    const client = server.client()
    const { budgets = [] } = await new RedisStore(client, client).figures({ ...base, budgets: [dear, cheap, person] })
    client.disconnect()
    expect(budgets.map(({ usage: { day, total, live } }) => [day.spent, total.spent, total.held, live])).toEqual([
      [0, 0, 0, 0],
      [43, 43, 0, 0],
      [43, 43, 0, 0],
    ])
  })

  test('a counter is restored once, however its requests were charged before', async () => {
    await using server = await RedisServer.start()
    const at = directory()
    const ledger = await ledgerOn(server.socket, at)
    const budgets = [{ name: 'person', value: 'ann', limits: spend({ day: 1000 }) }]
    const account = { ...accountOf(), budgets, timeZone: 'Asia/Kolkata' }
    const settled = async () => {
      await until(() => ledger.health().ready && ledger.health().pending === 0)
      await serve(ledger, account, 0)
      const client = server.client()
      const { budgets: usages = [] } = await new RedisStore(client, client).figures(account)
      client.disconnect()
      return usages.map(({ usage }) => usage.day.spent)
    }
    for (const cost of [60, 40]) await serve(ledger, account, cost)
    const first = await snapshot(server)
    // Redis does not know it when its settlement comes.
    const running = await ledger.reserve(account, holdOf(50))
    await server.kill()
    await ledger.settle(running, chargeOf(40))
    writeFileSync(join(server.directory, 'dump.rdb'), first)
    await server.start()
    expect(await settled()).toEqual([140])
    const second = await snapshot(server)
    await serve(ledger, account, 7)
    await grownOld(ledger, at)
    await setBack(server, second)
    expect(await settled()).toEqual([147])
    const third = await snapshot(server)
    await serve(ledger, account, 1)
    await setBack(server, third)
    expect(await settled()).toEqual([148])
  })

  test('a node that was down meanwhile finds out when it starts', async () => {
    await using server = await RedisServer.start()
    const at = directory()
    const ledger = await ledgerOn(server.socket, at)
    const account = accountOf()
    await serve(ledger, account, 100)
    const saved = await snapshot(server)
    await serve(ledger, account, 30)
    await grownOld(ledger, at)
    await ledger.close()
    open.pop()
    await setBack(server, saved)
    const again = await ledgerOn(server.socket, at)
    await again.reserve(account, holdOf(1))
    expect((await spentOf(server, account)).spent).toBe(130)
  })

  test("recently lost requests are in Redis' audit trail under their own ids", async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const account = accountOf()
    await serve(ledger, account, 1)
    const saved = await snapshot(server)
    for (const cost of [20, 300]) await serve(ledger, account, cost)
    await until(() => ledger.health().pending === 0)
    await setBack(server, saved)
    await until(async () => (await spentOf(server, account)).spent === 321)
    const client = server.client()
    const trail = await client.xrange(redisKey(account.organization, 'audit'), '-', '+')
    const value = (words: readonly string[], name: string) => words[words.indexOf(name) + 1]
    expect(trail.map(([, words]) => [value(words, 'kind'), value(words, 'cost')])).toEqual([
      ['settled', '1'],
      ['direct', '20'],
      ['direct', '300'],
    ])
  })
})

describe('a server that is set back while both connections stay open', () => {
  test.each([
    ['a connection is lost', 'onLost'],
    ['a part of a cluster came back or moved', 'onReady'],
  ] as const)('the only sign is that %s: nothing more is granted before the comparison', async (_, event) => {
    await using server = await RedisServer.start()
    const outbox = new Outbox(directory())
    const link = new RedisLink({ kind: 'single', url: server.socket }, outbox)
    await link.start()
    const ledger = new RedisLedger(link, outbox, 'refuse')
    open.push(ledger)
    const account = accountOf(spend({ total: 1000 }))
    await serve(ledger, account, 100)
    await until(() => ledger.health().pending === 0)
    const client = server.client()
    const setBack = await copied(client)
    await serve(ledger, account, 200)
    await until(() => ledger.health().pending === 0)
    await setBack()
    link[event]()
    expect(await failureOf(ledger.reserve(account, holdOf(701)))).toBe('quota_exhausted')
    expect(await spentOf(server, account)).toEqual(all(300))
  })
})

describe('a backup', () => {
  test('a request running when it was made is charged once, whether it has ended since or still runs', async () => {
    await using server = await RedisServer.start()
    const at = directory()
    const ledger = await ledgerOn(server.socket, at)
    const account = accountOf()
    const ended = await ledger.reserve(account, holdOf(50))
    const running = await ledger.reserve(account, holdOf(60))
    await ledger.extend(ended, { ...ended.held, costMicroUsd: 20 }, ended.held)
    const saved = await snapshot(server)
    await ledger.settle(ended, chargeOf(45))
    await serve(ledger, account, 7)
    await grownOld(ledger, at)
    await setBack(server, saved)
    await until(() => ledger.health().ready)
    await until(async () => (await spentOf(server, account)).spent === 52 && ledger.health().pending === 0)
    expect(await spentOf(server, account)).toEqual({ ...all(52), held: 60 })
    await ledger.settle(running, chargeOf(33))
    await until(async () => (await spentOf(server, account)).held === 0)
    expect(await spentOf(server, account)).toEqual(all(85))
  })

  test('one older than the last loss: everything after both comes back', async () => {
    await using server = await RedisServer.start()
    const [here, there] = [directory(), directory()]
    const [ledger, other] = [await ledgerOn(server.socket, here), await ledgerOn(server.socket, there)]
    const account = accountOf()
    await serve(ledger, account, 1)
    await serve(other, account, 2)
    const old = await snapshot(server)
    await serve(ledger, account, 10)
    const young = await snapshot(server)
    for (const saved of [young, old, young, old]) {
      await serve(ledger, account, 100)
      await serve(other, account, 200)
      await grownOld(ledger, here)
      await grownOld(other, there)
      await setBack(server, saved)
      await until(() => ledger.health().ready && other.health().ready)
    }
    await until(async () => (await spentOf(server, account)).spent >= 13 + 1200)
    await serve(ledger, account, 1000)
    expect(await spentOf(server, account)).toEqual(all(13 + 1200 + 1000))
  })
})

/** A ledger whose Redis has another clock than this machine. */
async function ledgerWithClocksApart(server: RedisServer, at: string, apartMs: number): Promise<RedisLedger> {
  const outbox = new Outbox(at)
  const link = new RedisLink({ kind: 'single', url: server.socket }, outbox)
  const clock = `local time = redis.call('TIME')\nlocal now = time[1] * 1000 + ${apartMs}\n`
  const [admission, other] = [Reflect.get(link, 'admission'), Reflect.get(link, 'other')]
  Object.assign(link, { store: new RedisStore(admission, other, Date.now, clock, link.epochs) })
  await link.start()
  const ledger = new RedisLedger(link, outbox, 'refuse')
  open.push(ledger)
  return ledger
}

describe('a snapshot in which a request was running that has ended since', () => {
  const HOUR_MS = 3_600_000
  test.each([
    ['it ran for three hours', -3 * HOUR_MS],
    ['it ran for two days', -48 * HOUR_MS],
    ['the clock of Redis is five minutes ahead', 300_000],
    ['the clock of Redis is a day ahead', 24 * HOUR_MS],
    ['it was short', 0],
  ])('%s: it is charged once, and nothing stays reserved', async (_, apartMs) => {
    await using server = await RedisServer.start()
    const at = directory()
    const ledger = await ledgerWithClocksApart(server, at, apartMs)
    const account = accountOf()
    await serve(ledger, account, 100)
    const running = await ledger.reserve(account, holdOf(60))
    const saved = await snapshot(server)
    await ledger.settle(running, chargeOf(33))
    await serve(ledger, account, 200)
    await grownOld(ledger, at)
    await setBack(server, saved)
    await until(() => ledger.health().ready)
    await until(async () => (await failureOf(serve(ledger, account, 1))) === 'none')
    await until(() => ledger.health().pending === 0)
    expect(await spentOf(server, account)).toMatchObject({ spent: 334, key: 334, held: 0 })
  })

  test('a process that has not read the log yet finds it there', async () => {
    await using server = await RedisServer.start()
    const at = directory()
    const ledger = await ledgerOn(server.socket, at)
    const account = accountOf()
    const running = await ledger.reserve(account, holdOf(60))
    const saved = await snapshot(server)
    await ledger.settle(running, chargeOf(33))
    await grownOld(ledger, at)
    await ledger.close()
    open.pop()
    await setBack(server, saved)
    const again = await ledgerOn(server.socket, at)
    await serve(again, account, 200)
    await until(() => again.health().pending === 0)
    expect(await spentOf(server, account)).toEqual(all(233))
  })
})

test('Redis deletes its records early, and the connection breaks: nothing is charged twice', async () => {
  await using server = await RedisServer.start()
  const ledger = await ledgerOn(server.socket)
  const account = accountOf()
  for (const cost of [60_000, 72_000]) await serve(ledger, account, cost)
  await until(() => ledger.health().pending === 0)
  const client = server.client()
  // As its own reaper does if its clock jumps ten minutes ahead.
  await client.del(redisKey(account.organization, 'reservations'), redisKey(account.organization, 'deadlines'))
  await breakConnections(client)
  await until(() => ledger.health().ready && ledger.health().pending === 0)
  // Everything that is sent again comes before this.
  await until(async () => (await failureOf(serve(ledger, account, 1))) === 'none')
  await until(() => ledger.health().pending === 0)
  expect(await spentOf(server, account)).toEqual(all(132_001))
})

describe('a settlement that was sent long ago and not acknowledged', () => {
  /** Sends a settlement, records it as sent eleven minutes ago, and deletes Redis' record of it if it arrived. */
  async function unacknowledged(isTaken: boolean) {
    const server = await RedisServer.start()
    const at = directory()
    const between = await LossyProxy.before(server.socket)
    open.push(between)
    const account = accountOf()
    const ledger = await ledgerOn(between.url, at)
    await serve(ledger, account, 5)
    const reservation: Reservation = await ledger.reserve(account, holdOf(100))
    await ledger.close()
    open.pop()
    const { id, admittedMs } = reservation
    const charge = chargeOf(70)
    const outbox = new Outbox(at)
    await logged(outbox, { id, account, admittedMs, charge, heldMicroUsd: 100 }, true)
    outbox.close()
    const client = server.client()
    const store = new RedisStore(client, client)
    const file = new Database(join(at, 'outbox.sqlite'))
    if (isTaken) {
      const stored = file.query<{ id: string; epoch: number }, []>('SELECT id, life AS epoch FROM node, life').get()
      const from = stored === null ? undefined : { node: stored.id, epoch: stored.epoch }
      expect(await store.settle(reservation, charge, { from })).toBe('settled')
    } else await store.cancel(account, reservation.id)
    await client.del(redisKey(account.organization, 'reservations'), redisKey(account.organization, 'deadlines'))
    client.disconnect()
    file.run('UPDATE request_batch SET ended_ms = ended_ms - 660000')
    file.run('UPDATE outbox_group SET due_ms = 0')
    file.close()
    return { server, at, account }
  }

  test.each([true, false])('is charged once, and is no longer in doubt; it had arrived: %p', async (isTaken) => {
    const { server, at, account } = await unacknowledged(isTaken)
    await using _ = server
    const ledger = await ledgerOn(server.socket, at)
    await until(() => ledger.health().pending === 0)
    expect(ledger.health().complaint).toBeUndefined()
    await until(async () => (await spentOf(server, account)).spent > 5)
    expect(await spentOf(server, account)).toEqual(all(75))
    expect((await usage(server, account.organization)).requests).toBe(2)
  })
})

describe('two gateways on copies of one data_dir', () => {
  test('the second fails at its start with an error that explains what to do; a moved one starts', async () => {
    await using server = await RedisServer.start()
    const [at, copy] = [directory(), directory()]
    const account = accountOf()
    const first = await ledgerOn(server.socket, at)
    await serve(first, account, 10)
    await first.close()
    open.pop()
    cpSync(at, copy, { recursive: true })
    const client = server.client()
    const isFree = async () => (await client.keys('weir:node:*')).length === 0
    await until(isFree)
    const moved = await ledgerOn(server.socket, copy)
    await serve(moved, account, 10)
    const opening = RedisLedger.open({ kind: 'single', url: server.socket }, at, 'refuse')
    await expect(opening).rejects.toThrow('Another gateway uses a copy of this data_dir')
    await opening.catch(() => undefined)
    expect((await spentOf(server, account)).spent).toBe(20)
  })

  test('the second starts while Redis is away: it serves nothing, and reports why', async () => {
    await using server = await RedisServer.start()
    const [at, copy] = [directory(), directory()]
    const first = await ledgerOn(server.socket, at)
    const account = accountOf()
    await serve(first, account, 10)
    new Database(join(at, 'outbox.sqlite')).run('PRAGMA wal_checkpoint')
    cpSync(at, copy, { recursive: true })
    await server.kill()
    const second = await ledgerOn(server.socket, copy)
    await server.start()
    const isCopy = ({ health }: { health: string | undefined }) => health?.includes('Another gateway uses a copy of')
    const both = () => [first, second].map((ledger) => ({ ledger, health: ledger.health().complaint }))
    await until(() => both().some(isCopy) && both().some(({ health }) => health === undefined))
    const [ill, well] = [both().find(isCopy)?.ledger, both().find((one) => !isCopy(one))?.ledger]
    if (ill === undefined || well === undefined) throw new Error('One of the two must serve.')
    expect(await failureOf(ill.reserve(account, holdOf(1)))).toBe('ledger_unavailable')
    expect(await failureOf(well.reserve(account, holdOf(1)))).toBe('none')
  })
})

/** Costs of requests that end while Redis is set back, emptied and cut off, on two nodes, one with two workers. */
async function history(seed: number, server: RedisServer): Promise<void> {
  const random = new Random(seed)
  const homes = [directory(), directory()] as const
  const ledgers = [
    await ledgerOn(server.socket, homes[0]),
    await ledgerOn(server.socket, homes[0]),
    await ledgerOn(server.socket, homes[1]),
  ] as const
  const account = accountOf()
  const snapshots = [await snapshot(server)]
  let cost = 0
  let ended = 0
  const one = async (): Promise<void> => {
    const ledger = random.pick(ledgers)
    const mine = 1 + random.below(1_000_000)
    const reservation = await Promise.resolve(ledger.reserve(account, holdOf(2_000_000))).catch(() => undefined)
    if (reservation === undefined) return
    if (random.below(2) === 0) await Bun.sleep(random.below(60))
    const posted = { ...reservation.held, costMicroUsd: 1 }
    if (random.below(3) === 0)
      await Promise.resolve(ledger.extend(reservation, posted, reservation.held)).catch(() => undefined)
    cost += mine
    ended += 1
    await ledger.settle(reservation, chargeOf(mine))
  }
  const blow = async (): Promise<void> => {
    const kind = random.below(10)
    if (kind < 3) snapshots.push(await snapshot(server))
    else if (kind < 6) await setBack(server, snapshots[random.below(snapshots.length)] ?? Buffer.alloc(0))
    else {
      const client = server.client()
      if (kind < 8) await client.flushall()
      if (kind !== 7) await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      client.disconnect()
    }
  }
  for (let round = 0; round < 12; round++) {
    const running = Array.from({ length: random.below(8) }, one)
    if (random.below(2) === 0) await Promise.all(running)
    if (random.below(4) === 0) for (const [i, at] of homes.entries()) await grownOld(ledgers[i * 2] ?? ledgers[0], at)
    await blow()
    await Promise.all(running)
  }
  await until(() => ledgers.every((ledger) => ledger.health().ready && ledger.health().pending === 0))
  await until(async () => {
    // Each new connection starts a comparison; one more request on each node uncovers the last loss.
    await one()
    await Promise.all(ledgers.map((ledger) => until(() => ledger.health().pending === 0)))
    return (await spentOf(server, account)).spent >= cost
  })
  await until(async () => (await spentOf(server, account)).held === 0)
  expect(await spentOf(server, account)).toEqual(all(cost))
  expect(await usage(server, account.organization)).toMatchObject({ requests: ended, costMicroUsd: cost })
  for (const ledger of open.splice(0)) await ledger.close()
}

test('law: whatever Redis loses, and when, it ends up with what was served, to the micro-dollar', async () => {
  const seed = randomSeed('a Redis that loses')
  await using server = await RedisServer.start()
  for (let i = 0; i < 4; i++) await history(seed + i, server)
})

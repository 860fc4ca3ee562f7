/** A Redis that lost everything: each node restores what its log holds, once, and no budget starts again from zero. */

import { describe, expect, test } from 'bun:test'
import type { Redis } from 'ioredis'
import type { Account } from '../../src/ledger/ledger.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { DataLossError, Epochs } from '../../src/ledger/redis/protocol/epochs.ts'
import { OwedSpend } from '../../src/ledger/redis/protocol/owed-spend.ts'
import { RedisCrossingReader } from '../../src/ledger/redis/readers/redis-crossings.ts'
import { OrganizationSweep } from '../../src/ledger/redis/recovery/organization-sweep.ts'
import { Restoration } from '../../src/ledger/redis/recovery/restoration.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { dayOf, windowsIn } from '../../src/ledger/window.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { breakConnections, copied, failureOf, logged, NOTHING, serve, until, usage } from './seen.ts'
import { withoutRefusals } from './subject.ts'

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
const EMPTIED = { ...NOTHING, sinceMs: Date.now() }
const { open, directory, ledgerOn } = opened()

async function figures(client: Redis, account: Account) {
  const { organization, key } = await new RedisStore(client, client).figures(account)
  return { organization, key }
}

/** The log of a node that served for days: Redis has acknowledged everything, none of it within the last minute. */
async function oldLog(at: string, account: Account, costs: readonly (readonly [cost: number, daysAgo: number])[]) {
  const now = Date.now()
  const outbox = new Outbox(at, () => now - 3_600_000)
  await outbox.enter(account.organization, 7, EMPTIED, [])
  outbox.entered(account.organization, 7)
  for (const [i, [cost, daysAgo]] of costs.entries()) {
    const id = `old-${account.organization}-${i}`
    const admittedMs = now - daysAgo * DAY_MS
    await logged(outbox, { id, account, admittedMs, charge: chargeOf(cost), heldMicroUsd: cost }, true)
    outbox.taken(id, account.organization, 7)
  }
  outbox.close()
}

/** An account that counts in a budget of all requests, and in one of a person with a limit. */
function withCounters(person: string, day: number): Account {
  const budgets = [
    { name: 'all', value: '', limits: spend({ month: 1e9 }) },
    { name: 'person', value: person, limits: spend({ day }) },
  ]
  return { ...accountOf({}, {}, 'acme'), budgets, timeZone: 'Asia/Tokyo' }
}

/** Of each counter of an account what its day and its total have spent. */
async function counters(client: Redis, account: Account): Promise<readonly (readonly number[])[]> {
  const { budgets = [] } = await new RedisStore(client, client).figures(account)
  return budgets.map(({ usage }) => [usage.day.spent, usage.total.spent])
}

describe('FLUSHALL', () => {
  test('sums that are given back are recorded as spend that rose, whatever limits they reach', async () => {
    await using server = await RedisServer.start()
    const budgets = [{ name: 'person', value: 'ann', limits: spend({ total: 1000 }) }]
    const account = { ...accountOf(spend({ total: 1000 })), budgets }
    const at = directory()
    await oldLog(at, account, [[300, 0]])
    const ledger = await ledgerOn(server.socket, at)
    await serve(ledger, account, 1)
    const client = server.client()
    const found = await new RedisCrossingReader(client).read([account.organization])
    expect(found.filter(({ budget }) => budget === 'total')).toMatchObject([
      { key: undefined, spentMicroUsd: 300, limitMicroUsd: undefined },
      { key: 'ci', spentMicroUsd: 300, limitMicroUsd: undefined },
      { counter: 'person\tann', spentMicroUsd: 300, limitMicroUsd: undefined },
    ])
  })

  test('the next reservation sees the budget as it was, and the usage of every key and model', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const client = server.client()
    const account = accountOf(spend({ total: 1000 }))
    const other: Account = { ...account, key: 'dev' }
    await serve(ledger, account, 300)
    await serve(ledger, account, 200, 'n')
    await serve(ledger, other, 400)
    const before = [await figures(client, account), await figures(client, other), await usage(server)]
    await client.flushall()
    expect(await failureOf(ledger.reserve(account, holdOf(101)))).toBe('quota_exhausted')
    const after = [await figures(client, account), await figures(client, other), await usage(server)]
    expect(withoutRefusals(after)).toEqual(withoutRefusals(before))
    expect(await failureOf(ledger.reserve(account, holdOf(100)))).toBe('none')
  })

  test('counters of budgets have what they had spent, from each of two nodes', async () => {
    await using server = await RedisServer.start()
    const [ledger, other] = [await ledgerOn(server.socket), await ledgerOn(server.socket)]
    const client = server.client()
    const [ann, bob] = [withCounters('ann', 1000), withCounters('bob', 1000)]
    await serve(ledger, ann, 300)
    await serve(ledger, bob, 200)
    await serve(other, ann, 400)
    const before = [await counters(client, ann), await counters(client, bob)]
    const ofAll = [900, 900]
    expect(before).toEqual([
      [ofAll, [700, 700]],
      [ofAll, [200, 200]],
    ])
    await client.flushall()
    await breakConnections(client)
    await until(() => ledger.health().ready && other.health().ready)
    expect(await failureOf(ledger.reserve(bob, holdOf(801)))).toBe('quota_exhausted')
    await until(async () => (await counters(client, ann))[1]?.[0] === 700)
    expect([await counters(client, ann), await counters(client, bob)]).toEqual(before)
    expect(await failureOf(other.reserve(ann, holdOf(301)))).toBe('quota_exhausted')
    expect(await failureOf(other.reserve(ann, holdOf(300)))).toBe('none')
  })

  test('a counter that has ended is not given back, and leaves nothing in Redis', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const client = server.client()
    const budgets = [{ name: 'session', value: 's', limits: spend({ total: 1000 }), idleMs: 1 }]
    const account = { ...accountOf({}, {}, 'acme'), budgets }
    await serve(ledger, account, 300)
    const fields = () => client.hkeys(redisKey('acme', 'counters'))
    const names = (await fields()).map((field) => field.charAt(0))
    expect(names.sort()).toEqual(['c', 'n', 'o', 'p'])
    await until(async () => {
      await new RedisStore(client, client).reap('acme')
      return (await client.hget(redisKey('acme', 'counters'), 'n')) === '0'
    })
    expect(await fields()).toEqual(['n'])
    await client.flushall()
    await serve(ledger, account, 20)
    expect((await counters(client, account))[0]?.[1] ?? 0).toBeLessThanOrEqual(20)
  })

  test('of a counter that ended and began anew, only what it has spent since then is given back', async () => {
    const clock = { now: Date.UTC(2026, 10, 21, 12) }
    const outbox = new Outbox(directory(), () => clock.now)
    const budgets = [{ name: 'session', value: 's', limits: spend({ total: 1000 }), idleMs: 1000 }]
    const account = { ...accountOf({}, {}, 'acme'), budgets }
    const settled = async (cost: number, afterMs: number) => {
      clock.now += afterMs
      const id = `r${clock.now}`
      await logged(outbox, { id, account, admittedMs: clock.now, charge: chargeOf(cost), heldMicroUsd: cost }, true)
      outbox.taken(id, 'acme', 0)
    }
    await settled(300, 0)
    await settled(20, 1000)
    await settled(3, 999)
    const rows = await outbox.enter('acme', 7, { ...NOTHING, sinceMs: clock.now + 1 }, [])
    expect(rows.flatMap((row) => ('counter' in row ? [row.spent] : []))).toEqual([[23, 23, 23, 23, 23]])
    outbox.close()
  })

  test('what counters have spent while a clock was ahead is given back in the present windows', async () => {
    const nowMs = Date.UTC(2026, 10, 4, 12)
    const clock = { now: nowMs }
    const outbox = new Outbox(directory(), () => clock.now)
    const account = withCounters('ann', 1000)
    const settled = async (cost: number, ms: number) => {
      clock.now = ms
      const id = `r${cost}`
      await logged(outbox, { id, account, admittedMs: ms, charge: chargeOf(cost), heldMicroUsd: cost }, true)
      outbox.taken(id, 'acme', 0)
    }
    await settled(30, nowMs + 70 * DAY_MS)
    await settled(5, nowMs)
    await settled(7, nowMs + DAY_MS)
    const rows = await outbox.enter('acme', 7, { ...NOTHING, sinceMs: clock.now + 1 }, [])
    const { windows } = windowsIn('Asia/Tokyo', clock.now)
    const found = rows.flatMap((row) => ('counter' in row ? [[row.counter, row.windows, row.spent]] : []))
    // Day, month, total, hour and week.
    const spent = [7, 42, 42, 7, 42]
    expect(found).toEqual([
      ['all', windows, spent],
      ['person\tann', windows, spent],
    ])
    outbox.close()
  })

  test('what a node has spent in a counter that others keep is given back as long as they keep it', async () => {
    await using server = await RedisServer.start()
    const client = server.client()
    const [store, epochs, clock] = [new RedisStore(client, client), new Epochs(), { now: Date.now() }]
    const outbox = new Outbox(directory(), () => clock.now)
    const accountFor = (idleMs: number) => ({
      ...accountOf({}, {}, 'acme'),
      budgets: [{ name: 'session', value: 's', limits: spend({ total: 1000 }), idleMs }],
    })
    const own = accountFor(HOUR_MS)
    await logged(
      outbox,
      { id: 'r', account: own, admittedMs: clock.now, charge: chargeOf(300), heldMicroUsd: 300 },
      true,
    )
    outbox.taken('r', 'acme', 0)
    const isDoubted = () => false
    const sweep = new OrganizationSweep(
      { store, epochs, isReady: true, survey: async () => [], overdue: async () => [] },
      outbox,
      {
        isDoubted,
      } as unknown as Restoration,
    )
    // Another node's request keeps the counter for another hour.
    await store.reserve(accountFor(2 * HOUR_MS), holdOf(1))
    clock.now += HOUR_MS - 60_000
    const epoch = Number(await client.hget(redisKey('acme', 'scopes'), 'epoch'))
    epochs.enter('acme', epoch)
    await sweep.run()
    clock.now += 120_000
    const given = async (at: number) => {
      const rows = await outbox.enter('acme', at, { ...NOTHING, sinceMs: clock.now + 1 }, [])
      return rows.flatMap((row) => ('counter' in row ? [row.spent[0]] : []))
    }
    expect(await given(7)).toEqual([300])
    // A Redis in another epoch may have lost the counter; in the same one it has ended.
    await client.del(redisKey('acme', 'counters'))
    clock.now += 2 * HOUR_MS
    epochs.enter('acme', epoch + 1)
    await sweep.run()
    expect(outbox.counters('acme')).toEqual(['session\ts'])
    epochs.enter('acme', epoch)
    await sweep.run()
    expect(outbox.counters('acme')).toEqual([])
    outbox.close()
  })

  test('what is still given back of counters counts as spent', () => {
    const nowMs = Date.UTC(2026, 10, 21, 12)
    const account = withCounters('ann', 1000)
    const { windows } = windowsIn('Asia/Tokyo', nowMs)
    const owed = new OwedSpend([
      {
        organization: 'acme',
        counter: 'person\tann',
        timeZone: 'Asia/Tokyo',
        keptMs: 0,
        windows,
        spent: [1, 2, 3, 4, 5],
      },
    ])
    const dayOf = (ms: number) => owed.of(account, ms).budgets?.map(({ limits }) => limits.spend?.before?.day?.microUsd)
    expect(dayOf(nowMs)).toEqual([undefined, 1])
    expect(owed.of(account, nowMs).budgets?.[1]?.limits.spend?.before?.total?.microUsd).toBe(3)
    // Another day in Tokyo.
    expect(dayOf(nowMs + 3 * HOUR_MS)).toEqual([undefined, 0])
  })

  test('running requests are charged once, and nothing that follows is charged twice', async () => {
    await using server = await RedisServer.start()
    const ledger = await ledgerOn(server.socket)
    const client = server.client()
    const account = accountOf()
    await serve(ledger, account, 300)
    const running = [await ledger.reserve(account, holdOf(50)), await ledger.reserve(account, holdOf(50))]
    const [first, second] = running
    if (first === undefined || second === undefined) throw new Error('Expected two reservations.')
    await client.flushall()
    // Nothing is held for it any more: no other request may take that as room.
    expect(await failureOf(ledger.extend(first, first.held, first.held))).toBe('ledger_unavailable')
    expect(await ledger.settle(first, chargeOf(40))).toBe('settled')
    expect((await figures(client, account)).organization.total).toMatchObject({ spent: 340, held: 0 })
    await client.flushall()
    expect(await ledger.settle(second, chargeOf(30))).toBe('settled')
    // Every connection is cut: recent settlements are sent again, and Redis knows them already.
    await breakConnections(client)
    await until(() => ledger.health().ready && ledger.health().pending === 0)
    await serve(ledger, account, 1)
    expect((await figures(client, account)).organization.total).toMatchObject({ spent: 371, held: 0 })
    expect(await usage(server)).toMatchObject({ requests: 4, costMicroUsd: 371 })
  })

  test('each of two nodes restores its own part, the idle one too', async () => {
    await using server = await RedisServer.start()
    const [here, there] = [directory(), directory()]
    const ledger = await ledgerOn(server.socket, here)
    const idle = await ledgerOn(server.socket, there)
    const client = server.client()
    const account = accountOf()
    await serve(ledger, account, 300)
    await serve(idle, account, 500)
    await client.flushall()
    await serve(ledger, account, 7)
    // A node checks by itself when it connects and on a timer, which on a busy machine may have come already.
    expect([307, 807]).toContain((await figures(client, account)).organization.total.spent)
    await breakConnections(client)
    await until(async () => (await figures(client, account)).organization.total.spent === 807)
  })

  test('workers that share a log restore it once', async () => {
    await using server = await RedisServer.start()
    const at = directory()
    const workers = [
      await ledgerOn(server.socket, at),
      await ledgerOn(server.socket, at),
      await ledgerOn(server.socket, at),
    ]
    const client = server.client()
    const account = accountOf()
    for (let i = 0; i < 30; i++) await Promise.all(workers.map((worker) => serve(worker, account, 10)))
    for (let round = 0; round < 3; round++) {
      await client.flushall()
      await Promise.all(workers.flatMap((worker) => [serve(worker, account, 1), serve(worker, account, 1)]))
      await until(() => workers.every((worker) => worker.health().pending === 0))
      expect((await figures(client, account)).organization.total).toMatchObject({ spent: 906 + round * 6, held: 0 })
    }
    expect(await usage(server)).toMatchObject({ requests: 90 + 18, costMicroUsd: 918 })
  })
})

test('data that a node restored counts as its own: after a restart nothing is restored twice', async () => {
  await using server = await RedisServer.start()
  const at = directory()
  const account = accountOf()
  await oldLog(at, account, [
    [100, 0],
    [10, 1],
  ])
  const first = await ledgerOn(server.socket, at)
  const client = server.client()
  await serve(first, account, 7)
  await until(() => first.health().pending === 0)
  open.splice(open.indexOf(first), 1)
  await first.close()
  const second = await ledgerOn(server.socket, at)
  await serve(second, account, 1)
  await until(() => second.health().pending === 0)
  expect((await figures(client, account)).organization.total).toMatchObject({ spent: 118, held: 0 })
  expect(await usage(server, account.organization)).toMatchObject({ requests: 4, costMicroUsd: 118 })
})

test("days and months keep their boundaries: yesterday's spending is not in today's budget", async () => {
  await using server = await RedisServer.start()
  const at = directory()
  const account = { ...accountOf(), budgets: [{ name: 'all', value: '', limits: spend({ month: 1000 }) }] }
  await oldLog(at, account, [
    [100, 0],
    [10, 1],
    [1, 400],
  ])
  const yesterday = { ...account, organization: `${account.organization}-before` }
  await oldLog(at, yesterday, [[50, 1]])
  const ledger = await ledgerOn(server.socket, at)
  const client = server.client()
  await until(async () => (await figures(client, account)).organization.total.spent === 111)
  await until(async () => (await counters(client, account))[0]?.[1] === 111)
  const { organization, key, budgets = [] } = await new RedisStore(client, client).figures(account)
  const isSameMonth = new Date().getUTCDate() > 1
  for (const scope of [organization, key, ...budgets.map(({ usage }) => usage)]) {
    expect([scope.day.spent, scope.month.spent, scope.total.spent]).toEqual([100, isSameMonth ? 110 : 100, 111])
  }
  await until(async () => (await counters(client, yesterday))[0]?.[1] === 50)
  expect(await counters(client, yesterday)).toEqual([[0, 50]])
  expect((await usage(server, account.organization)).requests).toBe(3)
  expect(ledger.health().complaint).toBeUndefined()
})

test('an organisation whose keys hold foreign data does not keep others from being restored', async () => {
  await using server = await RedisServer.start()
  const at = directory()
  // In the order in which they are checked.
  const [foreign, sound] = [accountOf({}, {}, 'a-foreign'), accountOf({}, {}, 'b-sound')]
  for (const account of [foreign, sound]) await oldLog(at, account, [[500, 0]])
  const client = server.client()
  const key = redisKey(foreign.organization, 'scopes')
  await client.set(key, 'not ours')
  await ledgerOn(server.socket, at)
  await until(async () => (await figures(client, sound)).organization.total.spent === 500)
  expect(await client.get(key)).toBe('not ours')
})

test('a node that dies while it restores continues at the same place', async () => {
  await using server = await RedisServer.start()
  const at = directory()
  const account = accountOf()
  await oldLog(
    at,
    account,
    Array.from({ length: 40 }, (_, i): readonly [number, number] => [100 + i, i]),
  )
  const client = server.client()
  // The first forty rows: the node dies after ten of them, without the reply to the last.
  const outbox = new Outbox(at)
  const store = new RedisStore(client, client)
  const { epoch } = await store.enter(account.organization, { node: outbox.epochs.node, epoch: 7, legacyEpoch: 0 }, 0)
  // No settlement of this node counts before it has begun to restore.
  const admission = { id: 'early', account, admittedMs: Date.now() }
  const early = Promise.resolve(
    store.settle(admission, chargeOf(1), { isDirect: true, from: { node: outbox.epochs.node, epoch } }),
  )
  await expect(early).rejects.toThrow(DataLossError)
  await early.catch(() => undefined)
  for (const [i, row] of (await outbox.enter(account.organization, epoch, EMPTIED, [])).slice(0, 10).entries()) {
    const give = (number: number) => store.restore(epoch, outbox.epochs.node, { ...row, number, last: 40 })
    await give(i + 1)
    // A row that arrives twice or out of order changes nothing.
    await give(i + 1)
    await give(i + 3)
  }
  outbox.close()
  const ledger = await ledgerOn(server.socket, at)
  const sum = 40 * 100 + (39 * 40) / 2
  await serve(ledger, account, 1)
  expect((await figures(client, account)).organization.total.spent).toBe(sum + 1)
})

test('restored data that is lost again is restored again, once', async () => {
  await using server = await RedisServer.start()
  const at = directory()
  const account = accountOf()
  await oldLog(at, account, [
    [100, 0],
    [10, 1],
  ])
  const client = server.client()
  const outbox = new Outbox(at)
  const store = new RedisStore(client, client)
  await store.enter(account.organization, { node: outbox.epochs.node, epoch: 7, legacyEpoch: 0 }, 0)
  const key = redisKey(account.organization, 'scopes')
  const nodes = redisKey(account.organization, 'nodes')
  const [scopes, sums] = [await client.dumpBuffer(key), await client.dumpBuffer(nodes)]
  const restoration = new Restoration(
    store,
    outbox,
    new Epochs(),
    async () => undefined,
    () => undefined,
    Date.now(),
  )
  await restoration.restore(account.organization)
  expect((await figures(client, account)).organization.total.spent).toBe(110)
  // Set back to the moment at which this epoch had just begun.
  await client.restore(key, 0, scopes, 'REPLACE')
  await client.restore(nodes, 0, sums, 'REPLACE')
  await restoration.restore(account.organization)
  await restoration.restore(account.organization)
  expect((await figures(client, account)).organization.total.spent).toBe(110)
  outbox.close()
})

test('an epoch earlier than the one that a node knows is never entered again: a later one begins', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const { organization } = accountOf()
  const enter = (node: string, epoch: number) => store.enter(organization, { node, epoch, legacyEpoch: 0 }, 0)
  const { epoch: earlier } = await enter('one', 0)
  const later = earlier + 1000
  // Calls still in flight under the earlier epoch must be refused, also those of a node that is unknown in it.
  const { epoch } = await enter('other', later)
  expect(epoch).toBeGreaterThan(later)
})

test('pending settlements are sent, not restored with the rest', async () => {
  const at = directory()
  const account = accountOf()
  await oldLog(at, account, [[100, 0]])
  const outbox = new Outbox(at)
  const settlement = { id: 'pending', account, admittedMs: Date.now(), charge: chargeOf(20), heldMicroUsd: 20 }
  await logged(outbox, settlement, false)
  expect(await outbox.enter(account.organization, 9, EMPTIED, [])).toMatchObject([
    { day: dayOf(Date.now()), key: 'ci', series: 'm\tp\t', requests: 1, costMicroUsd: 100 },
  ])
  // A settlement acknowledged in the epoch before counts as not acknowledged.
  outbox.taken('pending', account.organization, 7)
  outbox.commit()
  expect(outbox.pending(10, true)).toMatchObject([{ settlement, epoch: 9, wasSent: false }])
  outbox.taken('pending', account.organization, 9)
  outbox.commit()
  expect(outbox.pending(10, true)).toEqual([])
  outbox.close()
})

test('an older epoch returns after Redis was emptied and restored: what it lacks is restored, too', async () => {
  await using server = await RedisServer.start()
  const ledger = await ledgerOn(server.socket)
  const client = server.client()
  const account = accountOf()
  await serve(ledger, account, 300)
  await client.flushall()
  await serve(ledger, account, 10)
  const setBack = await copied(client)
  await serve(ledger, account, 20)
  await client.flushall()
  await serve(ledger, account, 40)
  expect((await figures(client, account)).organization.total).toMatchObject({ spent: 370, held: 0 })
  // As a replica that lagged when it took over.
  await setBack()
  await breakConnections(client)
  await until(() => ledger.health().ready && ledger.health().pending === 0)
  await serve(ledger, account, 1)
  await until(() => ledger.health().pending === 0)
  expect((await figures(client, account)).organization.total).toMatchObject({ spent: 371, held: 0 })
  expect(await usage(server)).toMatchObject({ requests: 5, costMicroUsd: 371 })
})

/**
 * Nodes that do not come back: a gateway whose data_dir does not outlive a release leaves its figures in Redis with
 * each release. They become one sum for each key, and a node that does come back, however late, is charged exactly.
 */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Charge, Ledger, Reservation } from '../../src/ledger/ledger.ts'
import { foldUsage } from '../../src/ledger/redis/maintenance/usage-folding.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { redisKey, SEEN_KEY } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { survey } from '../../src/ledger/redis/store/survey.ts'
import { addUsage, noUsage } from '../../src/ledger/usage-figures.ts'
import { dayOf, NODE_DAYS_KEPT } from '../../src/ledger/window.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { Fleet } from './moved-clock.ts'
import { opened } from './opened.ts'
import { Random, randomSeed } from './random.ts'
import { RedisServer } from './redis-server.ts'
import { failureOf, totals, until } from './seen.ts'

const EARLIER = '../fixtures/ledger/earlier-redis-ledger.js'
const DAY_MS = 86_400_000
const { open, directory } = opened()

const MODELS = ['m', 'n', 'o']
const KEYS = ['ci', 'dev', 'web', 'app']

/** Redis' own clock, moved ahead by a number of days. */
function clockOf(days: number): string {
  return `local time = redis.call('TIME')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000) + ${days * DAY_MS}\n`
}

/** Begins another epoch of an organisation, so that every node compares its log with Redis. */
async function beginEpoch(store: RedisStore, organization: string): Promise<void> {
  const other = { node: 'another', epoch: 0, legacyEpoch: 0 }
  const { epoch } = await store.enter(organization, other, 0)
  await store.enter(organization, other, epoch)
  await store.restore(epoch + 1, 'another', {
    ...noUsage,
    organization,
    key: '',
    day: 0,
    series: '',
    number: 0,
    last: 0,
  })
}

test('200 nodes of past releases are one field each, and budgets and usage stay as they are', async () => {
  await using server = await RedisServer.start()
  const fleet = await Fleet.start(server, open)
  const account = accountOf()
  const { organization } = account
  const hash = redisKey(organization, 'nodes')
  const nodes = Array.from({ length: 200 }, (_, i) => `node-${i}-0f8fad5b-d9cb-469f-a165-708677`)
  const today = dayOf(fleet.now())
  const places = [today, today - 1].flatMap((day) =>
    KEYS.flatMap((key) => MODELS.map((model) => ({ day, key, series: `${model}\tprovider\t` }))),
  )
  await fleet.onStore(async (store) => {
    for (const node of nodes) {
      const { epoch } = await store.enter(organization, { node, epoch: 0, legacyEpoch: 0 }, 0)
      const rows = places.map((place, i) => {
        return { ...noUsage, ...place, organization, requests: 3, costMicroUsd: 1000 + i, number: i + 1, last: 24 }
      })
      await Promise.all(rows.map((row) => store.restore(epoch, node, row)))
    }
  })
  const before = await fleet.onStore(async (store, client) => {
    await client.sadd('weir:organizations', organization)
    await client.hset(SEEN_KEY, Object.fromEntries(nodes.map((node) => [node, today])))
    return [await client.hlen(hash), (await store.figures(account)).organization.total.spent]
  })
  const used = await fleet.usage(account)
  const spent = 200 * places.reduce((sum, _, i) => sum + 1000 + i, 0)
  expect(before).toEqual([200 * 25, spent])
  await fleet.leap((NODE_DAYS_KEPT + 3) * DAY_MS)
  const [connected = '', comparing = '', young = ''] = nodes
  await fleet.onStore(async (store, client) => {
    await client.hset(SEEN_KEY, connected, dayOf(fleet.now()))
    const { epoch } = await store.enter(organization, { node: 'another', epoch: 0, legacyEpoch: 0 }, 0)
    await store.enter(organization, { node: comparing, epoch, legacyEpoch: 0 }, epoch)
    await client.hset(hash, [young, dayOf(fleet.now()) - NODE_DAYS_KEPT, 'ci', 'm'].join('\0'), '1,0,0,0,0,0,0')
  })
  await fleet.fold()
  const after = await fleet.onStore(async (store, client) => {
    const bytes = Number(await client.memory('USAGE', hash, 'SAMPLES', 0))
    return { fields: await client.hlen(hash), bytes, spent: (await store.figures(account)).organization.total.spent }
  })
  expect({ ...after, bytes: 0 }).toEqual({ fields: 200 + 1 + 2 * 24 + 1, bytes: 0, spent })
  // A record and four sums of 24 places, which had taken about 4,000 bytes.
  expect(after.bytes / 200).toBeLessThan(500)
  expect((await fleet.usage(account)).reduce(addUsage, noUsage)).toEqual(used.reduce(addUsage, noUsage))
})

interface Served {
  readonly day: number
  readonly key: string
  readonly model: string
  readonly cost: number
}

/** The costs by some of their columns. */
function costs(all: readonly Served[], nameOf: (one: Served) => string): Readonly<Record<string, number>> {
  const sums = new Map<string, number>()
  for (const one of all) sums.set(nameOf(one), (sums.get(nameOf(one)) ?? 0) + one.cost)
  return Object.fromEntries([...sums].sort())
}

/** A node that serves for three days, is cut off with settlements that Redis may lack, and comes back. */
class Absence {
  readonly served: Served[] = []
  readonly account = accountOf()
  private readonly here = directory()
  private snapshot = Buffer.alloc(0)

  constructor(
    private readonly server: RedisServer,
    readonly fleet: Fleet,
    private readonly random: Random,
  ) {}

  /** Serves some requests of random keys and models. */
  async serve(ledger: Ledger): Promise<void> {
    const running = await this.reserve(ledger)
    await Promise.all(running.map(({ reservation, charge }) => ledger.settle(reservation, charge)))
  }

  private reserve(ledger: Ledger): Promise<{ readonly reservation: Reservation; readonly charge: Charge }[]> {
    const reserved = Array.from({ length: 6 }, async () => {
      const [key, model, cost] = [this.random.pick(KEYS), this.random.pick(MODELS), 1 + this.random.below(1_000_000)]
      // One that is lost costs nothing: what a lost request was charged counts for its model.
      const hold = { ...holdOf(1_000_000), floorMicroUsd: 0 }
      const reservation = await ledger.reserve({ ...this.account, key }, hold)
      this.served.push({ day: dayOf(reservation.admittedMs), key, model, cost })
      return { reservation, charge: chargeOf(cost, model) }
    })
    return Promise.all(reserved)
  }

  /** Returns the id of the node that leaves. Redis takes some of its last settlements without an acknowledgement. */
  async leave(other: Ledger, takenCount: number): Promise<string> {
    const node = await this.fleet.node(this.here)
    for (let day = 0; day < 3; day++) {
      await this.serve(node.ledger)
      await this.serve(other)
      await until(() => node.ledger.health().pending === 0)
      if (day === 1) {
        await this.save()
        await this.serve(node.ledger)
        await until(() => node.ledger.health().pending === 0)
      }
      await this.fleet.leap(DAY_MS)
    }
    await this.serve(node.ledger)
    await until(() => node.ledger.health().pending === 0)
    const running = await this.reserve(node.ledger)
    node.cutOff()
    await Promise.all(running.map(({ reservation, charge }) => node.ledger.settle(reservation, charge)))
    await node.close()
    const taken = running.slice(0, takenCount)
    await this.fleet.onStore(async (store) => {
      const { epoch } = await store.enter(this.account.organization, { node: node.id, epoch: 0, legacyEpoch: 0 }, 0)
      const from = { node: node.id, epoch }
      await Promise.all(taken.map(({ reservation, charge }) => store.settle(reservation, charge, { from })))
    })
    const file = new Database(join(this.here, 'outbox.sqlite'))
    file.run('UPDATE outbox SET sent_ms = 1 WHERE state = 0')
    file.close()
    return node.id
  }

  async save(): Promise<void> {
    await this.fleet.onStore((_, client) => client.save())
    this.snapshot = readFileSync(join(this.server.directory, 'dump.rdb'))
  }

  async setBack(): Promise<void> {
    await this.server.kill()
    writeFileSync(join(this.server.directory, 'dump.rdb'), this.snapshot)
    await this.server.start()
    await this.fleet.leap(0)
  }

  async comeBack(): Promise<void> {
    const { ledger, close } = await this.fleet.node(this.here)
    await until(() => ledger.health().ready)
    await this.serve(ledger)
    await until(() => ledger.health().pending === 0)
    await close()
  }

  /** Budgets are what was served, and so is the usage by each of some columns. */
  async check(columns: readonly ((one: Served) => string)[]): Promise<void> {
    await this.fleet.leap(60_000)
    const spent = await this.fleet.onStore((store) =>
      Promise.all(KEYS.map(async (key) => (await store.figures({ ...this.account, key })).key.total.spent)),
    )
    expect(spent).toEqual(KEYS.map((key) => costs(this.served, (one) => one.key)[key] ?? 0))
    const used = (await this.fleet.usage(this.account)).map(({ day, key, series, costMicroUsd }) => {
      return { day, key, model: series.split('\t')[0] ?? '', cost: costMicroUsd }
    })
    for (const nameOf of columns) expect(costs(used, nameOf)).toEqual(costs(this.served, nameOf))
  }

  /** How many fields Redis has of a node. */
  async fieldsOf(node: string): Promise<number> {
    const fields = await this.fleet.onStore((_, client) => client.hkeys(redisKey(this.account.organization, 'nodes')))
    return fields.filter((field) => field.startsWith(node)).length
  }
}

const losses = {
  40: ['nothing', 'all data', 'data since the sum', 'the sum', 'half a day, before the sum'],
  500: ['a new epoch', 'half a day, before the sum', 'its reservations'],
}

for (const [days, some] of Object.entries(losses)) {
  for (const lost of some) {
    test(`back after ${days} days, with ${lost} lost`, async () => {
      await using server = await RedisServer.start()
      const fleet = await Fleet.start(server, open)
      // All days of the node are in one month, whichever day is today: days are summed by month.
      const today = new Date(fleet.now())
      await fleet.leap(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() + 1, 10, 12) - today.getTime())
      const absence = new Absence(server, fleet, new Random(randomSeed(`absent ${days} ${lost}`)))
      const { ledger: other } = await fleet.node(directory())
      const byDay = ({ day, key }: Served) => `${day} ${key}`
      const byModel = ({ key, model }: Served) => `${key} ${model}`
      // Days are summed by month after 400 days. A sum does not say of which model something was lost before it.
      const columns = [...(days === '40' ? [byDay] : []), ...(lost === 'half a day, before the sum' ? [] : [byModel])]
      const { organization } = absence.account
      const node = await absence.leave(other, lost === 'its reservations' ? 0 : 2)
      if (lost === 'half a day, before the sum') await absence.setBack()
      if (lost === 'its reservations') {
        for (const some of [1, 32]) {
          await fleet.leap(some * DAY_MS)
          await absence.serve(other)
        }
      }
      await fleet.leap(Number(days) * DAY_MS)
      await until(() => other.health().ready)
      await absence.serve(other)
      if (lost === 'the sum') await absence.save()
      await fleet.fold()
      expect(await absence.fieldsOf(node)).toBe(1)
      if (lost === 'data since the sum') await absence.save()
      await until(() => other.health().ready)
      await absence.serve(other)
      await until(() => other.health().pending === 0)
      if (lost === 'data since the sum' || lost === 'the sum') await absence.setBack()
      if (lost === 'a new epoch') await fleet.onStore((store) => beginEpoch(store, organization))
      if (lost === 'all data') await fleet.onStore((_, client) => client.flushall())
      await fleet.leap(0)
      await until(() => other.health().ready)
      await absence.serve(other)
      await absence.comeBack()
      await absence.serve(other)
      await until(() => other.health().pending === 0)
      await absence.check(columns)
      // Nothing of it comes again, also after it has left again.
      await fleet.leap(40 * DAY_MS)
      await fleet.fold()
      await fleet.onStore((store) => beginEpoch(store, organization))
      await absence.comeBack()
      await absence.serve(other)
      await until(() => other.health().pending === 0)
      await absence.check(columns)
      const surveyed = await fleet.onStore((_, client) => survey(client, [organization], node))
      expect(surveyed).toMatchObject([{ isWhole: true }])
    })
  }
}

/** Folds as if a number of days had passed; the nodes keep the real clock. */
async function foldAfter(server: RedisServer, days: number): Promise<void> {
  const client = server.client()
  const now = () => Date.now() + days * DAY_MS
  await foldUsage(client, new RedisStore(client, client, now, clockOf(days)), dayOf(now()))
  await beginEpoch(new RedisStore(client, client), (await client.smembers('weir:organizations'))[0] ?? '')
  client.disconnect()
}

for (const days of [40, 500]) {
  test(`a node of the earlier version is not summed up, and comes back after ${days} days`, async () => {
    await using server = await RedisServer.start()
    const { RedisLedger: Earlier }: { readonly RedisLedger: typeof RedisLedger } = await import(EARLIER)
    const [account, at] = [accountOf(), directory()]
    for (const expected of [200, 400]) {
      const ledger = await Earlier.open({ kind: 'single', url: server.socket }, at, 'refuse', { keepMs: 1e15 })
      await ledger.settle(await ledger.reserve(account, holdOf(200)), chargeOf(200))
      await ledger.close()
      await foldAfter(server, days)
      expect((await totals(server, account)).spent).toBe(expected)
    }
  })

  test(`a node that was summed up after ${days} days serves nothing under the earlier version`, async () => {
    await using server = await RedisServer.start()
    const { RedisLedger: Earlier }: { readonly RedisLedger: typeof RedisLedger } = await import(EARLIER)
    const [account, at] = [accountOf(), directory()]
    const opening = (Kind: typeof RedisLedger) =>
      Kind.open({ kind: 'single', url: server.socket }, at, 'refuse', { keepMs: 1e15 })
    const serve = async (ledger: Ledger) => ledger.settle(await ledger.reserve(account, holdOf(200)), chargeOf(200))
    const first = await opening(RedisLedger)
    await serve(first)
    await first.close()
    await foldAfter(server, days)
    const earlier = await opening(Earlier)
    expect(await failureOf(serve(earlier))).toMatch(/cannot be reached/)
    await earlier.close()
    expect(await totals(server, account)).toEqual({ spent: 200, held: 0, live: 0 })
    const upgraded = await opening(RedisLedger)
    await serve(upgraded)
    await upgraded.close()
    expect(await totals(server, account)).toEqual({ spent: 400, held: 0, live: 0 })
  })
}

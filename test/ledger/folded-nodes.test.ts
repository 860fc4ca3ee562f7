/**
 * Usage by node is folded into months after 400 days, in the node's own log and in Redis, at different times. The
 * comparison of the two must neither miss a loss nor restore anything twice.
 */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openUsageLog } from '../../src/assembly/open-ledger.ts'
import type { Account } from '../../src/ledger/ledger.ts'
import { foldUsage } from '../../src/ledger/redis/maintenance/usage-folding.ts'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { RedisLink } from '../../src/ledger/redis/redis-link.ts'
import { ORGANIZATIONS_KEY, redisKey, SEEN_KEY } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { noUsage } from '../../src/ledger/usage-figures.ts'
import { foldUsageRows, placeName, type UsageRow, usageRowOf } from '../../src/ledger/usage-log.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { opened } from './opened.ts'
import { Random, randomSeed } from './random.ts'
import { RedisServer } from './redis-server.ts'
import { logged, until } from './seen.ts'

const DAY_MS = 86_400_000
const { directory } = opened()

/** Redis' own clock, moved ahead by a number of days. */
function clockOf(days: number): string {
  return `local time = redis.call('TIME')\nlocal now = time[1] * 1000 + math.floor(time[2] / 1000) + ${days * DAY_MS}\n`
}

/** One served request, as the test recorded it. */
interface Served {
  readonly account: Account
  readonly model: string
  readonly admittedMs: number
  readonly cost: number
}

/** Two nodes and a Redis; the test moves their clocks ahead together. */
class Fleet {
  readonly served: Served[] = []
  readonly snapshots: Buffer[] = []
  private days = 0
  private readonly ledgers: RedisLedger[] = []
  private readonly homes = [0, 1].map(() => {
    const made = directory()
    return made
  })
  private readonly organization = accountOf().organization
  private readonly accounts = ['ci', 'dev'].map((key) => ({ ...accountOf({}, {}, this.organization), key }))

  constructor(
    private readonly server: RedisServer,
    private readonly random: Random,
    /** The second node's log does not fold by itself. */
    private readonly hasLateLog: boolean,
  ) {}

  now = (): number => Date.now() + this.days * DAY_MS

  async open(): Promise<void> {
    for (const home of this.homes) {
      const { now } = this
      const outbox = new Outbox(home, this.hasLateLog && home === this.homes[1] ? Date.now : now)
      // A busy machine delays replies, which these tests are not about.
      const link = new RedisLink({ kind: 'single', url: this.server.socket, timeoutMs: 60_000 }, outbox)
      const [admission, other] = [Reflect.get(link, 'admission'), Reflect.get(link, 'other')]
      Object.assign(link, { store: new RedisStore(admission, other, now, clockOf(this.days), link.epochs) })
      await link.start()
      const every = (ms: number, call: () => void) => {
        const timer = setInterval(call, ms)
        return () => clearInterval(timer)
      }
      this.ledgers.push(new RedisLedger(link, outbox, 'refuse', { now, every }))
    }
  }

  async close(): Promise<void> {
    for (const ledger of this.ledgers.splice(0)) await ledger.close()
  }

  /** Serves requests on both nodes until Redis has acknowledged each. */
  async serve(): Promise<void> {
    const one = async (ledger: RedisLedger): Promise<void> => {
      const [account, model] = [this.random.pick(this.accounts), this.random.pick(['m', 'n'])]
      const cost = 1 + this.random.below(1_000_000)
      const reservation = await Promise.resolve(ledger.reserve(account, holdOf(2_000_000))).catch(() => undefined)
      if (reservation === undefined) return
      this.served.push({ account, model, admittedMs: reservation.admittedMs, cost })
      await ledger.settle(reservation, chargeOf(cost, model))
    }
    await until(() => this.ledgers.every((ledger) => ledger.health().ready))
    await Promise.all(
      this.ledgers.flatMap((ledger) => Array.from({ length: 1 + this.random.below(3) }, () => one(ledger))),
    )
    await until(() => this.ledgers.every((ledger) => ledger.health().pending === 0))
  }

  /** Ages all acknowledged settlements, so that none is sent again for being recent. */
  growOld(): void {
    for (const home of this.homes) {
      const file = new Database(join(home, 'outbox.sqlite'))
      file.run('UPDATE outbox SET taken_ms = taken_ms - 3600000, sent_ms = sent_ms - 3600000')
      file.run('UPDATE request_batch SET ended_ms = ended_ms - 60000 WHERE ended_ms > ?', [this.now() - 60_000])
      file.close()
    }
  }

  async leap(days: number): Promise<void> {
    await this.close()
    this.days += days
    if (this.random.oneIn(4)) await this.lose()
    if (this.random.oneIn(4)) await this.foldRedis()
    await this.open()
  }

  /** Sets Redis back to an earlier time, or empties it. */
  async lose(): Promise<void> {
    if (this.random.oneIn(4)) {
      await this.withClient((client) => client.flushall())
      return
    }
    await this.server.kill()
    const latest = this.snapshots.slice(this.random.oneIn(2) ? -1 : 0)
    writeFileSync(join(this.server.directory, 'dump.rdb'), this.random.pick(latest))
    await this.server.start()
  }

  async save(): Promise<void> {
    await this.withClient((client) => client.save())
    this.snapshots.push(readFileSync(join(this.server.directory, 'dump.rdb')))
  }

  /** Folds as the maintenance of one worker does; half of the times it finds that the nodes were away for long. */
  async foldRedis(): Promise<void> {
    const areConnected = this.random.oneIn(2)
    await this.withClient(async (client) => {
      const today = dayOf(this.now())
      for (const node of await client.hkeys(SEEN_KEY)) await client.hset(SEEN_KEY, node, areConnected ? today : 0)
      const store = new RedisStore(client, client, this.now, clockOf(this.days))
      await foldUsage(client, store, today)
    })
  }

  /** Folds as the commits of a few minutes do. */
  foldLog(home: string): void {
    let ms = this.now()
    const outbox = new Outbox(home, () => ms)
    for (let i = 0; i < 100; i++) {
      ms += 501
      outbox.commit()
    }
    outbox.close()
  }

  /** Serves on some days of one month or two. */
  async live(): Promise<void> {
    for (let round = 0; round < 6; round++) {
      await this.serve()
      if (this.random.oneIn(2)) this.growOld()
      if (this.random.oneIn(2)) await this.save()
      if (this.random.oneIn(4)) await this.lose()
      await this.leap(this.random.pick([1, 1, 2, 9]))
    }
  }

  /** Folds at random, with losses before, between and after. */
  async age(): Promise<void> {
    for (let round = 0; round < 8; round++) {
      const kind = this.random.below(4)
      if (kind === 0) await Promise.all([this.foldRedis(), this.serve()])
      if (kind === 1) this.foldLog(this.random.pick(this.homes))
      if (kind === 2) await this.serve()
      if (this.random.oneIn(2)) await this.save()
      await this.serve()
      this.growOld()
      if (this.random.oneIn(2)) await this.lose()
    }
  }

  /** Budgets and usage equal what was served. The first seven letters of a date are its month. */
  async check(): Promise<void> {
    await this.serve()
    for (const home of this.homes) this.foldLog(home)
    await this.foldRedis()
    // Each new connection starts a comparison; requests on each node uncover the last loss.
    await this.serve()
    const all = sumOf(this.served)
    await this.withClient(async (client) => {
      const store = new RedisStore(client, client, this.now, clockOf(this.days))
      const spentOf = async (account: Account) => (await store.figures(account)).key
      const spent = await Promise.all(this.accounts.map(async (account) => (await spentOf(account)).total.spent))
      expect(spent).toEqual(this.accounts.map((account) => sumOf(this.of(account))))
      const [first] = this.accounts
      if (first === undefined) throw new Error('Expected two accounts.')
      const { organization } = await store.figures(first)
      const today = dateOf(this.now())
      const within = (length: number) =>
        sumOf(this.served.filter((one) => dateOf(one.admittedMs).slice(0, length) === today.slice(0, length)))
      const { day, month, total } = organization
      expect([day.spent, month.spent, total.spent, total.held]).toEqual([within(10), within(7), all, 0])
    })
    expect(await this.usageByMonth()).toEqual(Object.fromEntries([...this.byMonth(this.served)].sort()))
  }

  /** Counts rows of usage by day older than 431 days, in both logs and in Redis. */
  async oldDays(): Promise<number> {
    const limit = Math.floor(this.now() / DAY_MS) - 431
    const isOld = (day: number) => day < limit && new Date(day * DAY_MS).getUTCDate() !== 1
    const days = this.homes.flatMap((home) => {
      const file = new Database(join(home, 'outbox.sqlite'))
      const rows = file.query<{ day: number }, []>('SELECT day FROM usage').all()
      file.close()
      return rows.map(({ day }) => day)
    })
    const fields = await this.withClient((client) => client.hkeys(redisKey(this.organization, 'nodes')))
    return [...days, ...fields.map((field) => Number(field.split('\0')[1] ?? Number.NaN))].filter(isOld).length
  }

  private of(account: Account): readonly Served[] {
    return this.served.filter((one) => one.account === account)
  }

  private byMonth(served: readonly Served[]): ReadonlyMap<string, number> {
    const sums = new Map<string, number>()
    for (const { account, model, admittedMs, cost } of served) {
      const name = `${dateOf(admittedMs).slice(0, 7)} ${account.key} ${model}`
      sums.set(name, (sums.get(name) ?? 0) + cost)
    }
    return sums
  }

  private async usageByMonth(): Promise<Readonly<Record<string, number>>> {
    const redis = { kind: 'single', url: this.server.socket } as const
    const log = await openUsageLog({ ledger: { kind: 'redis', redis }, ledgerUnreachable: 'refuse', dataDir: '' })
    const rows = await log.read({ sinceDay: 0, untilDay: 1e6, organization: this.organization })
    await log.close()
    const served = rows.map(({ day, key, series, costMicroUsd }) => {
      const [model = ''] = series.split('\t')
      return { account: { ...accountOf(), key }, model, admittedMs: day * DAY_MS, cost: costMicroUsd }
    })
    return Object.fromEntries([...this.byMonth(served)].sort())
  }

  private async withClient<T>(call: (client: ReturnType<RedisServer['client']>) => Promise<T>): Promise<T> {
    const client = this.server.client()
    try {
      return await call(client)
    } finally {
      client.disconnect()
    }
  }
}

function dateOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

function sumOf(served: readonly Served[]): number {
  return served.reduce((sum, { cost }) => sum + cost, 0)
}

test('nothing is restored twice if a log folds while it reads the days from Redis', async () => {
  const home = directory()
  const account = accountOf()
  let ms = Date.UTC(2026, 5, 15)
  const outbox = new Outbox(home, () => ms)
  const figures = new Map<string, UsageRow>()
  for (const [i, admittedMs] of [Date.UTC(2024, 2, 3), Date.UTC(2024, 2, 20), ms].entries()) {
    const settlement = { id: `r-${i}`, account, admittedMs, charge: chargeOf(100 + i), heldMicroUsd: 100 }
    void logged(outbox, settlement, true)
    const row = usageRowOf(settlement)
    if (row !== undefined) figures.set(placeName(row), row)
  }
  for (let i = 0; i < 9; i++) {
    outbox.commit()
    ms += 501
  }
  expect(outbox.epochs.foldedBefore).toBeGreaterThan(0)
  const found = { figures, foldedBefore: 0, reservations: new Map(), isLegacy: false, sinceMs: 0 }
  expect(await outbox.enter(account.organization, 7, found, [])).toEqual([])
  expect(outbox.pendingCount()).toBe(0)
  outbox.close()
})

test('nothing is restored twice if Redis has folded days that a log still has', async () => {
  const home = directory()
  const account = accountOf()
  const days = [3, 20].map((day) => Date.UTC(2024, 2, day))
  const outbox = new Outbox(home, () => Date.UTC(2024, 2, 21))
  const rows = days.flatMap((admittedMs, i) => {
    const settlement = { id: `r-${i}`, account, admittedMs, charge: chargeOf(100 + i), heldMicroUsd: 100 }
    void logged(outbox, settlement, true)
    return usageRowOf(settlement) ?? []
  })
  outbox.commit()
  expect(outbox.epochs.foldedBefore).toBe(0)
  const foldedBefore = Date.UTC(2024, 3, 1) / DAY_MS
  const figures = foldUsageRows(rows, foldedBefore)
  expect([...figures.values()].map(({ day }) => day)).toEqual([Date.UTC(2024, 2, 1) / DAY_MS])
  const found = { figures, foldedBefore, reservations: new Map(), isLegacy: false, sinceMs: 0 }
  expect(await outbox.enter(account.organization, 7, found, [])).toEqual([])
  expect(outbox.pendingCount()).toBe(0)
  outbox.close()
})

test('Redis folds days of a node that is still connected into months, and knows up to which', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const store = new RedisStore(client, client)
  const { organization } = accountOf()
  const dayIn = (month: number, date: number) => Date.UTC(2024, month, date) / DAY_MS
  const [second, third, fourth] = [dayIn(1, 29), dayIn(2, 20), dayIn(3, 7)]
  const days = [dayIn(1, 1), dayIn(1, 2), second, dayIn(2, 3), third, fourth, dayIn(3, 30)]
  const rows = days.map((day, i) => {
    return { ...noUsage, organization, day, key: 'ci', series: 'm', requests: 1, costMicroUsd: 10 ** i }
  })
  const { epoch } = await store.enter(organization, { node: 'a', epoch: 0, legacyEpoch: 0 }, 0)
  for (const [i, row] of rows.entries()) await store.restore(epoch, 'a', { ...row, number: i + 1, last: rows.length })
  const folded = async () => {
    const { figures, foldedBefore } = await store.figuresOfNode('a', rows, 0)
    const fields = await client.hkeys(redisKey(organization, 'nodes'))
    const stored = fields.flatMap((field) => (field.startsWith('a\0') ? [Number(field.split('\0')[1])] : []))
    return { foldedBefore, figures, stored: stored.sort() }
  }
  const expected = (before: number, stored: readonly number[]) => {
    return { foldedBefore: before, figures: foldUsageRows(rows, before), stored: [...stored] }
  }
  expect(await folded()).toEqual(expected(0, days))
  // A log that has folded compares by month before Redis has folded.
  expect((await store.figuresOfNode('a', rows, dayIn(3, 1))).figures).toEqual(foldUsageRows(rows, dayIn(3, 1)))
  // The months in either order: the latest counts.
  for (const day of [third, second]) await store.foldOfNode(organization, { node: 'a', day, key: 'ci', series: 'm' })
  expect((await folded()).foldedBefore).toBe(dayIn(3, 1))
  await client.sadd(ORGANIZATIONS_KEY, organization)
  const today = dayOf(Date.now())
  await client.hset(SEEN_KEY, 'a', today)
  for (let times = 0; times < 2; times++) {
    await foldUsage(client, store, today)
    expect(await folded()).toEqual(expected(dayIn(4, 1), [dayIn(1, 1), dayIn(2, 1), dayIn(3, 1)]))
  }
})

test('law: folding and losses at any time leave exactly what was served', async () => {
  const random = new Random(randomSeed('folded nodes'))
  for (let i = 0; i < 2; i++) {
    await using server = await RedisServer.start()
    const fleet = new Fleet(server, random, i % 2 === 1)
    await fleet.open()
    await fleet.save()
    for (let era = 0; era < 2; era++) {
      await fleet.live()
      await fleet.leap(450)
      await fleet.age()
      await fleet.check()
    }
    await fleet.leap(500)
    await fleet.check()
    expect(await fleet.oldDays()).toBe(0)
    await fleet.close()
  }
})

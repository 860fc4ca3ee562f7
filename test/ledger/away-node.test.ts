/**
 * A node that is cut off from Redis while it serves, for longer than anything in the ledger is kept: what ended
 * meanwhile is charged once, whether Redis still has the lost reservations, a sum of them, or nothing.
 */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { openUsageLog } from '../../src/assembly/open-ledger.ts'
import type { Account, Estimate, Reservation } from '../../src/ledger/ledger.ts'
import { RedisLink } from '../../src/ledger/redis/client/redis-link.ts'
import { Outbox } from '../../src/ledger/redis/delivery/outbox.ts'
import { foldUsage } from '../../src/ledger/redis/maintenance/usage-folding.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { addUsage, noUsage } from '../../src/ledger/usage-figures.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { until } from './seen.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const { open, directory } = opened()

/** Nodes and a Redis with one clock, which the test moves. */
class Fleet {
  private aheadMs = 0

  private constructor(private readonly server: RedisServer) {}

  static async start(server: RedisServer): Promise<Fleet> {
    const fleet = new Fleet(server)
    await fleet.leap(0)
    return fleet
  }

  now = (): number => Date.now() + this.aheadMs

  async leap(ms: number): Promise<void> {
    this.aheadMs += ms
    const client = this.server.client()
    await client.set('weir:test:ahead', this.aheadMs)
    client.disconnect()
  }

  async node(at: string): Promise<{ readonly ledger: RedisLedger; cutOff(): void; close(): Promise<void> }> {
    const outbox = new Outbox(at, this.now)
    const link = new RedisLink({ kind: 'single', url: this.server.socket }, outbox)
    const [admission, other] = [Reflect.get(link, 'admission'), Reflect.get(link, 'other')]
    Object.assign(link, { store: new RedisStore(admission, other, this.now, CLOCK, link.epochs) })
    await link.start()
    const every = (ms: number, call: () => void) => {
      const timer = setInterval(call, ms)
      return () => clearInterval(timer)
    }
    const ledger = new RedisLedger(link, outbox, 'refuse', { now: this.now, every })
    const closing = { close: () => ledger.close() }
    open.push(closing)
    return {
      ledger,
      cutOff: () => Object.defineProperties(link, { isReady: { value: false }, isConnected: { value: false } }),
      close: async () => {
        open.splice(open.indexOf(closing), 1)
        await ledger.close()
      },
    }
  }

  /** What the budgets and the usage say; both must be the same. */
  async spent(account: Account): Promise<number> {
    const client = this.server.client()
    const { organization, key } = await new RedisStore(client, client, this.now, CLOCK).figures(account)
    client.disconnect()
    const log = await openUsageLog({
      ledger: { kind: 'redis', redis: { kind: 'single', url: this.server.socket } },
      ledgerUnreachable: 'refuse',
      dataDir: '',
    })
    const rows = await log.read({ sinceDay: 0, untilDay: 1e6, organization: account.organization })
    await log.close()
    const { spent } = organization.total
    expect({ ofKey: key.total.spent, used: rows.reduce(addUsage, noUsage).costMicroUsd }).toEqual({
      ofKey: spent,
      used: spent,
    })
    return spent
  }

  async fold(): Promise<void> {
    const client = this.server.client()
    await foldUsage(client, new RedisStore(client, client, this.now, CLOCK), dayOf(this.now()))
    client.disconnect()
  }
}

const CLOCK = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(redis.call('GET', 'weir:test:ahead'))\n`

function amounts(costMicroUsd: number): Estimate {
  return { inputTokens: 10, outputTokens: 0, costMicroUsd }
}

interface Case {
  readonly absenceMs: number
  readonly streams: number
  /** The settlements were sent before, and Redis never got them. */
  readonly wereSent?: boolean
  readonly folds?: boolean
}

const cases: readonly Case[] = [
  ...[50 / 60, 61 / 60, 25, 30 * 24, 32 * 24, 100 * 24].flatMap((hours) =>
    [false, true].map((wereSent) => ({ absenceMs: hours * HOUR_MS, streams: 20, wereSent })),
  ),
  { absenceMs: 500 * DAY_MS, streams: 20, folds: true },
  // More than are sent one by one: they are given back as sums.
  { absenceMs: 2 * HOUR_MS, streams: 1100, wereSent: true },
  { absenceMs: 40 * DAY_MS, streams: 1100, wereSent: true },
]

for (const { absenceMs, streams, wereSent = false, folds = false } of cases) {
  const sent = wereSent ? ', which it had sent in vain' : ''
  test(`away for ${(absenceMs / HOUR_MS).toFixed(1)} hours with ${streams} settlements${sent}`, async () => {
    await using server = await RedisServer.start()
    const fleet = await Fleet.start(server)
    const [here, there] = [directory(), directory()]
    const account = accountOf()
    const other = await fleet.node(there)
    const serve = async (cost: number) =>
      other.ledger.settle(await other.ledger.reserve(account, holdOf(cost)), chargeOf(cost))
    const away = await fleet.node(here)
    const running: Reservation[] = []
    while (running.length < streams) {
      const some = Array.from({ length: 20 }, () => away.ledger.reserve(account, holdOf(500)))
      running.push(...(await Promise.all(some)))
      await Promise.all(running.slice(-20).map((one) => away.ledger.extend(one, amounts(150), amounts(500))))
    }
    away.cutOff()
    await Promise.all(running.map((one, i) => away.ledger.settle(one, chargeOf(200 + i))))
    await away.close()
    await fleet.leap(31_000)
    await serve(7)
    expect(await fleet.spent(account)).toBe(7 + 150 * streams)
    await fleet.leap(absenceMs)
    await serve(11)
    if (folds) await fleet.fold()
    if (wereSent) {
      const file = new Database(join(here, 'outbox.sqlite'))
      file.run('UPDATE outbox SET sent_ms = 1')
      file.close()
    }
    const back = await fleet.node(here)
    await until(() => back.ledger.health().pending === 0)
    const whole = streams * 200 + (streams * (streams - 1)) / 2
    expect(await fleet.spent(account)).toBe(18 + whole)
    // And nothing of it comes again.
    await fleet.leap(33 * DAY_MS)
    await serve(5)
    expect(await fleet.spent(account)).toBe(23 + whole)
  }, 60_000)
}

test('what an earlier version would forget after an hour is kept as long', async () => {
  await using server = await RedisServer.start()
  const fleet = await Fleet.start(server)
  const account = accountOf()
  const { ledger } = await fleet.node(directory())
  const running = await ledger.reserve(account, holdOf(500))
  await ledger.extend(running, amounts(150), amounts(500))
  await fleet.leap(31_000)
  expect(await fleet.spent(account)).toBe(150)
  // A gateway of an earlier version that ends it sets this.
  const client = server.client()
  await client.zadd(redisKey(account.organization, 'deadlines'), fleet.now() + HOUR_MS, running.id)
  await fleet.leap(2 * HOUR_MS)
  expect(await fleet.spent(account)).toBe(150)
  await ledger.settle(running, chargeOf(170))
  expect(await fleet.spent(account)).toBe(170)
  const trail = await client.xrange(redisKey(account.organization, 'audit'), '-', '+')
  expect(trail.map(([, words]) => words[words.indexOf('kind') + 1])).toEqual(['lost', 'late'])
  client.disconnect()
})

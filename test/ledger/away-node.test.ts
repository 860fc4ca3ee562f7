/**
 * A node that is cut off from Redis while it serves, for longer than anything in the ledger is kept: what ended
 * meanwhile is charged once, whether Redis still has the lost reservations, a sum of them, or nothing.
 */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import type { Estimate, Reservation } from '../../src/ledger/ledger.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { Fleet } from './moved-clock.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { until } from './seen.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const { open, directory } = opened()

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
    const fleet = await Fleet.start(server, open)
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
  })
}

test('what an earlier version would forget after an hour is kept as long', async () => {
  await using server = await RedisServer.start()
  const fleet = await Fleet.start(server, open)
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
})

/** The sweep over all organisations: what it costs if all are in order, and what it finds if not. */

import { expect, test } from 'bun:test'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { Outbox } from '../../src/ledger/redis/outbox/outbox.ts'
import { OUTBOX_FILE } from '../../src/ledger/redis/outbox/outbox-schema.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { RedisLink } from '../../src/ledger/redis/redis-link.ts'
import { OVERDUE_TURN_KEY, redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { accountOf, chargeOf, holdOf, spend } from './conformance.ts'
import { opened } from './opened.ts'
import { RedisServer } from './redis-server.ts'
import { totals, until } from './seen.ts'

const ORGANIZATIONS = 300
const SWEEP_MS = 30_000
const { directory } = opened()

/** A ledger whose timers the test runs. */
async function setting(server: RedisServer, isKeeper = true) {
  const at = directory()
  // All organisations are served at once: on a busy machine Redis may need longer than 250 ms for that.
  const link = new RedisLink({ kind: 'single', url: server.socket, timeoutMs: 10_000 })
  await link.start()
  const beats = new Map<number, () => unknown>()
  const time = {
    now: Date.now,
    every: (ms: number, call: () => unknown) => {
      beats.set(ms, call)
      return () => void beats.delete(ms)
    },
  }
  const ledger = new RedisLedger(link, new Outbox(at), 'refuse', time, isKeeper)
  return { ledger, beats, outbox: join(at, OUTBOX_FILE) }
}

/** Counts the scripts and other commands that Redis has run. */
async function commands(client: Redis): Promise<number> {
  return Number(/total_commands_processed:(\d+)/.exec(await client.info('stats'))?.[1])
}

const accounts = Array.from({ length: ORGANIZATIONS }, (_, i) => accountOf(spend({ total: 1e9 }), {}, `many-${i}`))

async function serveAll(ledger: RedisLedger): Promise<void> {
  await Promise.all(
    accounts.map(async (account) => ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(70))),
  )
  await until(() => ledger.health().pending === 0)
}

test('all in order: one call for a hundred organisations, and no writes', async () => {
  await using server = await RedisServer.start()
  const { ledger, beats, outbox } = await setting(server)
  await serveAll(ledger)
  const client = server.client()
  // All pending rows are written.
  await until(async () => {
    const { mtimeMs } = statSync(`${outbox}-wal`)
    await Bun.sleep(100)
    return statSync(`${outbox}-wal`).mtimeMs === mtimeMs
  })
  const file = statSync(`${outbox}-wal`).mtimeMs
  const sweep = async () => {
    const before = await commands(client)
    await beats.get(SWEEP_MS)?.()
    return (await commands(client)) - before
  }
  // A script's own commands count, too: three for each organisation whose requests ended a short time ago.
  expect(await sweep()).toBeLessThan(3.1 * ORGANIZATIONS + 20)
  const calls = /cmdstat_evalsha:calls=(\d+)/
  const scripts = async () => Number(calls.exec(await client.info('commandstats'))?.[1])
  const ran = await scripts()
  // Another node has just looked for what is overdue.
  await client.set(OVERDUE_TURN_KEY, '1')
  await sweep()
  expect((await scripts()) - ran).toBe(ORGANIZATIONS / 100)
  // What nobody uses is compared in turns, all of it within twenty sweeps.
  for (let i = 0; i < 2; i++) await sweep()
  let sum = 0
  for (let i = 0; i < 20; i++) {
    const count = await sweep()
    expect(count).toBeLessThan(2 * (ORGANIZATIONS / 5))
    sum += count
  }
  expect(sum).toBeWithin(2 * ORGANIZATIONS, 2 * ORGANIZATIONS + 80)
  // The timer that fires every 250 ms writes nothing either.
  for (let i = 0; i < 10; i++) await beats.get(250)?.()
  await Bun.sleep(50)
  expect(statSync(`${outbox}-wal`).mtimeMs).toBe(file)
  await ledger.close()
})

test('overdue reservations are ended and lost data restored, whatever is wrong with other organisations', async () => {
  await using server = await RedisServer.start()
  const { ledger, beats } = await setting(server)
  await serveAll(ledger)
  const client = server.client()
  const [foreign, lost, set, overdue, counted] = accounts
  if (!foreign || !lost || !set || !overdue || !counted) throw new Error()
  await client.set(redisKey(foreign.organization, 'scopes'), 'not ours')
  const before = await client.dumpBuffer(redisKey(set.organization, 'scopes'))
  const nodes = await client.dumpBuffer(redisKey(set.organization, 'nodes'))
  await ledger.settle(await ledger.reserve(set, holdOf(100)), chargeOf(30))
  await until(() => ledger.health().pending === 0)
  await client.restore(redisKey(set.organization, 'scopes'), 0, before, 'REPLACE')
  await client.restore(redisKey(set.organization, 'nodes'), 0, nodes, 'REPLACE')
  for (const key of await client.keys(`${redisKey(lost.organization, '')}*`)) await client.del(key)
  const running = await ledger.reserve(overdue, holdOf(100))
  await client.zadd(redisKey(overdue.organization, 'deadlines'), 1, running.id)
  await client.zadd(redisKey(counted.organization, 'ends'), 1, 'hold')
  await beats.get(SWEEP_MS)?.()
  await until(async () => (await totals(server, lost)).spent === 70)
  await until(async () => (await totals(server, set)).spent === 100)
  expect(await client.zscore(redisKey(overdue.organization, 'deadlines'), running.id)).not.toBe('1')
  // What is overdue in counters alone.
  await until(async () => (await client.exists(redisKey(counted.organization, 'ends'))) === 0)
  expect(await client.get(redisKey(foreign.organization, 'scopes'))).toBe('not ours')
  await ledger.close()
})

test('only one process of a machine runs the sweep', async () => {
  await using server = await RedisServer.start()
  const { ledger, beats } = await setting(server, false)
  expect(beats.has(SWEEP_MS)).toBe(false)
  await ledger.close()
})

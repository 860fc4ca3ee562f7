/** The ledger in a Redis Cluster of three masters, and behind a Sentinel: real processes on ports that the system gave. */

import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { Failure } from '../../src/core/error.ts'
import type { RedisPlace } from '../../src/ledger/redis/connect.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { type LedgerPlace, openLedger, openStandings, openUsageLog } from '../../src/process/ledger.ts'
import { accountOf, holdOf, settlementOf, spend } from './conformance.ts'
import { REDIS } from './programs.ts'

const directories: string[] = []
const processes: Bun.Subprocess[] = []

afterEach(async () => {
  for (const child of processes.splice(0)) {
    child.kill('SIGKILL')
    await child.exited
  }
  for (const one of directories.splice(0)) rmSync(one, { recursive: true, force: true })
})

function directory(): string {
  const made = mkdtempSync(join(tmpdir(), 'weir-ledger-redis-'))
  directories.push(made)
  return made
}

function freePort(): number {
  const listener = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data: () => undefined } })
  const { port } = listener
  listener.stop(true)
  return port
}

async function node(...settings: readonly string[]): Promise<{ readonly port: number; readonly client: Redis }> {
  const port = freePort()
  const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory(), '--save', '']
  processes.push(Bun.spawn([REDIS, ...place, ...settings], { stdout: 'ignore', stderr: 'ignore' }))
  const client = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: null })
  client.on('error', () => undefined)
  await client.ping()
  return { port, client }
}

/** What any ledger must do, over several organisations, so that every node of a cluster has its part. */
async function exercise(redis: RedisPlace): Promise<void> {
  const place: LedgerPlace = { ledger: { kind: 'redis', redis }, ledgerUnreachable: 'refuse', dataDir: directory() }
  const ledger = await openLedger(place)
  const accounts = Array.from({ length: 12 }, () => accountOf(spend({ total: 1000 })))
  for (const account of accounts) {
    const reservation = await ledger.reserve(account, holdOf(600))
    expect(await ledger.reserve(account, holdOf(600)).catch((error) => error instanceof Failure && error.failure)).toBe(
      'quota_exhausted',
    )
    expect(await ledger.extend(reservation, reservation.held, { ...reservation.held, costMicroUsd: 1000 })).toBe(true)
    expect(await ledger.settle(reservation, settlementOf(700))).toBe('settled')
  }
  expect(ledger.health().ready).toBe(true)
  const [standings, usage] = [await openStandings(place), await openUsageLog(place)]
  for (const account of accounts)
    expect((await standings.read(account)).organization.total).toMatchObject({ spent: 700, held: 0 })
  const today = dayOf(Date.now())
  const rows = await usage.read({ sinceDay: today, untilDay: today + 1 })
  expect(rows.reduce((sum, { costMicroUsd }) => sum + costMicroUsd, 0)).toBe(700 * accounts.length)
  await Promise.all([standings.close(), usage.close(), ledger.close()])
}

test('a cluster of three masters', async () => {
  const nodes = await Promise.all([0, 1, 2].map(() => node('--cluster-enabled', 'yes')))
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
  await exercise({ kind: 'cluster', nodes: nodes.map(({ port }) => `redis://127.0.0.1:${port}`) })
  for (const { client } of nodes) {
    // Each master holds some of the organisations.
    expect(await client.dbsize()).toBeGreaterThan(0)
    client.disconnect()
  }
}, 30_000)

test('a master behind a sentinel', async () => {
  const master = await node()
  const port = freePort()
  const file = join(directory(), 'sentinel.conf')
  writeFileSync(file, `port ${port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 ${master.port} 1\n`)
  processes.push(Bun.spawn([REDIS, file, '--sentinel'], { stdout: 'ignore', stderr: 'ignore' }))
  const probe = new Redis(port, { retryStrategy: () => 20, maxRetriesPerRequest: null })
  probe.on('error', () => undefined)
  await probe.ping()
  await exercise({ kind: 'sentinel', sentinels: [`redis://127.0.0.1:${port}`], name: 'mymaster' })
  probe.disconnect()
  master.client.disconnect()
}, 30_000)

/** The ledger in Redis where the way to it, its role or its rights change: a black hole, a demoted master, a long script, a user with few rights. */

import { afterEach, expect, setDefaultTimeout, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Failure } from '../../src/core/error.ts'
import type { Ledger } from '../../src/ledger/ledger.ts'
import type { RedisPlace } from '../../src/ledger/redis/connect.ts'
import { RedisShelf } from '../../src/ledger/redis/shelf.ts'
import {
  type LedgerPlace,
  openAuditLog,
  openKeyStore,
  openLedger,
  openStandings,
  openUsageLog,
} from '../../src/process/ledger.ts'
import { accountOf, holdOf, settlementOf, spend } from './conformance.ts'
import { RedisServer } from './redis-server.ts'

setDefaultTimeout(30_000)

const directories: string[] = []
const open: { close(): Promise<void> | void }[] = []

afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
  for (const one of directories.splice(0)) rmSync(one, { recursive: true, force: true })
})

function placeOf(url: string): LedgerPlace {
  const dataDir = mkdtempSync(join(tmpdir(), 'weir-ledger-'))
  directories.push(dataDir)
  const redis: RedisPlace = { kind: 'single', url }
  return { ledger: { kind: 'redis', redis }, ledgerUnreachable: 'refuse', dataDir }
}

async function ledgerAt(url: string): Promise<Ledger> {
  const ledger = await openLedger(placeOf(url))
  open.push(ledger)
  return ledger
}

/** What becomes of one request of an organisation of its own. */
async function attempt(ledger: Ledger): Promise<string> {
  try {
    const reservation = await ledger.reserve(accountOf(spend({ total: 1000 })), holdOf(100))
    return await ledger.settle(reservation, settlementOf(70))
  } catch (error) {
    return error instanceof Failure ? error.failure : String(error)
  }
}

async function until(what: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await what())) await Bun.sleep(10)
}

test('a black hole on the way: refused within a moment, and served over a new connection once there is a way again', async () => {
  await using server = await RedisServer.start()
  // A connection that fell in never comes out; those that are made later go through again.
  let isHole = false
  const lost = new WeakSet<net.Socket>()
  const through = new Set<net.Socket>()
  const hole = net.createServer((socket) => {
    const onward = net.connect(server.socket)
    if (isHole) lost.add(socket)
    through.add(socket)
    socket.on('data', (data) => lost.has(socket) || onward.write(data))
    onward.on('data', (data) => lost.has(socket) || socket.write(data))
    for (const [one, other] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      one.on('error', () => undefined)
      one.on('close', () => other.destroy())
    }
  })
  await new Promise<void>((resolve) => hole.listen(0, '127.0.0.1', resolve))
  const address = hole.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const ledger = await ledgerAt(`redis://127.0.0.1:${port}/0`)
  expect(await attempt(ledger)).toBe('settled')
  isHole = true
  for (const socket of through) lost.add(socket)
  const outcomes = new Set<string>()
  for (let i = 0; i < 20; i++) outcomes.add(await attempt(ledger))
  expect([...outcomes]).toEqual(['ledger_unavailable'])
  expect(ledger.health().ready).toBe(false)
  isHole = false
  await until(() => ledger.health().ready)
  expect(await attempt(ledger)).toBe('settled')
  await ledger.close()
  open.length = 0
  hole.close()
})

test('a master that becomes a replica refuses, and serves once it is a master again', async () => {
  await using server = await RedisServer.start()
  const ledger = await ledgerAt(server.socket)
  const client = server.client()
  expect(await attempt(ledger)).toBe('settled')
  // Of nobody: what matters is that it takes no writes.
  await client.replicaof('127.0.0.1', 1)
  expect(await attempt(ledger)).toBe('ledger_unavailable')
  await client.replicaof('NO', 'ONE')
  await until(async () => (await attempt(ledger)) === 'settled')
  client.disconnect()
})

test('a script of somebody that runs for a moment is waited for', async () => {
  await using server = await RedisServer.start('--busy-reply-threshold', '10')
  const ledger = await ledgerAt(server.socket)
  expect(await attempt(ledger)).toBe('settled')
  const client = server.client()
  const script = `
    local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
    local till = now() + 120
    repeat until now() > till`
  const busy = client.eval(script, 0)
  expect(await attempt(ledger)).toBe('settled')
  await busy
  client.disconnect()
})

test('a user with the rights that the README lists, and no others, is enough for all that weir does', async () => {
  const readme = readFileSync(join(import.meta.dir, '../../README.md'), 'utf8')
  const line = /^ACL SETUSER weir on >PASSWORD (.+)$/m.exec(readme)?.[1]
  if (line === undefined) throw new Error('The README lists no rights.')
  await using server = await RedisServer.start()
  const client = server.client()
  await client.call('ACL', 'SETUSER', 'weir', 'on', '>secret', ...line.split(' '))
  await client.call('ACL', 'SETUSER', 'default', 'off')
  const place = placeOf(`redis://weir:secret@127.0.0.1:${await tcpPort(server)}/0`)
  const ledger = await openLedger(place)
  const account = accountOf(spend({ total: 1000 }))
  const reservation = await ledger.reserve(account, holdOf(600))
  expect(await ledger.extend(reservation, reservation.held, { ...reservation.held, costMicroUsd: 900 })).toBe(true)
  expect(await ledger.settle(reservation, settlementOf(700))).toBe('settled')
  await client.script('FLUSH')
  expect(await ledger.settle(await ledger.reserve(account, holdOf(100)), settlementOf(70))).toBe('settled')
  await ledger.close()
  const [standings, usage, audit, keys] = await Promise.all([
    openStandings(place),
    openUsageLog(place),
    openAuditLog(place),
    openKeyStore(place),
  ])
  open.push(standings, usage, audit, keys)
  expect((await standings.read(account)).organization.total).toMatchObject({ spent: 770, held: 0 })
  expect((await usage.read({ sinceDay: 0, untilDay: 1e6 })).length).toBeGreaterThan(0)
  const costs: number[] = []
  for await (const rows of audit.read({ sinceMs: 0, untilMs: Number.MAX_SAFE_INTEGER }))
    costs.push(...rows.map((row) => row.costMicroUsd))
  expect(costs).toEqual([700, 70])
  const record = { id: 'a', organization: account.organization, sha256: '0'.repeat(64), shown: 'gwk_a', createdMs: 1 }
  expect(await keys.create(record)).toBe(true)
  expect([(await keys.list()).length, await keys.revoke('a', 2)]).toEqual([1, 'revoked'])
  if (place.ledger.kind !== 'redis') throw new Error('It is in Redis.')
  const shelf = new RedisShelf(place.ledger.redis, 60)
  open.push(shelf)
  await until(async () => {
    shelf.put('item', Buffer.from('said'))
    const found = await shelf.get('item').catch(() => undefined)
    return found?.toString() === 'said'
  })
  client.disconnect()
})

/** Opens a port, too: a user name cannot stand in the path of a socket. */
async function tcpPort(server: RedisServer): Promise<number> {
  const listener = net.createServer((socket) => {
    const onward = net.connect(server.socket)
    socket.pipe(onward).pipe(socket)
    for (const one of [socket, onward]) one.on('error', () => undefined)
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  open.unshift({ close: () => void listener.close() })
  const address = listener.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** Finding one request by its id: the creation time in the id limits what is read. */

import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { newRequestId, requestTimeMs } from '../../src/core/request-id.ts'
import { type EndKind, settledRow } from '../../src/ledger/audit-columns.ts'
import { EmbeddedAuditLog } from '../../src/ledger/embedded/sqlite-readers.ts'
import { LEDGER_FILE, LEDGER_SCHEMA } from '../../src/ledger/embedded/state-tables.ts'
import { openReader, RedisAuditLog } from '../../src/ledger/redis/readers/redis-readers.ts'
import { ORGANIZATIONS_KEY, redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { LogWriter, RowBatch } from '../../src/ledger/request-writer.ts'
import { openDatabase } from '../../src/sqlite/database.ts'
import { directories } from '../support/directories.ts'
import { chargeOf } from './conformance.ts'
import { RedisServer } from './redis-server.ts'

const HOUR_MS = 3_600_000
const START_MS = Date.UTC(2026, 9, 1)
const newDirectory = directories()

/** An id as `newRequestId` makes it, created at another time. */
function idAt(ms: number): string {
  return `req_${ms.toString(16).padStart(12, '0')}${newRequestId().slice(16)}`
}

interface Ended {
  readonly id: string
  readonly endedMs: number
  readonly kind?: EndKind
}

/** A ledger file of `commits` commits of 50 requests each, one commit a second, then the requests in `more`. */
function logOf(commits: number, more: readonly Ended[] = []): string {
  const directory = newDirectory()
  const database = openDatabase(join(directory, LEDGER_FILE), LEDGER_SCHEMA)
  const writer = new LogWriter(database, 1e15)
  const account = { organization: 'acme', key: 'ci' }
  const write = (ended: readonly Ended[]) => {
    const batch = new RowBatch()
    for (const { id, endedMs, kind = 'settled' } of ended) {
      batch.add(settledRow({ id, ...account, admittedMs: endedMs, endedMs, kind }, chargeOf(5), 5))
    }
    const { rows, endedMs } = batch.read()
    writer.rows(rows, endedMs)
  }
  database.transaction(() => {
    for (let i = 0; i < commits; i++) {
      const endedMs = START_MS + i * 1000
      write(Array.from({ length: 50 }, () => ({ id: idAt(endedMs), endedMs })))
    }
    for (const one of more) write([one])
  })()
  database.close()
  return directory
}

async function find(directory: string, id: string): Promise<readonly (readonly [string, EndKind])[]> {
  const found: (readonly [string, EndKind])[] = []
  for await (const rows of new EmbeddedAuditLog(directory).read({ sinceMs: 0, untilMs: 1e15, id })) {
    found.push(...rows.map((row) => [row.id, row.kind] as const))
  }
  return found
}

test('an id contains its creation time', () => {
  const before = Date.now()
  const ids = Array.from({ length: 1000 }, newRequestId)
  expect(new Set(ids).size).toBe(1000)
  for (const id of ids) {
    expect(id).toMatch(/^req_[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/)
    expect(requestTimeMs(id)).toBeWithin(before, Date.now() + 1)
  }
  expect(requestTimeMs(idAt(START_MS))).toBe(START_MS)
  for (const other of ['req_1', `req_${'0'.repeat(32)}`, crypto.randomUUID(), '']) {
    expect(requestTimeMs(other)).toBeUndefined()
  }
})

describe('one request', () => {
  const middle = START_MS + 100_000

  test.each([
    ['that ended at once', middle, middle + 5],
    ['by a gateway whose clock is ahead', middle + 300_000, middle],
    ['by a gateway whose clock is slow', middle - 300_000, middle],
    ['that took a day', middle, middle + 24 * HOUR_MS],
  ])('%s', async (_, made, endedMs) => {
    const id = idAt(made)
    expect(await find(logOf(200, [{ id, endedMs }]), id)).toEqual([[id, 'settled']])
  })

  test('that was lost and settled late is reported as settled late; one that stayed lost, as lost', async () => {
    const [late, lost] = [idAt(middle), idAt(middle)]
    const directory = logOf(200, [
      { id: late, endedMs: middle + 30_000, kind: 'lost' },
      { id: lost, endedMs: middle + 30_000, kind: 'lost' },
      { id: late, endedMs: middle + HOUR_MS, kind: 'late' },
    ])
    expect(await find(directory, late)).toEqual([[late, 'late']])
    expect(await find(directory, lost)).toEqual([[lost, 'lost']])
  })

  test('whose id contains no time, and ids that do not exist', async () => {
    const directory = logOf(200, [{ id: 'old-1', endedMs: middle }])
    expect(await find(directory, 'old-1')).toEqual([['old-1', 'settled']])
    expect(await find(directory, 'old-2')).toEqual([])
    expect(await find(directory, idAt(middle))).toEqual([])
  })

  test('out of fifty times as many costs much less than fifty times as much', async () => {
    const costOf = async (commits: number) => {
      const id = idAt(START_MS + 10_500)
      const directory = logOf(commits, [{ id, endedMs: START_MS + 10_600 }])
      await find(directory, id)
      const before = process.cpuUsage()
      for (let i = 0; i < 5; i++) expect(await find(directory, id)).toHaveLength(1)
      const { user, system } = process.cpuUsage(before)
      return user + system
    }
    expect(await costOf(5000)).toBeLessThan(5 * (await costOf(100)) + 50_000)
  })
})

test('one request in Redis is found in any stream, its latest entry counts, and little else is read', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const middle = START_MS + 100_000
  const [one, late] = [idAt(middle), idAt(middle)]
  const put = async (organization: string, ms: number, id: string, kind: string) => {
    await client.sadd(ORGANIZATIONS_KEY, organization)
    const fields = ['id', id, 'kind', kind, 'key', 'ci', 'cost', 5, 'admitted', middle]
    await client.xadd(redisKey(organization, 'audit'), `${ms}-*`, ...fields)
  }
  for (let i = 0; i < 200; i++) {
    for (const organization of ['a', 'b', 'c'])
      await put(organization, START_MS + i * HOUR_MS, idAt(START_MS), 'settled')
  }
  await put('b', START_MS + 200 * HOUR_MS, 'old-1', 'settled')
  client.disconnect()
  const other = server.client()
  await other.xadd(redisKey('d', 'audit'), `${middle + 500}-*`, 'id', one, 'kind', 'settled', 'key', 'ci')
  await other.xadd(redisKey('d', 'audit'), `${middle + 900}-*`, 'id', late, 'kind', 'lost', 'key', 'ci')
  await other.xadd(redisKey('d', 'audit'), `${middle + HOUR_MS}-*`, 'id', late, 'kind', 'late', 'key', 'ci')
  await other.sadd(ORGANIZATIONS_KEY, 'd')
  const log = await openReader(RedisAuditLog, { kind: 'single', url: server.socket })
  const findIn = async (id: string) => {
    const found: string[] = []
    for await (const rows of log.read({ sinceMs: 0, untilMs: 1e15, id })) {
      found.push(...rows.map(({ organization, kind }) => `${organization} ${kind}`))
    }
    return found
  }
  expect(await findIn(one)).toEqual(['d settled'])
  expect(await findIn(late)).toEqual(['d late'])
  expect(await findIn('old-1')).toEqual(['b settled'])
  expect(await findIn(idAt(middle))).toEqual([])
  await log.close()
})

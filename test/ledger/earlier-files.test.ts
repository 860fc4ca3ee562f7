/**
 * Files and Redis data exactly as an earlier version of weir wrote them: this version reads the same figures from them,
 * and a gateway continues with them. Never regenerate the files of `fixtures/ledger/earlier` and `earlier-journal`.
 */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import type { Redis } from 'ioredis'
import { openSqliteKeyStore } from '../../src/keys/sqlite-key-store.ts'
import type { AuditLog } from '../../src/ledger/audit-log.ts'
import { EmbeddedLedger } from '../../src/ledger/embedded/embedded-ledger.ts'
import {
  EmbeddedAccountUsageReader,
  EmbeddedAuditLog,
  EmbeddedUsageLog,
} from '../../src/ledger/embedded/sqlite-readers.ts'
import { openReader, RedisAuditLog, RedisUsageLog } from '../../src/ledger/redis/readers/redis-readers.ts'
import { RedisLedger } from '../../src/ledger/redis/redis-ledger.ts'
import { groupUsage, type UsageLog } from '../../src/ledger/usage-log.ts'
import { dayOf } from '../../src/ledger/window.ts'
import { directories } from '../support/directories.ts'
import { accountOf, chargeOf, holdOf } from './conformance.ts'
import { REDIS, VALKEY } from './programs.ts'
import { RedisServer } from './redis-server.ts'
import { totals, until } from './seen.ts'

const FIXTURES = join(import.meta.dir, '../fixtures/ledger/earlier')
const JOURNAL_FIXTURES = join(import.meta.dir, '../fixtures/ledger/earlier-journal')
const KEEP_MS = 1e15
const ALL = { sinceMs: 0, untilMs: 1e14, sinceDay: 0, untilDay: 1e6 }
const account = accountOf({}, {}, 'acme')
const newDirectory = directories()

function filesOf(...names: readonly string[]): string {
  const directory = newDirectory()
  for (const name of names) cpSync(join(FIXTURES, name), join(directory, name))
  return directory
}

async function expected(): Promise<
  Record<'embedded' | 'redis', { readonly audit: object[]; readonly usage: object[] }>
> {
  return await Bun.file(join(FIXTURES, 'expected.json')).json()
}

async function readAll(
  audit: AuditLog,
  usage: UsageLog,
): Promise<{ readonly audit: object[]; readonly usage: object[] }> {
  const rows: object[] = []
  for await (const page of audit.read(ALL)) rows.push(...page)
  const groups = groupUsage(await usage.read(ALL), ['day', 'organization', 'key', 'model'])
  const sums = groups.map(({ names: [day = '', organization, key, model], figures }) => {
    return { day: dayOf(Date.parse(day)), organization, key, model, ...figures }
  })
  await Promise.all([audit.close(), usage.close()])
  return { audit: rows, usage: sums.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1)) }
}

interface StoredKey {
  readonly name: string
  readonly type: 'hash' | 'set' | 'stream' | 'string' | 'zset'
  readonly values: readonly (Text | readonly Text[])[]
}

type Text = string | { readonly base64: string }

function bytesOf(text: Text): string | Buffer {
  return typeof text === 'string' ? text : Buffer.from(text.base64, 'base64')
}

async function fill(client: Redis): Promise<void> {
  const keys: readonly StoredKey[] = await Bun.file(join(FIXTURES, 'redis.json')).json()
  for (const { name, type, values } of keys) {
    for (const value of values) {
      const [first = '', ...rest] = (typeof value === 'object' && Symbol.iterator in value ? value : [value]).map(
        bytesOf,
      )
      if (type === 'hash') await client.hset(name, first, ...rest)
      else if (type === 'zset') await client.zadd(name, Number(rest[0]), first)
      else if (type === 'stream') await client.xadd(name, String(first), ...rest)
      else if (type === 'set') await client.sadd(name, first)
      else await client.set(name, first)
    }
  }
}

test('the file of an embedded ledger is read and continued', async () => {
  const at = filesOf('ledger.sqlite')
  const { embedded } = await expected()
  expect(await readAll(new EmbeddedAuditLog(at), new EmbeddedUsageLog(at))).toMatchObject(embedded)
  const spent = async () => {
    const { total, day } = (await new EmbeddedAccountUsageReader(at).read(account)).organization
    return { spent: total.spent, held: total.held, day: day.spent > 0 }
  }
  const ledger = EmbeddedLedger.open(at, { keepMs: KEEP_MS })
  // The live reservation had posted 80 of 400.
  await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(7))
  await ledger.close()
  expect(await spent()).toEqual({ spent: 40_475 + 80 + 7, held: 0, day: true })
  const { audit, usage } = await readAll(new EmbeddedAuditLog(at), new EmbeddedUsageLog(at))
  expect(audit.slice(0, embedded.audit.length)).toMatchObject(embedded.audit)
  expect(audit.slice(embedded.audit.length)).toMatchObject([
    { id: 'elive', kind: 'lost', costMicroUsd: 80, estimated: true },
    { kind: 'settled', costMicroUsd: 7, provider: 'p' },
  ])
  expect(usage).toContainEqual(expect.objectContaining({ key: 'ci', model: 'small', requests: 4, costMicroUsd: 485 }))
})

test('the journal of a gateway that was killed is read and continued', async () => {
  const at = filesOf()
  for (const name of ['ledger.sqlite', 'ledger.journal']) cpSync(join(JOURNAL_FIXTURES, name), join(at, name))
  const rows = [
    { id: 'jone', kind: 'settled', costMicroUsd: 120, tags: 'team=a', remote: '', node: '' },
    { id: 'jtwo', kind: 'settled', costMicroUsd: 250, overageMicroUsd: 50, tags: '', remote: '' },
  ]
  const before = await readAll(new EmbeddedAuditLog(at), new EmbeddedUsageLog(at))
  expect(before.audit).toMatchObject(rows)
  const ledger = EmbeddedLedger.open(at, { keepMs: KEEP_MS })
  await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(7))
  await ledger.close()
  // The live reservation had posted 80 of 400; the gateway that held it is gone for longer than its lease.
  const { total } = (await new EmbeddedAccountUsageReader(at).read(account)).organization
  expect(total).toMatchObject({ spent: 120 + 250 + 80 + 7, held: 0 })
  const { audit } = await readAll(new EmbeddedAuditLog(at), new EmbeddedUsageLog(at))
  expect(audit).toMatchObject([
    ...rows,
    { id: 'jlive', kind: 'lost', costMicroUsd: 80, estimated: true },
    { kind: 'settled', costMicroUsd: 7 },
  ])
})

test('a file to which a later version added columns is read and written as before', async () => {
  const at = filesOf('ledger.sqlite')
  const file = new Database(join(at, 'ledger.sqlite'), { strict: true })
  file.run('ALTER TABLE usage ADD COLUMN reasoning_tokens INTEGER NOT NULL DEFAULT 0')
  file.run('DROP VIEW request')
  file.run(`CREATE VIEW request AS SELECT 1 AS reasoning_tokens, batch.number AS batch,
    batch.ended_ms AS batch_ended_ms,
    row.key AS place, row.value ->> 0 AS id, row.value ->> 1 AS organization, row.value ->> 2 AS key,
    row.value ->> 3 AS admitted_ms, row.value ->> 4 AS ended_ms, row.value ->> 5 AS kind, row.value ->> 6 AS outcome,
    row.value ->> 7 AS model, row.value ->> 8 AS provider, row.value ->> 9 AS input_tokens,
    row.value ->> 10 AS cached_input_tokens, row.value ->> 11 AS output_tokens, row.value ->> 12 AS images,
    row.value ->> 13 AS cost_micro_usd, row.value ->> 14 AS overage_micro_usd, row.value ->> 15 AS estimated
    FROM request_batch AS batch, json_each(batch.rows) AS row`)
  file.close()
  const { embedded } = await expected()
  expect(await readAll(new EmbeddedAuditLog(at), new EmbeddedUsageLog(at))).toMatchObject(embedded)
  const ledger = EmbeddedLedger.open(at, { keepMs: KEEP_MS })
  await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(7))
  await ledger.close()
  const { audit } = await readAll(new EmbeddedAuditLog(at), new EmbeddedUsageLog(at))
  expect(audit.length).toBe(embedded.audit.length + 2)
})

test('the file of the keys is read', async () => {
  const store = openSqliteKeyStore(filesOf('keys.sqlite'))
  const shared = { organization: 'acme', createdMs: 1_795_000_000_000 }
  expect(await store.get('laptop')).toEqual({
    ...{ ...shared, id: 'laptop', sha256: 'a'.repeat(64), shown: 'gwk_abcdefgh' },
    ...{ models: ['small', 'x-*'], expiresAtMs: 4_102_444_800_000 },
  })
  expect(await store.get('gone')).toEqual({
    ...{ ...shared, id: 'gone', sha256: 'b'.repeat(64), shown: 'gwk_bcdefghi', revokedMs: 1_795_000_100_000 },
  })
  await store.close()
})

test.each([REDIS, ...(VALKEY === undefined ? [] : [VALKEY])])(
  'the outbox of a node, and its data in %s',
  async (program) => {
    await using server = await RedisServer.of(program)
    const client = server.client()
    await fill(client)
    const place = { kind: 'single', url: server.socket } as const
    const read = async () => readAll(await openReader(RedisAuditLog, place), await openReader(RedisUsageLog, place))
    const { redis } = await expected()
    const usage = redis.usage.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
    expect(await read()).toMatchObject({ audit: redis.audit, usage })
    const at = filesOf('outbox.sqlite')
    const ledger = await RedisLedger.open(place, at, 'refuse', { keepMs: KEEP_MS })
    await until(() => ledger.health().pending === 0)
    await ledger.settle(await ledger.reserve(account, holdOf(100)), chargeOf(7))
    await ledger.close()
    // The live reservation had posted 80 of 400; the pending settlement cost 17. Nothing is restored, because nothing
    // was lost.
    expect(await totals(server, account)).toEqual({ spent: 40_547 + 80 + 17 + 7, held: 0, live: 0 })
    const after = await read()
    const mine = after.audit.slice(redis.audit.length - 1)
    expect(after.audit.slice(0, redis.audit.length - 1)).toMatchObject(redis.audit.slice(0, -1))
    expect(new Set(mine)).toEqual(
      new Set([
        expect.objectContaining({ id: 'nlive', kind: 'lost', costMicroUsd: 80 }),
        expect.objectContaining({ id: 'pending', kind: 'direct', costMicroUsd: 17 }),
        expect.objectContaining({ kind: 'settled', costMicroUsd: 7 }),
        expect.objectContaining({ id: 'n5', organization: 'other' }),
      ]),
    )
  },
)

test('gateways and commands refuse Redis data of a newer version; a gateway records its own version', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const place = { kind: 'single', url: server.socket } as const
  const opened = () => RedisLedger.open(place, filesOf('outbox.sqlite'), 'refuse')
  await (await opened()).close()
  expect(await client.get('weir:data-version')).toBe('1')
  await client.set('weir:data-version', 2)
  for (const open of [opened, () => openReader(RedisUsageLog, place)]) {
    expect(await open().then(String, String)).toContain(
      'RedisUnfitError: The data in Redis were written by a newer version of weir ' +
        '(data version 2; this one reads up to 1).',
    )
  }
  expect(await client.get('weir:data-version')).toBe('2')
})

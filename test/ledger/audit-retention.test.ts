/** How long Redis keeps the audit trail, and its bound in bytes. */

import { expect, test } from 'bun:test'
import type { Redis } from 'ioredis'
import { AuditRetention, levelOf } from '../../src/ledger/redis/maintenance/audit-retention.ts'
import { ORGANIZATIONS_KEY, redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { Random, randomSeed } from './random.ts'
import { RedisServer } from './redis-server.ts'

const DAY_MS = 86_400_000
const NOW = Date.UTC(2026, 10, 21, 12)

/** Writes `count` entries as `store.lua` does, one every `everyMs`, the last one now. */
async function fill(client: Redis, organization: string, count: number, everyMs: number): Promise<void> {
  await client.sadd(ORGANIZATIONS_KEY, organization)
  await client.eval(
    `for i = 1, ARGV[1] do
       redis.call('XADD', KEYS[1], string.format('%.0f-%d', ARGV[2] - (ARGV[1] - i) * ARGV[3], i),
         'id', 'req_019aa1b2c3d47e5f8a9b0c1d2e3f' .. i,
         'kind', 'settled', 'outcome', 'completed', 'key', 'ci', 'model', 'gpt-5-mini', 'provider', 'openai',
         'admitted', ARGV[2],
         'estimated', 0, 'input', 1234, 'cached', 0, 'output', 567, 'images', 0, 'cost', 890, 'overage', 0)
     end`,
    1,
    redisKey(organization, 'audit'),
    count,
    NOW,
    everyMs,
  )
}

test('entries older than the setting are deleted, also of idle organisations; newer ones stay', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  await fill(client, 'busy', 5000, DAY_MS / 100)
  await fill(client, 'young', 1000, 1000)
  await client.sadd(ORGANIZATIONS_KEY, 'foreign')
  await client.set(redisKey('foreign', 'audit'), 'x')
  await new AuditRetention(client, 7 * DAY_MS).trim(NOW)
  const [oldest] = await client.xrange(redisKey('busy', 'audit'), '-', '+', 'COUNT', 1)
  // Whole blocks of a hundred entries go: at most one of them is a little older.
  expect(Number.parseInt(oldest?.[0] ?? '', 10)).toBeGreaterThan(NOW - 8.1 * DAY_MS)
  expect(await client.xlen(redisKey('busy', 'audit'))).toBeWithin(700, 820)
  expect(await client.xlen(redisKey('young', 'audit'))).toBe(1000)
})

test('the trail stays within its bound in bytes: the longest streams are trimmed, oldest entries first', async () => {
  await using server = await RedisServer.start()
  const client = server.client()
  const sizes = { a: 20_000, b: 20_000, c: 4000, d: 300 }
  for (const [organization, count] of Object.entries(sizes)) await fill(client, organization, count, 1)
  const bytes = async () => {
    let sum = 0
    for (const one of Object.keys(sizes)) sum += (await client.memory('USAGE', redisKey(one, 'audit'))) ?? 0
    return sum
  }
  const bound = Math.floor((await bytes()) / 3)
  await new AuditRetention(client, 90 * DAY_MS, bound).trim(NOW)
  // Each stream may exceed its level by one block of a hundred entries.
  expect(await bytes()).toBeLessThan(bound + 2 * 100 * 250)
  const [a = 0, b = 0, c = 0, d = 0] = await Promise.all(
    Object.keys(sizes).map((one) => client.xlen(redisKey(one, 'audit'))),
  )
  expect([c, d]).toEqual([4000, 300])
  expect(Math.abs(a - b)).toBeLessThanOrEqual(100)
  expect(a).toBeGreaterThan(4000)
  const [newest] = await client.xrevrange(redisKey('a', 'audit'), '+', '-', 'COUNT', 1)
  expect(newest?.[0]).toBe(`${NOW}-20000`)
  // A trail within the bound is not trimmed.
  const before = await bytes()
  await new AuditRetention(client, 90 * DAY_MS, before).trim(NOW)
  expect(await bytes()).toBe(before)
})

test('the level to which sizes are cut: they sum to the bound, and sizes below the level are not cut', () => {
  const random = new Random(randomSeed('levels'))
  for (let i = 0; i < 1000; i++) {
    const sizes = Array.from({ length: 1 + random.below(20) }, () => random.below(10 ** (1 + random.below(6))))
    const most = random.below(10 ** (1 + random.below(6)))
    const level = levelOf(sizes, most)
    const sum = sizes.reduce((all, size) => all + Math.min(size, level), 0)
    const whole = sizes.reduce((all, size) => all + size, 0)
    if (whole <= most) expect(level).toBe(Number.POSITIVE_INFINITY)
    else expect(Math.abs(sum - most)).toBeLessThan(1e-6 * most + 1e-6)
  }
})

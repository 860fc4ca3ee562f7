/** How records of spend are deleted from Redis. */

import { expect, test } from 'bun:test'
import { RedisCrossingReader } from '../../src/ledger/redis/readers/redis-crossings.ts'
import type { RedisClient } from '../../src/redis/connect.ts'

test('many are deleted by several calls, one after the other, so that Redis serves others in between', async () => {
  const words = Array.from({ length: 1200 }, (_, i) => [`kkey-${i}\0total\x000`, '5 -1']).flat()
  const client = { hscan: async () => ['0', words] } as unknown as RedisClient
  const taken: string[] = []
  let [running, most] = [0, 0]
  const store = {
    async taken(_: string, some: readonly (readonly [field: string, value: string])[]) {
      most = Math.max(most, ++running)
      await Bun.sleep(0)
      running--
      expect(some.length).toBeLessThanOrEqual(500)
      taken.push(...some.flat())
    },
  }
  const reader = new RedisCrossingReader(client, store)
  await reader.take(await reader.read(['acme']))
  expect(taken).toEqual(words)
  expect(most).toBe(1)
})

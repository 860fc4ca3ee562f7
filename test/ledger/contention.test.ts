/** Four processes with 32 calls in flight each share one budget in a real Redis: grants sum to exactly the budget. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { RedisStore } from '../../src/ledger/redis/store/redis-store.ts'
import { RedisServer } from './redis-server.ts'

const LIMIT = 100_003
const AMOUNT = 7

test(`${Math.floor(LIMIT / AMOUNT)} grants of ${AMOUNT} from ${LIMIT}`, async () => {
  await using server = await RedisServer.start()
  const words = [
    process.execPath,
    join(import.meta.dir, 'contention-child.ts'),
    server.socket,
    String(LIMIT),
    String(AMOUNT),
  ]
  const children = Array.from({ length: 4 }, () => Bun.spawn(words, { stdout: 'pipe', stderr: 'inherit' }))
  const reports = await Promise.all(
    children.map(
      async ({ stdout }): Promise<{ granted: number; grantedAfterRefusal: number }> =>
        JSON.parse(await new Response(stdout).text()),
    ),
  )
  expect(reports.reduce((sum, { granted }) => sum + granted, 0)).toBe(Math.floor(LIMIT / AMOUNT))
  expect(reports.map(({ grantedAfterRefusal }) => grantedAfterRefusal)).toEqual([0, 0, 0, 0])
  const client = server.client()
  const account = { organization: 'acme', organizationLimits: {}, key: 'ci', keyLimits: {} }
  const { organization } = await new RedisStore(client, client).figures(account)
  expect([organization.total.held, organization.live]).toEqual([LIMIT - (LIMIT % AMOUNT), Math.floor(LIMIT / AMOUNT)])
})

/** What the operator learns of an organisation that has very many keys in Redis. */

import { expect, test } from 'bun:test'
import { Redis } from 'ioredis'
import { ORGANIZATIONS_KEY, redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { Gateway } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { Upstream } from '../support/upstream.ts'

test('one line names the organisation and what to do, whatever the number of workers; and a metric', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const client = new Redis(redis.port)
  await client.sadd(ORGANIZATIONS_KEY, 'crowded', 'calm')
  const fill = "for i = 1, 50001 do redis.call('HSET', KEYS[1], 'k' .. i, 'x') end"
  await client.eval(fill, 1, redisKey('crowded', 'scopes'))
  client.disconnect()
  await using gateway = await Gateway.start({
    providers: { up: upstream.url },
    config: { ledger: { redis: redis.url }, workers: 2 },
  })
  const line = await gateway.line((one) => 'advice' in one)
  expect(line).toMatchObject({ level: 'warn', organization: 'crowded', fields: 50_001 })
  expect(String(line['advice'])).toContain('weir keys revoke')
  let figures = ''
  while (!figures.includes('\nweir_ledger_fields 50001\n')) {
    figures = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  }
  expect(figures).not.toContain('crowded')
  expect(gateway.lines.filter((one) => 'advice' in one)).toHaveLength(1)
})

/** A flood of keys that are none: refused, and neither the ledger nor the store of keys is asked. */

import { expect, test } from 'bun:test'
import { Redis } from 'ioredis'
import { newToken } from '../../src/keys/key-format.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { closedPort } from '../support/upstream.ts'

const FLOOD = 200

test('mistyped, well-formed and arbitrary ones: 401 each, and Redis hears nothing of them', async () => {
  await using redis = await RedisServer.start()
  await using gateway = await Gateway.start({
    providers: { up: `http://127.0.0.1:${await closedPort()}/v1` },
    config: { ledger: { redis: redis.url } },
  })
  expect((await gateway.run('keys', 'create', '--org', 'test', '--id', 'laptop')).code).toBe(0)
  const client = new Redis(redis.url)
  await client.config('RESETSTAT')
  const { token } = newToken()
  for (const key of [`${token.slice(0, -1)}!`, token, 'no-such-key-0123456789']) {
    const statuses = await Promise.all(
      Array.from({ length: FLOOD }, async () => {
        const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
        return (await ask(gateway.port, requestBytes('/v1/chat/completions', { key, body }))).status
      }),
    )
    expect(new Set(statuses)).toEqual(new Set([401]))
  }
  const stats = await client.info('commandstats')
  client.disconnect()
  const calls = new Map(Array.from(stats.matchAll(/cmdstat_(\S+):calls=(\d+)/g), ([, name, n]) => [name, Number(n)]))
  calls.delete('config|resetstat')
  // Whatever requests come, the gateway asks for changes of keys and what other nodes found out every 400 ms, and
  // renews the lease of its node.
  const regular = ['get', 'zrangebyscore', 'set', 'pexpire', 'xrange', 'hscan']
  const lease = ['evalsha', 'time', 'hset', 'zadd', 'hdel', 'zrem', 'hget']
  for (const name of [...regular, ...lease]) {
    expect(calls.get(name) ?? 0).toBeLessThan(FLOOD)
    calls.delete(name)
  }
  expect([...calls]).toEqual([])
})

/** What operators read of an error of Redis: never the client's words about its own options. */

import { expect, test } from 'bun:test'
import type { RedisConfig } from '../../src/core/redis-config.ts'
import { connect } from '../../src/redis/connect.ts'
import { commandProblem } from '../../src/redis/redis-errors.ts'
import { lastingPort } from '../support/ports.ts'
import { RedisServer } from '../support/redis.ts'

async function problemsOf(place: RedisConfig): Promise<readonly string[]> {
  const client = connect(place, 'weir-test')
  const problem = () => client.get('x').then(() => 'none', commandProblem)
  const waiting = await problem()
  client.disconnect()
  return [waiting, await problem()]
}

test('a command without a connection, and one after its end', async () => {
  const url = `redis://127.0.0.1:${await lastingPort()}/0`
  for (const place of [
    { kind: 'single', url },
    { kind: 'cluster', nodes: [url] },
  ] as const) {
    expect(await problemsOf(place)).toEqual(['Redis is not reached', 'Redis is not reached'])
  }
})

test("a server that does not answer in time; Redis's own words stay", async () => {
  await using redis = await RedisServer.start()
  const client = connect({ kind: 'single', url: redis.url }, 'weir-test')
  try {
    await new Promise((resolve) => client.once('ready', resolve))
    expect(await client.hget('x', 'y').then(() => 'none', commandProblem)).toBe('none')
    await client.set('x', '1')
    expect(await client.hget('x', 'y').then(() => 'none', commandProblem)).toStartWith('WRONGTYPE')
    redis.signal('SIGSTOP')
    expect(await client.get('x').then(() => 'none', commandProblem)).toBe('Redis does not answer in time')
  } finally {
    redis.signal('SIGCONT')
    client.disconnect()
  }
})

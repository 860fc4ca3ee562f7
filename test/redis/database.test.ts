/** A database that the server does not have: nothing reaches another one in its place. */

import { expect, test } from 'bun:test'
import { connect } from '../../src/redis/connect.ts'
import { connectOnce } from '../../src/redis/connect-once.ts'
import { RedisServer } from '../support/redis.ts'

test('a database that the server does not have is an error, and no command reaches database 0', async () => {
  await using redis = await RedisServer.start()
  const url = `${redis.url.replace(/\/\d*$/, '')}/99`
  const command = connectOnce({ kind: 'single', url })
  expect(await command.then(String, String)).toContain('does not have the database that the address')
  const client = connect({ kind: 'single', url }, 'weir-test')
  // Twice, because it tries again.
  for (let tries = 0; tries < 2; tries++) {
    await new Promise((resolve) => client.once('error', resolve))
    expect(await client.set('key', 'value').then(String, () => 'failed')).toBe('failed')
  }
  client.disconnect()
  const zero = await connectOnce({ kind: 'single', url: redis.url })
  expect(await zero.dbsize()).toBe(0)
  zero.disconnect()
})

/** Very many API keys, and a key store that becomes unreadable. */

import { expect, test } from 'bun:test'
import { Redis } from 'ioredis'
import type { JsonObject } from '../../src/core/json.ts'
import { newToken } from '../../src/keys/key-format.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { until } from './weir.ts'

/** As much as one command for all of them does not read in its time limit. */
const MANY = 400_000

const FILL = `
  for i = 1, ARGV[1] do
    local id = 'of-many-' .. i
    redis.call('HSET', KEYS[1], id, string.format(
      '{"id":"%s","organization":"acme","sha256":"%064x","shown":"gwk_abcdefgh","models":["gpt-*","claude-*"],"createdMs":1763700000000}',
      id, i))
  end
  redis.call('INCR', KEYS[2])`

function start(upstream: Upstream, config: JsonObject): Promise<Gateway> {
  upstream.on('m', json(200, chatBody('Hello.')))
  return Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    config: { organizations: [{ id: 'acme', keys: [{ id: 'k', key: KEY }] }], ...config },
  })
}

/** The status of a request; one that Redis answered too late on a busy machine is repeated. */
async function statusOf(node: Gateway, key: string): Promise<number> {
  const body = { model: 'm', max_tokens: 4, messages: [{ role: 'user', content: 'Hi' }] }
  for (;;) {
    const { status } = await ask(node.port, requestBytes('/v1/chat/completions', { key, body }))
    if (status !== 503) return status
    await Bun.sleep(20)
  }
}

async function ledgerUp(gateway: Gateway): Promise<string | undefined> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  return /^weir_ledger_up (\d)$/m.exec(text)?.[1]
}

test(`${MANY} keys: two nodes accept each of them, and reject it after it is revoked`, async () => {
  await using redis = await RedisServer.start()
  const client = new Redis(redis.url)
  const [records, version] = ['weir:{keys}:records', 'weir:{keys}:version']
  await client.eval(FILL, 2, records, version, MANY)
  const { token, sha256, shown } = newToken()
  const record = { id: 'laptop', organization: 'acme', sha256, shown, createdMs: Date.now() }
  await client.hset(records, record.id, JSON.stringify(record))
  client.disconnect()
  await using upstream = await Upstream.start()
  const config = { ledger: { redis: redis.url } }
  const [one, two] = await Promise.all([start(upstream, config), start(upstream, config)])
  await using _one = one
  await using _two = two
  await until(async () => (await statusOf(one, token)) === 200 && (await statusOf(two, token)) === 200)
  expect(await one.run('keys', 'revoke', '--id', 'laptop')).toEqual({
    code: 0,
    stdout: 'key "laptop" is revoked\n',
    stderr: '',
  })
  expect(await Promise.all([statusOf(one, token), statusOf(two, token)])).toEqual([401, 401])
  const made = await one.run('keys', 'create', '--org', 'acme', '--id', 'phone')
  expect(made.code).toBe(0)
  const phone = made.stdout.trim()
  expect(await Promise.all([statusOf(one, phone), statusOf(two, phone)])).toEqual([200, 200])
})

test('a hanging Redis: an idle gateway reports it in /readyz, the log and the metrics', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  await using gateway = await start(upstream, { ledger: { redis: redis.url } })
  await until(async () => (await gateway.readyz()).status === 200)
  redis.signal('SIGSTOP')
  const answers = await Promise.all(Array.from({ length: 5 }, () => gateway.readyz()))
  for (const { status, reasons } of answers)
    expect([status, reasons.join().includes('Redis does not answer')]).toEqual([503, true])
  const down = await gateway.line(({ event }) => event === 'ledger.down')
  expect(down).toMatchObject({ level: 'error', worker: 0, msg: 'ledger down' })
  await until(async () => (await ledgerUp(gateway)) === '0')
  redis.signal('SIGCONT')
  expect(await gateway.line(({ event }) => event === 'ledger.up')).toMatchObject({ level: 'info', worker: 0 })
  await until(async () => (await gateway.readyz()).status === 200 && (await ledgerUp(gateway)) === '1')
})

test('unreadable keys with a healthy ledger: down in the log, /readyz and the metrics', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  await using gateway = await start(upstream, { ledger: { redis: redis.url } })
  await until(async () => (await gateway.readyz()).status === 200)
  const client = new Redis(redis.url)
  await client.multi().del('weir:{keys}:version', 'weir:{keys}:changes').set('weir:{keys}:records', 'x').exec()
  await client.lpush('weir:{keys}:version', 'x')
  const down = await gateway.line(({ event }) => event === 'ledger.down')
  expect(down['problem']).toMatch(
    /^API keys could not be read for 2 s, so revoked keys may still be accepted: WRONGTYPE/,
  )
  const { status, reasons } = await gateway.readyz()
  expect([status, reasons.join().includes('API keys could not be read'), await ledgerUp(gateway)]).toEqual([
    503,
    true,
    '0',
  ])
  // The ledger is well: who has a key is served.
  expect(await statusOf(gateway, KEY)).toBe(200)
  await client.del('weir:{keys}:version', 'weir:{keys}:records')
  client.disconnect()
  await gateway.line(({ event }) => event === 'ledger.up')
  await until(async () => (await gateway.readyz()).status === 200)
})

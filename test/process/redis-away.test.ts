/**
 * An unreachable Redis, and a Redis that rejects weir, as callers and the operator see it: real servers, stopped and
 * started.
 */

import { afterEach, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { JsonObject } from '../../src/core/json.ts'
import { newToken } from '../../src/keys/key-format.ts'
import { type Answer, ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { lastingPort } from '../support/ports.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { closedPort, Upstream } from '../support/upstream.ts'
import { until } from './weir.ts'

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})

/** What it has taken survives its death. */
async function durable(): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-redis-'))
  folders.push(folder)
  return ['--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always']
}

/** `redis`: its address, or all of `ledger`. */
function start(
  upstream: Upstream,
  redis: string | JsonObject,
  unreachable: 'refuse' | 'allow' = 'refuse',
): Promise<Gateway> {
  upstream.on('m', json(200, chatBody('Hello.')))
  return Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: {
      m: { targets: [{ provider: 'up', model: 'm' }], price: { input: 10_000, output: 10_000 }, max_output_tokens: 4 },
    },
    config: {
      ledger: typeof redis === 'string' ? { redis } : redis,
      ledger_unreachable: unreachable,
      organizations: [{ id: 'acme', limits: { spend: { day: 0.5 } }, keys: [{ id: 'k', key: KEY }] }],
    },
  })
}

function say(gateway: Gateway, path = '/v1/chat/completions'): Promise<Answer> {
  const messages = [{ role: 'user', content: 'Hi' }]
  const body = path === '/v1/responses' ? { model: 'm', input: messages } : { model: 'm', max_tokens: 4, messages }
  return ask(gateway.port, requestBytes(path, { key: KEY, body }))
}

async function requestsReported(gateway: Gateway): Promise<number> {
  const { code, stdout } = await gateway.run('usage', '--json')
  return code === 0 ? JSON.parse(stdout).total.requests : -1
}

describe('Redis dies and restarts', () => {
  test('refuse: 503 at once in each dialect; after the restart nothing is missing or charged twice', async () => {
    const options = await durable()
    await using redis = await RedisServer.start(options)
    await using upstream = await Upstream.start()
    await using gateway = await start(upstream, redis.url)
    expect((await say(gateway)).status).toBe(200)
    const explained = async () => (await gateway.run('explain', '--key', 'k', '--model', 'm')).stdout
    const rejection = '\nrejected: 503 ledger_unavailable: The ledger cannot be reached.\n'
    // No worker has found out yet: the supervisor asks them whether Redis answers now.
    redis.signal('SIGSTOP')
    expect(await explained()).toContain(rejection)
    redis.signal('SIGCONT')
    await until(async () => (await explained()).includes('\nadmitted: m at '))
    redis.signal('SIGKILL')
    await until(async () => (await say(gateway)).status === 503)
    for (const path of ['/v1/chat/completions', '/v1/responses', '/v1/messages']) {
      const refused = await say(gateway, path)
      const { error } = JSON.parse(refused.text)
      expect([path, refused.status, refused.header('retry-after')]).toEqual([path, 503, '1'])
      expect(error).toEqual(
        path === '/v1/messages'
          ? { type: 'overloaded_error', message: 'The ledger cannot be reached.' }
          : { message: 'The ledger cannot be reached.', type: 'server_error', param: null, code: 'ledger_unavailable' },
      )
    }
    const called = upstream.calls.length
    const { status, reasons } = await gateway.readyz()
    expect([status, reasons.join().includes('Redis is not reached')]).toEqual([503, true])
    expect(await explained()).toContain(rejection)
    const away = await gateway.run('usage')
    expect([away.code, away.stdout]).toEqual([1, ''])
    expect(away.stderr).toMatch(/^weir: Redis does not answer \(connect ECONNREFUSED [^\n]+\)\.\n$/)
    await using _ = await RedisServer.start(options, redis.port)
    await until(async () => (await say(gateway)).status === 200)
    await until(async () => (await gateway.readyz()).status === 200)
    await until(async () => (await requestsReported(gateway)) === upstream.calls.length)
    expect(upstream.calls.length).toBe(called + 1)
    // The same without a running gateway.
    await gateway.stop()
    expect(await requestsReported(gateway)).toBe(upstream.calls.length)
  })

  test('allow: requests are served without limits and charged after the restart; then the limit holds', async () => {
    const options = await durable()
    await using redis = await RedisServer.start(options)
    await using upstream = await Upstream.start()
    await using gateway = await start(upstream, redis.url, 'allow')
    expect((await say(gateway)).status).toBe(200)
    redis.signal('SIGKILL')
    // Five cost more than the limit has.
    for (let i = 0; i < 5; i++) expect((await say(gateway)).status).toBe(200)
    expect((await gateway.run('explain', '--key', 'k', '--model', 'm')).stdout).toContain('\nadmitted: m at ')
    expect((await gateway.readyz()).status).toBe(200)
    // The log reports that requests are served without limits; their own lines do not.
    const complaint = await gateway.line(({ event }) => event === 'ledger.down')
    expect(complaint).toMatchObject({ level: 'warn', worker: 0, problem: expect.stringContaining('Redis') })
    await using _ = await RedisServer.start(options, redis.port)
    await until(async () => (await requestsReported(gateway)) === 6)
    expect(await gateway.line(({ event }) => event === 'ledger.up')).toMatchObject({ level: 'info', worker: 0 })
    await until(async () => (await say(gateway)).status === 429)
    expect(await requestsReported(gateway)).toBe(upstream.calls.length)
  })

  test('without Redis at the start: weir starts, reports it, and serves when Redis starts', async () => {
    const port = await closedPort()
    await using upstream = await Upstream.start()
    await using gateway = await start(upstream, `redis://127.0.0.1:${port}/0`)
    expect((await say(gateway)).status).toBe(503)
    expect((await gateway.readyz()).status).toBe(503)
    await using _ = await RedisServer.start([], port)
    await until(async () => (await say(gateway)).status === 200)
    const made = await gateway.run('keys', 'create', '--org', 'acme', '--id', 'laptop')
    const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
    const answer = await ask(gateway.port, requestBytes('/v1/chat/completions', { key: made.stdout.trim(), body }))
    expect(answer.status).toBe(200)
  })
})

test('without Redis at the start, created keys are not rejected as invalid: 503 until they can be read', async () => {
  const options = await durable()
  await using redis = await RedisServer.start(options)
  await using upstream = await Upstream.start()
  await using first = await start(upstream, redis.url)
  const made = await first.run('keys', 'create', '--org', 'acme', '--id', 'laptop')
  redis.signal('SIGKILL')
  await using second = await start(upstream, redis.url)
  const status = async (key: string) => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
    return (await ask(second.port, requestBytes('/v1/chat/completions', { key, body }))).status
  }
  const [key, unknown] = [made.stdout.trim(), newToken().token]
  expect(await Promise.all([key, unknown, `${unknown.slice(0, -1)}!`, 'something-else-0123'].map(status))).toEqual([
    ...[503, 503, 401, 401],
  ])
  await using _ = await RedisServer.start(options, redis.port)
  await until(async () => (await status(key)) === 200)
  expect(await status(unknown)).toBe(401)
})

/** The output of `weir serve` if it does not start. */
async function serving(upstream: Upstream, redis: string | JsonObject): Promise<string> {
  const error = await start(upstream, redis).then(
    async (gateway) => gateway[Symbol.asyncDispose]().then(() => new Error('it started')),
    (error: unknown) => error,
  )
  return error instanceof Error ? (error.message.split('it wrote:\n')[1] ?? error.message) : String(error)
}

describe('Redis rejects weir', () => {
  test('an eviction policy: weir serve does not start, and states what to set', async () => {
    await using redis = await RedisServer.start(['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru'])
    await using upstream = await Upstream.start()
    expect(await serving(upstream, redis.url)).toBe(
      'weir: Redis may evict keys of the ledger (maxmemory-policy allkeys-lru). Set maxmemory-policy noeviction.\n',
    )
  })

  test('an expired certificate is one line; a valid one of our own CA is trusted', async () => {
    await using upstream = await Upstream.start()
    const folder = join(import.meta.dir, '../fixtures/tls')
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the configuration file is written so
    const ca = '${file:FOLDER/authority.crt}'.replace('FOLDER', folder)
    const secure = async (name: string) => {
      const port = await lastingPort()
      const [crt, key] = [join(folder, `${name}.crt`), join(folder, 'leaf.key')]
      const files = ['--tls-cert-file', crt, '--tls-key-file', key, '--tls-ca-cert-file', join(folder, 'authority.crt')]
      const redis = await RedisServer.start(['--tls-port', String(port), '--tls-auth-clients', 'no', ...files])
      return { redis, ledger: { redis: `rediss://127.0.0.1:${port}`, tls: { ca } } }
    }
    const expired = await secure('expired')
    await using _expired = expired.redis
    expect(await serving(upstream, expired.ledger)).toBe(
      'weir: The Redis certificate has expired (CERT_HAS_EXPIRED).\n',
    )
    const good = await secure('good')
    await using _good = good.redis
    await using gateway = await start(upstream, good.ledger)
    expect((await say(gateway)).status).toBe(200)
    await until(async () => (await requestsReported(gateway)) === 1)
  })

  test('a wrong or missing password: every command reports it in one line, without waiting', async () => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    await using gateway = await start(upstream, redis.url)
    const client = new Redis(redis.url)
    await client.config('SET', 'requirepass', 'secret')
    client.disconnect()
    const missing =
      'weir: Redis requires a password, and the address in the configuration has none (NOAUTH). ' +
      'Write redis://:PASSWORD@HOST.\n'
    const wrong =
      'weir: Redis rejected the user name or the password in the address of the configuration (WRONGPASS).\n'
    for (const [url, expected] of [
      [redis.url, missing],
      [redis.url.replace('//', '//:nope@'), wrong],
    ] as const) {
      expect(await serving(upstream, url)).toBe(expected)
      await Bun.write(gateway.configFile, (await Bun.file(gateway.configFile).text()).replaceAll(redis.url, url))
      for (const words of [
        ['usage'],
        ['audit'],
        ['keys', 'list'],
        ['keys', 'revoke', '--id', 'x'],
        ['keys', 'create', '--org', 'acme', '--id', 'x'],
      ]) {
        expect([words, await gateway.run(...words)]).toEqual([words, { code: 1, stdout: '', stderr: expected }])
      }
      const explained = await gateway.run('explain', '--key', 'k', '--model', 'm')
      expect([explained.code, explained.stderr]).toEqual([0, expected])
      expect(explained.stdout).toEndWith(
        'what is left of the limits is unknown, and they were not checked: the ledger cannot be read\n',
      )
    }
    // A gateway whose password becomes wrong reports that, and not merely that Redis is unreachable.
    const admin = new Redis(redis.url.replace('//', '//:secret@'))
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    admin.disconnect()
    await until(async () => (await gateway.readyz()).reasons.join().includes('Redis requires a password'))
  })
})

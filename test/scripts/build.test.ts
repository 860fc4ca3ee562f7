/** What `scripts/build` makes has all parts of weir, those that are loaded on demand too. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { ask, requestBytes } from '../support/caller.ts'
import { executable } from '../support/executable.ts'
import { Gateway, KEY, providerEntry } from '../support/gateway.ts'
import { GOOGLE_TOKEN } from '../support/google-tokens.ts'
import { RedisServer } from '../support/redis.ts'
import * as does from '../support/scenarios.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'

const chat = requestBytes('/v1/chat/completions', {
  key: KEY,
  body: { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
})

test('the executable knows its commit', async () => {
  const { stdout } = Bun.spawnSync([await executable(), 'version'])
  expect(stdout.toString()).toMatch(/^weir \d+\.\d+\.\d+ \(commit \w+, Bun [\d.]+\)\n$/)
})

test.each(['--target', '--target windows-x64', '--strip'])('scripts/build %s is wrong usage', (flags) => {
  const build = Bun.spawnSync([join(import.meta.dir, '../../scripts/build'), ...flags.split(' ')])
  expect([build.exitCode, build.stderr.toString()]).toEqual([
    2,
    'Usage: scripts/build [--target linux-x64|linux-arm64] [FILE]\n',
  ])
})

test('the executable serves with the embedded ledger, and has metrics and the reference', async () => {
  await using upstream = await Upstream.start({ m: does.answersText('Hello') })
  await using gateway = await Gateway.start({ providers: { up: upstream.url }, executable: await executable() })
  expect((await ask(gateway.port, chat)).status).toBe(200)
  expect(await (await fetch(`${gateway.adminUrl}/metrics`)).text()).toContain('weir_')
  expect(await (await fetch(`${gateway.adminUrl}/docs`)).text()).toContain('id="createChatCompletion"')
  expect(await (await fetch(`${gateway.adminUrl}/openapi.json`)).json()).toHaveProperty('openapi', '3.1.0')
})

test('the executable serves with Redis and Bedrock', async () => {
  await using upstream = await Upstream.start({ m: does.answersText('Hello') })
  await using redis = await RedisServer.start()
  const aws = { dialect: 'bedrock', region: 'eu-west-1', access_key_id: 'AKIA', secret_access_key: 'secret' }
  await using gateway = await Gateway.start({
    providers: { up: upstream.url, aws },
    config: { ledger: { redis: redis.url } },
    executable: await executable(),
  })
  expect((await ask(gateway.port, chat)).status).toBe(200)
  expect((await fetch(`${gateway.adminUrl}/readyz`)).status).toBe(200)
})

test('the executable fetches access tokens for Vertex AI', async () => {
  await using upstream = await Upstream.start()
  upstream.otherwise(speaks('vertex', () => textAnswer('Hello')))
  await using gateway = await Gateway.start({
    providers: { vertex: providerEntry('vertex', `http://127.0.0.1:${upstream.port}`) },
    executable: await executable(),
  })
  expect((await ask(gateway.port, chat)).status).toBe(200)
  expect(upstream.calls[0]?.header('authorization')).toBe(`Bearer ${GOOGLE_TOKEN}`)
})

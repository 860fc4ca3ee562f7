/**
 * What one worker learns of a target holds for all workers of all nodes, after a restart and after a crash, until the
 * target's entry changes or an operator forgets it.
 */

import { expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { askGateway } from '../../src/cli/gateway-client.ts'
import { isArray, objectOf } from '../../src/core/json.ts'
import { connect } from '../../src/redis/connect.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { RedisServer } from '../support/redis.ts'
import * as does from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { KEY, PROGRAM, until, Weir } from './weir.ts'

const REJECTION = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."

interface Given {
  readonly redis?: string
  readonly key?: string
  readonly workers?: number
  readonly dataDir?: string
}

function config(url: string, { redis, key = 'k', workers = 1, dataDir = './data' }: Given): string {
  const limits = { requests_per_minute: 10_000 }
  return JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0 },
    workers,
    ledger: redis === undefined ? 'embedded' : { redis },
    data_dir: dataDir,
    providers: { up: { dialect: 'openai', base_url: url, api_key: key } },
    models: [{ name: 'm', targets: [{ provider: 'up', model: 'org/a' }] }],
    organizations: ['acme', 'globex'].map((id) => ({ id, limits, keys: [{ id, key: `${KEY}-${id}` }] })),
  })
}

/** A provider that knows `max_completion_tokens` alone. */
async function strictProvider(): Promise<Upstream> {
  const upstream = await Upstream.start()
  upstream.otherwise((call) =>
    'max_tokens' in call.json
      ? does.json(400, JSON.stringify({ error: { message: REJECTION } }))(call)
      : does.answersText('hi')(call),
  )
  return upstream
}

async function say(weir: Weir, organization = 'acme'): Promise<void> {
  const body = { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] }
  const request = requestBytes('/v1/chat/completions', { key: `${KEY}-${organization}`, body })
  const answer = await ask(Number(new URL(weir.address).port), request)
  expect([answer.status, answer.text]).toEqual([200, expect.any(String)])
}

/** It outlives the gateways of a test. */
async function temporaryFolder() {
  const path = await mkdtemp(join(tmpdir(), 'weir-data-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}

async function learned(weir: Weir): Promise<readonly unknown[]> {
  const rows = objectOf(await (await fetch(`${weir.admin}/api/targets`)).json())?.['rows']
  return isArray(rows) ? rows.flatMap((row) => objectOf(row)?.['learned'] ?? []) : []
}

async function run(weir: Weir, ...args: readonly string[]): Promise<string> {
  const program = Bun.spawn([...PROGRAM, ...args], { cwd: weir.folder, stdout: 'pipe', stderr: 'pipe' })
  const texts = await Promise.all([new Response(program.stdout).text(), new Response(program.stderr).text()])
  return `${await program.exited} ${texts.join('')}`
}

const KEPT = { field: 'max_completion_tokens', model: 'org/a', until: null, seen: REJECTION }
const forget = ['targets', 'forget', 'up/org/a'] as const

test('one node: shown, kept over restarts and crashes, dropped with the entry, forgotten by command', async () => {
  await using upstream = await strictProvider()
  const calls = () => upstream.calls.length
  await using data = await temporaryFolder()
  const given = { workers: 2, dataDir: data.path }
  {
    await using weir = await Weir.ready(config(upstream.url, given))
    for (const organization of ['acme', 'globex']) await say(weir, organization)
    await until(async () => (await learned(weir)).length === 1)
    expect(await run(weir, 'explain', '--key', 'acme', '--model', 'm')).toContain('learned max_completion_tokens until')
    expect(await learned(weir)).toMatchObject([{ ...KEPT, until: expect.any(String) }])
    expect(weir.lines.find(({ event }) => event === 'target.form_learned')).toMatchObject({
      ...{ provider: 'up', model: 'org/a', field: 'max_completion_tokens', kept: 'for ten minutes', seen: REJECTION },
    })
    expect(calls()).toBe(3)
    for (const pid of await weir.workers()) process.kill(pid, 'SIGKILL')
    await weir.line('worker died', 2)
    await until(async () => (await weir.readyz()).status === 200)
    await say(weir)
    expect(calls()).toBe(4)
  }
  {
    await using weir = await Weir.ready(config(upstream.url, given))
    for (let i = 0; i < 5; i++) await say(weir)
    expect(calls()).toBe(9)
    await weir.configure(config(upstream.url, { ...given, key: 'other' }))
    expect(await run(weir, 'reload')).toStartWith('0 ')
    expect(await learned(weir)).toEqual([])
    await say(weir)
    expect(calls()).toBe(11)
    await until(async () => (await learned(weir)).length === 1)
    expect(await run(weir, ...forget)).toBe('0 up/org/a: forgotten: max_completion_tokens\n')
    expect(await run(weir, ...forget)).toBe('0 up/org/a: nothing was learned of it\n')
    expect(await run(weir, 'targets', 'forget', 'up/b')).toContain('1 ')
    expect(weir.lines.find(({ event }) => event === 'target.form_forgotten')).toMatchObject({
      ...{ source: 'cli', provider: 'up', model: 'org/a', fields: ['max_completion_tokens'] },
    })
    expect(await run(weir, 'audit', '--admin')).toContain('target.forgotten')
    await until(async () => (await learned(weir)).length === 0)
    await say(weir)
    expect(calls()).toBe(13)
  }
})

test('the evidence of all workers of all nodes counts, and forgetting is for all of them', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await strictProvider()
  const text = config(upstream.url, { redis: redis.url, workers: 2 })
  await using one = await Weir.ready(text)
  await using other = await Weir.ready(text)
  await say(one)
  await until(async () => (await learned(other)).length === 1)
  const before = upstream.calls.length
  for (let i = 0; i < 4; i++) await say(other, 'globex')
  expect(upstream.calls.length).toBe(before + 4)
  expect((await askGateway(join(other.folder, 'data'), 'GET /local/rests'))?.['learned']).toMatchObject([
    { provider: 'up', model: 'org/a', field: 'max_completion_tokens', untilMs: expect.any(Number) },
  ])
  expect(await run(other, ...forget)).toBe('0 up/org/a: forgotten: max_completion_tokens\n')
  await until(async () => (await learned(one)).length === 0)
  // A Redis that has lost everything gets back what the nodes know.
  await say(one, 'globex')
  await until(async () => (await learned(other)).length === 1)
  const client = connect({ kind: 'single', url: redis.url }, 'test')
  await until(async () => client.status === 'ready')
  await client.flushall()
  client.disconnect()
  await using late = await Weir.ready(text)
  await until(async () => (await learned(late)).length === 1)
  expect(await learned(other)).toHaveLength(1)
})

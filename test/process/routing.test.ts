/** What workers share about targets, and what the command line learns of it through the control socket. */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { askGateway } from '../../src/cli/gateway-client.ts'
import { isArray } from '../../src/core/json.ts'
import { Caller, requestBytes } from '../support/caller.ts'
import { RedisServer } from '../support/redis.ts'
import * as does from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { KEY, PROGRAM, until, Weir } from './weir.ts'

/** Several workers need a Redis. */
function config(url: string, redis?: string): string {
  return JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0 },
    workers: redis === undefined ? 1 : 3,
    ledger: redis === undefined ? 'embedded' : { redis },
    data_dir: './data',
    providers: { up: { dialect: 'openai', base_url: url, api_key: 'k' } },
    models: [
      {
        name: 'm',
        targets: [
          { provider: 'up', model: 'a' },
          { provider: 'up', model: 'b' },
        ],
      },
    ],
    organizations: [{ id: 'acme', keys: [{ id: 'ci', key: KEY }] }],
  })
}

const request = requestBytes('/v1/chat/completions', {
  key: KEY,
  body: { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
})

async function explained(weir: Weir): Promise<string> {
  const program = Bun.spawn([...PROGRAM, 'explain', '--key', 'ci', '--model', 'm'], {
    cwd: weir.folder,
    stdout: 'pipe',
  })
  const text = await new Response(program.stdout).text()
  expect(await program.exited).toBe(0)
  return text
}

test('a target that one worker skips is skipped by all within a second, also by workers that start later', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start({ b: does.answersText('b') })
  let asked = 0
  upstream.on('a', (call) => {
    asked++
    return call.answer(429, '', { 'retry-after': '50' })
  })
  await using weir = await Weir.ready(config(upstream.url, redis.url))
  const port = Number(new URL(weir.address).port)
  // Connections go to workers as the system pleases: with thirty of them every worker has some.
  const callers = await Promise.all(Array.from({ length: 30 }, () => Caller.connect(port)))
  const [first] = callers
  first?.send(request)
  expect((await first?.answer())?.header('x-gateway-fallback-count')).toBe('1')
  const rests = async () => (await askGateway(join(weir.folder, 'data'), 'GET /local/rests'))?.['rests']
  await until(async () => isArray(await rests()) && JSON.stringify(await rests()) !== '[]')
  const reportedMs = performance.now()
  const metrics = await (await fetch(`${weir.admin}/metrics`)).text()
  expect(metrics).toContain('\nweir_target_resting{provider="up",model="a"} 1\n')
  expect(metrics).toContain('\nweir_target_resting{provider="up",model="b"} 0\n')
  // The supervisor has sent the workers what it knows by then, but the message may still be on its way.
  while (performance.now() - reportedMs < 1000) await weir.readyz()
  expect(asked).toBe(1)
  for (const caller of callers) caller.send(request)
  for (const caller of callers) expect((await caller.answer()).header('x-gateway-fallback-count')).toBe('1')
  expect(asked).toBe(1)

  for (const pid of await weir.workers()) process.kill(pid, 'SIGKILL')
  await weir.line('worker died', 3)
  await until(async () => (await weir.readyz()).status === 200)
  for (let i = 0; i < 10; i++) {
    await using caller = await Caller.connect(port)
    caller.send(request)
    expect((await caller.answer()).header('x-gateway-fallback-count')).toBe('1')
  }
  expect(asked).toBe(1)
  for (const caller of callers) caller.close()
})

test('after a pause one request of all workers together probes the target, however many arrive at once', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start({ b: does.answersText('b') })
  const release = Promise.withResolvers<void>()
  upstream.on(
    'a',
    does.inTurn(does.json(429, '', { 'retry-after': '1' }), async (call) => {
      await release.promise
      await does.answersText('a')(call)
    }),
  )
  const asked = () => upstream.calls.filter(({ model }) => model === 'a').length
  await using weir = await Weir.ready(config(upstream.url, redis.url))
  const port = Number(new URL(weir.address).port)
  const callers = await Promise.all(Array.from({ length: 30 }, () => Caller.connect(port)))
  const [first] = callers
  first?.send(request)
  await first?.answer()
  const rests = async () => (await askGateway(join(weir.folder, 'data'), 'GET /local/rests'))?.['rests']
  await until(async () => JSON.stringify(await rests()).includes('"restMs":0'))
  // Stopped, so that all of them find requests when they go on.
  const workers = await weir.workers()
  for (const pid of workers) process.kill(pid, 'SIGSTOP')
  for (const caller of callers) caller.send(request)
  for (const pid of workers) process.kill(pid, 'SIGCONT')
  const counts: (string | undefined)[] = []
  const answers = callers.map(async (caller) => {
    counts.push((await caller.answer()).header('x-gateway-fallback-count'))
  })
  await until(async () => counts.length + asked() - 1 === callers.length)
  const meanwhile = JSON.stringify(await rests())
  release.resolve()
  await Promise.all(answers)
  expect(asked()).toBe(2)
  expect(meanwhile).toContain('"probing":true')
  expect(counts).toEqual([...Array.from({ length: callers.length - 1 }, () => '1'), '0'])
  await until(async () => JSON.stringify(await rests()) === '[]')
  for (const caller of callers) caller.close()
})

test('weir explain shows which targets are skipped', async () => {
  await using upstream = await Upstream.start({
    a: does.json(429, '', { 'retry-after': '50' }),
    b: does.answersText('b'),
  })
  await using weir = await Weir.ready(config(upstream.url))
  expect(await explained(weir)).not.toContain('rests')
  await using caller = await Caller.connect(Number(new URL(weir.address).port))
  caller.send(request)
  await caller.answer()
  await weir.line('circuit breaker opened')
  await until(async () => (await explained(weir)).includes('(a)'))
  const text = await explained(weir)
  const rests =
    /1\. m at up \(a\); .*; rests for another (\d+) s because it answers 429, as the provider requested/.exec(text)
  const seconds = Number(rests?.[1])
  // What is left of it depends on how long the two commands took.
  expect(seconds).toBeGreaterThan(0)
  expect(seconds).toBeLessThanOrEqual(50)
  expect(text).not.toMatch(/at up \(b\).*rests/)
  weir.signal('SIGTERM')
  await weir.ended
  expect(await explained(weir)).toContain('no gateway runs with this data_dir')
})

/**
 * Many requests at once over a healthy Redis on a busy machine: requests within the limit are served, all others are
 * rejected because of the limit, and not because Redis was slow. Budgets of a person are as exact, over several nodes
 * and over several workers.
 */

import { expect, test } from 'bun:test'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

/** Only output has a price, and each answer is as long as its limit, so a request costs what it reserves: ten cents. */
const PRICE = { input: 0, output: 10_000 }
const OUTPUT = 10
const BODY = JSON.stringify({
  id: 'chatcmpl-up',
  object: 'chat.completion',
  created: 1,
  model: 'm',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 9, completion_tokens: OUTPUT, total_tokens: 9 + OUTPUT },
})

/** Without a Redis the ledger is embedded. */
function start(
  upstream: Upstream,
  redis: RedisServer | undefined,
  workers: number,
  limits: object = { limits: { spend: { total: 10 } } },
): Promise<Gateway> {
  return Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: { targets: [{ provider: 'up', model: 'm' }], price: PRICE, max_output_tokens: OUTPUT } },
    config: {
      tags: ['person', 'team'],
      organizations: [{ id: 'acme', ...limits, keys: [{ id: 'k', key: KEY }] }],
      ...(redis === undefined ? {} : { ledger: { redis: redis.url } }),
      workers,
    },
  })
}

/** Ann's requests have room for 100 in her own counter alone; other budgets count them, too. */
const BUDGETS = {
  timezone: 'Asia/Tokyo',
  budgets: [
    { name: 'team', match: { tags: { team: ['a'] } }, limits: { spend: { month: 100 } } },
    { name: 'person', per: 'tag:person', limits: { spend: { total: 10 } } },
    { name: 'model', per: 'model', limits: { spend: { month: 100 } } },
  ],
}

/**
 * As large as an agent's request: reading many of them keeps a worker busy for longer than a reply of Redis may take.
 */
const TEXT = 'The quick brown fox jumps over the lazy dog. '.repeat(5000)

/** A process that does nothing but keep one core busy. */
function burner(): AsyncDisposable {
  const child = Bun.spawn([process.execPath, '-e', 'for (;;) {}'], { stdio: ['ignore', 'ignore', 'ignore'] })
  return {
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await child.exited
    },
  }
}

/**
 * Suspends a gateway and its workers repeatedly, as an overloaded machine does, each time for longer than a reply of
 * Redis may take.
 */
async function starve(gateways: readonly Gateway[], times: number): Promise<void> {
  const signalAll = (signal: NodeJS.Signals) => {
    for (const { pid } of gateways) process.kill(-pid, signal)
  }
  for (let i = 0; i < times; i++) {
    signalAll('SIGSTOP')
    await Bun.sleep(STOPPED_MS)
    signalAll('SIGCONT')
    await Bun.sleep(RUNNING_MS)
  }
}

const STOPPED_MS = 300
const RUNNING_MS = 15

test.each([
  ['one core kept busy', 1, false],
  ['one core kept busy', 2, false],
  ['stopped by their machine again and again', 1, true],
  ['stopped by their machine again and again', 2, true],
])(
  '300 requests at once over two nodes, %s, of %i workers: 100 fit the budget and are answered, 200 are refused by it',
  async (_, workers, starved) => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    upstream.on('m', json(200, BODY))
    await using one = await start(upstream, redis, workers)
    await using two = await start(upstream, redis, workers)
    await using _busy = burner()
    const body = { model: 'm', max_tokens: OUTPUT, messages: [{ role: 'user', content: TEXT }] }
    const asked = Array.from({ length: 300 }, (_, i) =>
      ask((i % 2 === 0 ? one : two).port, requestBytes('/v1/chat/completions', { key: KEY, body })),
    )
    if (starved) await starve([one, two], 10)
    const answers = await Promise.all(asked)
    const statuses = new Map<number, number>()
    for (const { status } of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1)
    expect(Object.fromEntries(statuses)).toEqual({ 200: 100, 429: 200 })
    expect(upstream.calls.length).toBe(100)
  },
)

test.each([
  ['three nodes over Redis', 3],
  ['one node of three workers', 1],
])("300 requests of a person at once over %s: exactly 100 fit the person's budget", async (_, nodes) => {
  await using redis = nodes > 1 ? await RedisServer.start() : undefined
  await using upstream = await Upstream.start()
  upstream.on('m', json(200, BODY))
  await using gateways = new AsyncDisposableStack()
  const started: Gateway[] = []
  for (let i = 0; i < nodes; i++) {
    started.push(gateways.use(await start(upstream, redis, nodes > 1 ? 1 : 3, BUDGETS)))
  }
  const body = { model: 'm', max_tokens: OUTPUT, messages: [{ role: 'user', content: 'hi' }] }
  const askAs = (i: number, person: string) => {
    const fields = { 'x-gateway-tags': `person=${person},team=a` }
    return ask(started[i % nodes]?.port ?? 0, requestBytes('/v1/chat/completions', { key: KEY, body, fields }))
  }
  const answers = await Promise.all(Array.from({ length: 300 }, (_, i) => askAs(i, 'ann')))
  const served = answers.filter(({ status }) => status === 200)
  expect(served.length).toBe(100)
  for (const answer of answers) {
    if (answer.status === 200) continue
    const message = expect.stringContaining("for budget 'person' of 'ann'")
    expect([answer.status, answer.json()]).toMatchObject([429, { error: { message } }])
  }
  expect(upstream.calls.length).toBe(100)
  expect((await askAs(0, 'bob')).status).toBe(200)
})

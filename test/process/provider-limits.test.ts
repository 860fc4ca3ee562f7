/** Limits of providers and targets hold over all workers and nodes, and requests wait for room in fair turns. */

import { describe, expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { config, Holding, say, waiting } from './limited-provider.ts'
import { KEY, until, Weir } from './weir.ts'

const provider = async () => {
  const upstream = await Upstream.start()
  return { upstream, [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose]() }
}

describe('a limit of concurrent requests', () => {
  test.each([
    ['one worker', 1, 1, false],
    ['two workers', 1, 2, false],
    ['two nodes of two workers', 2, 2, true],
  ])('holds over %s, and all others wait', async (_, nodes, workers, isShared) => {
    await using redis = await RedisServer.start()
    await using made = await provider()
    const holding = new Holding(made.upstream)
    const given = { workers, limits: { concurrent_requests: 3 }, ...(isShared ? { redis: redis.url } : {}) }
    await using one = await Weir.ready(config(made.upstream.url, given))
    await using other = nodes === 2 ? await Weir.ready(config(made.upstream.url, given)) : undefined
    const answers = Array.from({ length: 24 }, (_unused, i) => say(i % 2 === 0 ? one : (other ?? one)))
    for (let released = 0; released < 24; released++) {
      await holding.release()
    }
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array.from({ length: 24 }, () => 200))
    expect(holding.most).toBeLessThanOrEqual(3)
  })
})

test('a target without room is passed over, and nothing of the request reaches it', async () => {
  await using made = await provider()
  const holding = new Holding(made.upstream)
  await using weir = await Weir.ready(config(made.upstream.url, { limits: { concurrent_requests: 1 }, second: true }))
  const answers = [say(weir)]
  await until(async () => holding.running === 1)
  answers.push(say(weir))
  await until(async () => holding.running === 2)
  expect(holding.calls.map(({ model }) => model)).toEqual(['a', 's'])
  await holding.release()
  await holding.release()
  const [first, second] = await Promise.all(answers)
  expect([first?.header('x-gateway-fallback-count'), second?.header('x-gateway-fallback-count')]).toEqual(['0', '1'])
})

test('a bucket holds a sixth of a minute: who does not get room in time gets 429 with retry-after', async () => {
  await using made = await provider()
  made.upstream.otherwise(json(200, chatBody('Hello.')))
  const limits = { requests_per_minute: 30 }
  await using weir = await Weir.ready(config(made.upstream.url, { limits, queue: { max_wait_ms: 300 } }))
  const answers = await Promise.all(Array.from({ length: 12 }, () => say(weir)))
  const refused = answers.filter(({ status }) => status === 429)
  expect(answers.length - refused.length).toBeGreaterThanOrEqual(5)
  expect(refused.length).toBeGreaterThanOrEqual(5)
  for (const answer of refused) {
    expect(JSON.parse(answer.text)).toMatchObject({ error: { code: 'upstream_rate_limited' } })
    expect(Number(answer.header('retry-after'))).toBeGreaterThan(0)
  }
  expect(made.upstream.calls.length).toBe(answers.length - refused.length)
  // It does not want to wait, although the queue lets it.
  expect((await say(weir, 'hasty')).status).toBe(429)
})

test('a request larger than the bucket of tokens passes when that is full, and what follows pays it back', async () => {
  await using made = await provider()
  made.upstream.otherwise(json(200, chatBody('Hello.')))
  const limits = { tokens_per_minute: 300 }
  await using weir = await Weir.ready(config(made.upstream.url, { limits, queue: { max_wait_ms: 100 } }))
  expect((await say(weir)).status).toBe(200)
  const statuses: number[] = []
  // What the first did not use came back: fewer than all can follow at once.
  for (let i = 0; i < 8; i++) statuses.push((await say(weir)).status)
  expect(statuses).toContain(429)
})

test('what may be spent on a provider is spent once, also after a restart; nobody waits for next month', async () => {
  await using made = await provider()
  made.upstream.otherwise(json(200, chatBody('Hello.')))
  const limits = { spend: { month: 0.000_2 } }
  const text = config(made.upstream.url, { limits, queue: { max_wait_ms: 600_000 } })
  await using weir = await Weir.ready(text)
  let answered = 0
  while ((await say(weir)).status === 200) answered++
  expect(answered).toBeGreaterThan(0)
  expect(answered * 12).toBeLessThanOrEqual(200)
  weir.signal('SIGTERM')
  await weir.ended
  await using again = await Weir.ready(text, [], { folder: weir.folder })
  const refused = await say(again)
  expect([refused.status, refused.header('retry-after')]).toEqual([429, '60'])
  expect(JSON.parse(refused.text).error.code).toBe('upstream_rate_limited')
})

test('a request waits for money that one that runs may not use up, and for no longer than that', async () => {
  await using made = await provider()
  const holding = new Holding(made.upstream)
  const given = { limits: { spend: { total: 0.000_2 } }, queue: { max_wait_ms: 600_000 } }
  await using weir = await Weir.ready(config(made.upstream.url, given))
  const first = say(weir)
  await until(() => holding.running === 1)
  const [second, large] = [say(weir), say(weir, 'two', {}, ' word'.repeat(200))]
  await until(async () => (await waiting(weir)) === 2)
  await holding.release()
  await holding.release()
  expect([(await first).status, (await second).status, (await large).status]).toEqual([200, 200, 429])
  expect(holding.calls).toHaveLength(2)
})

test('a request that would wait in vain for ten minutes gets 429 at once, or another target', async () => {
  await using made = await provider()
  const limited = json(429, '{"error":{"message":"slow down"}}', { 'retry-after': '600' })
  made.upstream.on('a', limited)
  made.upstream.on('s', json(200, chatBody('Hello.')))
  const queue = { max_wait_ms: 30_000 }
  await using weir = await Weir.ready(config(made.upstream.url, { queue }))
  for (let i = 0; i < 2; i++) {
    const refused = await say(weir)
    expect([refused.status, refused.header('retry-after')]).toEqual([429, '60'])
  }
  expect(made.upstream.calls).toHaveLength(1)
  await using other = await Weir.ready(config(made.upstream.url, { queue, second: true }))
  for (let i = 0; i < 2; i++) expect((await say(other)).header('x-gateway-fallback-count')).toBe('1')
})

test.each([
  ['that it is known to have', { requests_per_minute: 600 }],
  ['that nothing is known of', undefined],
])('a request waits also if its provider does not report when the limit ends %s', async (_, limits) => {
  await using made = await provider()
  let calls = 0
  const limited = json(429, '{"error":{"message":"slow down"}}')
  made.upstream.otherwise((call) => (++calls === 1 ? limited(call) : json(200, chatBody('Hello.'))(call)))
  const given = { ...(limits && { limits }), queue: { max_wait_ms: 20_000 } }
  await using weir = await Weir.ready(config(made.upstream.url, given))
  expect([(await say(weir)).status, calls]).toEqual([200, 2])
})

describe.each([1, 2])('with %i workers', (workers) => {
  test("a request that is over its provider's limit waits for that, and so do those after it", async () => {
    await using made = await provider()
    let calls = 0
    const limited = json(429, '{"error":{"message":"slow down"}}', { 'retry-after': '1' })
    made.upstream.otherwise((call) => (++calls === 1 ? limited(call) : json(200, chatBody('Hello.'))(call)))
    await using weir = await Weir.ready(config(made.upstream.url, { workers, queue: { max_wait_ms: 20_000 } }))
    const answers = await Promise.all(Array.from({ length: 4 }, () => say(weir)))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  })

  test('a target that is called although it rests keeps to its limit', async () => {
    await using made = await provider()
    let [running, most] = [0, 0]
    made.upstream.otherwise(async (call) => {
      most = Math.max(most, ++running)
      await Bun.sleep(100)
      running--
      await json(500, '{"error":{"message":"broken"}}')(call)
    })
    const given = { workers, limits: { concurrent_requests: 1 }, queue: { max_wait_ms: 20_000 } }
    await using weir = await Weir.ready(config(made.upstream.url, given))
    for (let i = 0; i < 3; i++) await say(weir)
    const answers = await Promise.all(Array.from({ length: 5 }, () => say(weir)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([502]))
    expect([most, made.upstream.calls.length]).toEqual([1, 8])
  })
})

test('who waits for a limit that a reload takes away goes on', async () => {
  await using made = await provider()
  const holding = new Holding(made.upstream)
  await using weir = await Weir.ready(config(made.upstream.url, { limits: { concurrent_requests: 1 } }))
  const answers = [say(weir), say(weir), say(weir)]
  await until(async () => (await waiting(weir)) === 2)
  await writeFile(join(weir.folder, 'weir.yaml'), config(made.upstream.url, {}))
  weir.signal('SIGHUP')
  await until(async () => holding.running === 3)
  for (let released = 0; released < 3; released++) await holding.release()
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200])
})

describe('turns', () => {
  test('one request of another organisation waits for at most one slot, and batch goes last', async () => {
    await using made = await provider()
    const holding = new Holding(made.upstream)
    await using weir = await Weir.ready(config(made.upstream.url, { limits: { concurrent_requests: 1 } }))
    const answers = [say(weir)]
    await until(async () => holding.running === 1)
    for (let i = 0; i < 15; i++) answers.push(say(weir, 'slow'))
    for (let i = 0; i < 15; i++) answers.push(say(weir))
    answers.push(say(weir, 'two', { 'x-gateway-priority': 'batch' }))
    await until(async () => (await waiting(weir)) === 31)
    answers.push(say(weir, 'two'))
    for (let released = 0; released < 33; released++) await holding.release()
    expect((await Promise.all(answers)).every(({ status }) => status === 200)).toBe(true)
    expect(holding.senders.indexOf('two')).toBeLessThanOrEqual(12)
  })

  test('a caller that leaves leaves the queue', async () => {
    await using made = await provider()
    const holding = new Holding(made.upstream)
    await using weir = await Weir.ready(config(made.upstream.url, { limits: { concurrent_requests: 1 } }))
    const first = say(weir)
    await until(async () => holding.running === 1)
    const leaving = new AbortController()
    const left = fetch(`${weir.address}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${KEY}-one`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Hi from left' }] }),
      signal: leaving.signal,
    }).catch(() => undefined)
    await until(async () => (await waiting(weir)) === 1)
    leaving.abort()
    await left
    await until(async () => (await waiting(weir)) === 0)
    await holding.release()
    expect((await first).status).toBe(200)
    const next = say(weir)
    await holding.release()
    expect([(await next).status, holding.senders]).toEqual([200, ['one', 'one']])
  })
})

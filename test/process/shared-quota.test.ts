/** Limits of providers with real nodes: a quota that others use, too, Redis that hangs, and every kind of request. */

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { SocketClient } from '../support/socket-client.ts'
import { Upstream } from '../support/upstream.ts'
import { KEY, until, Weir } from './weir.ts'

const TOKEN = 'admin-token-0123456789'
const IMAGE = '{"created":1,"data":[{"b64_json":"iVBORw0KGgo="}]}'
const VECTOR =
  '{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":2}}'

function config(url: string, limits: JsonObject, more: JsonObject = {}, redis?: string): string {
  const target = (model: string) => [{ provider: 'up', model }]
  return JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0, token: TOKEN },
    workers: 1,
    ledger: redis === undefined ? 'embedded' : { redis },
    data_dir: './data',
    routing: { probe: false },
    providers: { up: { dialect: 'openai', base_url: url, api_key: 'k', limits } },
    models: [
      { name: 'm', targets: target('a'), default_output_tokens: 100 },
      { name: 'vectors', targets: target('v'), supports: ['embeddings'] },
      { name: 'brush', targets: target('i'), supports: ['image_generation'] },
    ],
    organizations: [{ id: 'acme', keys: [{ id: 'k', key: KEY }] }],
    ...more,
  })
}

function send(weir: Weir, body: JsonObject = {}, path = '/v1/chat/completions') {
  const whole = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...body }
  return ask(Number(new URL(weir.address).port), requestBytes(path, { key: KEY, body: whole }))
}

const countOf = (answers: readonly { readonly status: number }[], status: number) =>
  answers.filter((answer) => answer.status === status).length

/** A provider with a quota of requests a minute that comes back evenly, of which others have used the most. */
class Quota {
  refused = 0
  private level = 0
  private atMs = 0

  constructor(
    readonly perMinute: number,
    upstream: Upstream,
  ) {
    this.use()
    upstream.otherwise((call) => {
      const nowMs = performance.now()
      this.level = Math.min(perMinute, this.level + ((nowMs - this.atMs) * perMinute) / 60_000)
      this.atMs = nowMs
      const isRefused = this.level < 1
      if (isRefused) this.refused++
      else this.level--
      const fields = {
        'x-ratelimit-limit-requests': String(perMinute),
        'x-ratelimit-remaining-requests': String(Math.floor(this.level)),
        'x-ratelimit-reset-requests': `${Math.round(((perMinute - this.level) * 60_000) / perMinute)}ms`,
      }
      const answer = isRefused
        ? json(429, '{"error":{"message":"slow down"}}', { ...fields, 'retry-after': '1' })
        : json(200, chatBody('Hello.'), fields)
      return answer(call)
    })
  }

  /** Others take all but this. */
  use(level = 100): void {
    this.level = level
    this.atMs = performance.now()
  }
}

async function metrics(weir: Weir): Promise<string> {
  return await (await fetch(`${weir.admin}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } })).text()
}

async function knowEachOther(nodes: readonly Weir[]): Promise<void> {
  for (const node of nodes) await until(async () => (await metrics(node)).includes(`weir_nodes ${nodes.length}\n`))
}

test('four nodes use a quota that others have nearly used up, without a 429', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const quota = new Quota(3000, upstream)
  const text = config(upstream.url, { requests_per_minute: 3000 }, { queue: { max_wait_ms: 60_000 } }, redis.url)
  const nodes = await Promise.all([1, 2, 3, 4].map(() => Weir.ready(text)))
  try {
    const [first] = nodes
    if (first === undefined) throw new Error('no node')
    quota.use()
    expect((await send(first)).status).toBe(200)
    // The others hear of it.
    for (const node of nodes) await until(async () => (await metrics(node)).includes('unit="reported.requests"'))
    quota.use()
    await send(first)
    const answers = await Promise.all(nodes.flatMap((node) => Array.from({ length: 30 }, () => send(node))))
    expect([countOf(answers, 200), quota.refused]).toEqual([120, 0])
  } finally {
    for (const node of nodes) await node[Symbol.asyncDispose]()
  }
})

test('two nodes share 120 requests a minute; while Redis hangs each keeps to its half', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  upstream.otherwise(json(200, chatBody('Hello.')))
  const more = { queue: { max_wait_ms: 0 }, ledger_unreachable: 'allow' }
  const text = config(upstream.url, { requests_per_minute: 120 }, more, redis.url)
  await using one = await Weir.ready(text)
  await using other = await Weir.ready(text)
  await knowEachOther([one, other])
  await until(async () => (await send(one)).status === 429 && (await send(other)).status === 429)
  const [beganMs, before] = [performance.now(), upstream.calls.length]
  const burst = () => Promise.all(Array.from({ length: 60 }, (_, i) => send(i % 2 === 0 ? one : other)))
  const answers = await burst()
  const mostIn = (ms: number) => 20 + (ms * 120) / 60_000 + 4
  expect(countOf(answers, 200) + countOf(answers, 429)).toBe(60)
  expect(upstream.calls.length - before).toBeLessThanOrEqual(mostIn(performance.now() - beganMs))
  redis.signal('SIGSTOP')
  const hung = [...(await burst()), ...(await burst())]
  expect(countOf(hung, 200) + countOf(hung, 429)).toBe(120)
  expect(countOf(hung, 429)).toBeGreaterThan(0)
  expect(upstream.calls.length - before).toBeLessThanOrEqual(mostIn(performance.now() - beganMs) + 20)
  // One that starts now keeps to the half of which its folder knows; a new one takes 2 %, or one request.
  const { folder } = other
  other.signal('SIGKILL')
  await other.ended
  for (const [start, least, most] of [
    [{ folder }, 5, 10],
    [{}, 1, 1],
  ] as const) {
    await using late = await Weir.ready(text, [], start)
    const [sinceMs, earlier] = [performance.now(), upstream.calls.length]
    await Promise.all(Array.from({ length: 40 }, () => send(late)))
    const part = least === 1 ? 2.4 : 60
    expect(upstream.calls.length - earlier).toBeWithin(
      least,
      most + Math.ceil(((performance.now() - sinceMs) * part) / 60_000) + 1,
    )
  }
  redis.signal('SIGCONT')
})

test('a node that is flooded delays the single request of another node by one slot at most', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const running: (() => void)[] = []
  const begun: string[] = []
  upstream.otherwise(async (call) => {
    begun.push(JSON.stringify(call.json['messages']))
    await new Promise<void>((resolve) => running.push(resolve))
    await json(200, chatBody('Hello.'))(call)
  })
  const text = config(upstream.url, { concurrent_requests: 2 }, { queue: { max_wait_ms: 60_000 } }, redis.url)
  await using one = await Weir.ready(text)
  await using other = await Weir.ready(text)
  await knowEachOther([one, other])
  const flood = Array.from({ length: 8 }, () => send(one))
  await until(async () => (await metrics(one)).includes('weir_queue_waiting{class="interactive"} 6'))
  const single = send(other, { messages: [{ role: 'user', content: 'single' }] })
  await until(async () => (await metrics(other)).includes('weir_queue_waiting{class="interactive"} 1'))
  for (let released = 0; released < 9; released++) {
    await until(async () => begun.length === Math.min(9, released + 2))
    running.shift()?.()
  }
  expect((await Promise.all([single, ...flood])).map(({ status }) => status)).toEqual(Array(9).fill(200))
  // Two ran already.
  expect(begun.findIndex((messages) => messages.includes('single'))).toBeWithin(2, 4)
})

test('organisations that wait at different nodes have turns by weight', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const running: (() => void)[] = []
  const begun: string[] = []
  upstream.otherwise(async (call) => {
    begun.push(String((call.json['messages'] as JsonObject[])[0]?.['content']))
    await new Promise<void>((resolve) => running.push(resolve))
    await json(200, chatBody('Hello.'))(call)
  })
  const organizations = [
    { id: 'light', keys: [{ id: 'k', key: `${KEY}-light` }] },
    { id: 'heavy', weight: 3, keys: [{ id: 'k2', key: `${KEY}-heavy` }] },
  ]
  const more = { queue: { max_wait_ms: 60_000 }, organizations }
  const text = config(upstream.url, { concurrent_requests: 1 }, more, redis.url)
  await using one = await Weir.ready(text)
  await using other = await Weir.ready(text)
  await knowEachOther([one, other])
  const flood = (weir: Weir, name: string) =>
    Array.from({ length: 9 }, () => {
      const body = { model: 'm', messages: [{ role: 'user', content: name }] }
      const request = requestBytes('/v1/chat/completions', { key: `${KEY}-${name}`, body })
      return ask(Number(new URL(weir.address).port), request)
    })
  const waiting = (weir: Weir, count: number) =>
    until(async () => (await metrics(weir)).includes(`weir_queue_waiting{class="interactive"} ${count}`))
  const light = flood(one, 'light')
  await waiting(one, 8)
  const heavy = flood(other, 'heavy')
  await waiting(other, 9)
  for (let released = 0; released < 18; released++) {
    await until(async () => begun.length === released + 1)
    running.shift()?.()
  }
  expect((await Promise.all([...light, ...heavy])).map(({ status }) => status)).toEqual(Array(18).fill(200))
  // The first was light's, and 3 of 4 are heavy's.
  expect(begun.slice(0, 8).filter((name) => name === 'heavy')).toHaveLength(6)
})

test('images, embeddings and turns on sockets keep to the limits, and wait, as all others', async () => {
  await using upstream = await Upstream.start()
  let [running, most] = [0, 0]
  const held: (() => void)[] = []
  upstream.otherwise(async (call) => {
    most = Math.max(most, ++running)
    await new Promise<void>((resolve) => held.push(resolve))
    running--
    const body = call.model === 'v' ? VECTOR : call.model === 'i' ? IMAGE : chatBody('Hello.')
    await json(200, body)(call)
  })
  await using weir = await Weir.ready(config(upstream.url, { concurrent_requests: 1 }))
  await using socket = await SocketClient.open(Number(new URL(weir.address).port), KEY)
  const answers = [
    send(weir, { model: 'vectors', input: 'hi' }, '/v1/embeddings'),
    send(weir, { model: 'brush', prompt: 'a weir' }, '/v1/images/generations'),
    send(weir),
  ]
  socket.send({ type: 'response.create', model: 'm', input: 'hi' })
  await until(async () => (await metrics(weir)).includes('weir_queue_waiting{class="interactive"} 3'))
  for (let released = 0; released < 4; released++) {
    await until(async () => held.length > 0)
    held.shift()?.()
  }
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200])
  // The provider answers a stream whole: the turn has run, whatever became of it.
  await socket.next()
  expect([most, upstream.calls.length]).toEqual([1, 4])
})

test('beyond max_waiting a request is refused at once; keys of commands have their own class and wait', async () => {
  await using upstream = await Upstream.start()
  const held: (() => void)[] = []
  upstream.otherwise(async (call) => {
    await new Promise<void>((resolve) => held.push(resolve))
    await json(200, chatBody('Hello.'))(call)
  })
  const queue = { max_wait_ms: 60_000, max_waiting: 2 }
  await using weir = await Weir.ready(config(upstream.url, { concurrent_requests: 1 }, { queue }))
  const running = send(weir)
  await until(async () => held.length === 1)
  const made = async (id: string, more: JsonObject) => {
    const answer = await fetch(`${weir.admin}/api/keys`, {
      method: 'POST',
      headers: { authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify({ organization: 'acme', id, ...more }),
    })
    const { secret } = JSON.parse(await answer.text())
    return (fields = {}) =>
      ask(
        Number(new URL(weir.address).port),
        requestBytes('/v1/chat/completions', {
          key: String(secret),
          body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
          fields,
        }),
      )
  }
  const [low, hasty] = [await made('low', { priority: 'batch' }), await made('hasty', { max_wait_ms: 0 })]
  let known = await hasty()
  while (known.status === 401) known = await hasty()
  expect(known.status).toBe(429)
  const batch = [low(), low()]
  await until(async () => (await metrics(weir)).includes('weir_queue_waiting{class="batch"} 2'))
  expect((await low()).status).toBe(429)
  const urgent = send(weir)
  // One of the lower class makes way.
  const shed = await Promise.race(batch)
  expect(shed.status).toBe(429)
  // Each is counted once: the one that came too late, and the one that made way.
  await until(async () => (await metrics(weir)).includes('weir_queue_shed_total{class="batch"} 2\n'))
  for (let released = 0; released < 3; released++) {
    await until(async () => held.length > 0)
    held.shift()?.()
  }
  expect([(await running).status, (await urgent).status]).toEqual([200, 200])
  expect((await Promise.all(batch)).map(({ status }) => status).sort()).toEqual([200, 429])
})

/** References to items across workers and across gateways, over a real Redis. */

import { expect, test } from 'bun:test'
import net from 'node:net'
import { createInterface } from 'node:readline'
import { Redis } from 'ioredis'
import { until } from '../process/weir.ts'
import { textOf } from '../support/bytes.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

/** A reply may take as long as a busy machine needs. */
const redisLedger = ({ url }: RedisServer) => ({ redis: url, timeout_ms: 10_000 })

test.each(['Redis', 'embedded'])('%s: every worker finds the items that another worker sent', async (kind) => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  upstream.on('m', json(200, chatBody('The word is plum.')))
  await using gateway = await Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: ['up/m'] },
    config: { ledger: kind === 'Redis' ? redisLedger(redis) : kind, workers: 2 },
  })
  const post = async (input: unknown) => {
    const body = JSON.stringify({ model: 'm', input })
    return await ask(gateway.port, requestBytes('/v1/responses', { key: KEY, body }))
  }
  const { output } = JSON.parse((await post('Say a word.')).text)
  const reference = { type: 'item_reference', id: output[0].id }
  // Each request has its own connection: the kernel distributes them over the workers.
  for (let turn = 0; turn < 12; turn++) {
    expect((await post([reference, { role: 'user', content: 'Again.' }])).status).toBe(200)
    expect(textOf(upstream.calls.at(-1)?.body ?? new Uint8Array())).toContain('The word is plum.')
  }
  const unknown = await post([
    { type: 'item_reference', id: 'msg_of_nobody' },
    { role: 'user', content: 'x' },
  ])
  expect([unknown.status, unknown.text]).toEqual([400, expect.stringContaining('store')])
})

test('responses.redis: gateways with embedded ledgers share items, and this Redis holds nothing else', async () => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  upstream.on('m', json(200, chatBody('The word is plum.')))
  const setup = {
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: ['up/m'] },
    config: { responses: { redis: redis.url }, compaction: { keys: [Buffer.alloc(32, 7).toString('base64')] } },
  }
  await using one = await Gateway.start(setup)
  await using other = await Gateway.start(setup)
  const post = async (port: number, input: unknown) => {
    const body = JSON.stringify({ model: 'm', input })
    return await ask(port, requestBytes('/v1/responses', { key: KEY, body }))
  }
  const client = new Redis(redis.url)
  let keys: string[] = []
  let reference: unknown
  // An item reaches Redis after the answer, and not before the gateway has connected.
  while (keys.length < 2) {
    reference = { type: 'item_reference', id: JSON.parse((await post(one.port, 'Say a word.')).text).output[0].id }
    keys = await client.keys('*')
  }
  client.disconnect()
  expect(keys.filter((key) => !key.startsWith('weir:items:'))).toEqual([])
  expect((await post(other.port, [reference, { role: 'user', content: 'Again.' }])).status).toBe(200)
  expect(textOf(upstream.calls.at(-1)?.body ?? new Uint8Array())).toContain('The word is plum.')
})

test.each(['Redis', 'embedded'])('%s: thoughts outlive the worker that kept them', async (kind) => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'sealed-by-the-provider' }
  const call_id = 'call_0123456789ABCDEFGHIJ'
  const called = { type: 'function_call', id: 'fc_1', call_id, name: 'look', arguments: '{}' }
  upstream.otherwise(json(200, JSON.stringify({ status: 'completed', output: [reasoning, called] })))
  const setup = {
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x', api: 'responses' } },
    models: { m: ['up/gpt-6-sol'] },
    config: {
      ledger: kind === 'Redis' ? redisLedger(redis) : kind,
      workers: 2,
      compaction: { keys: [Buffer.alloc(32, 7).toString('base64')] },
    },
  }
  await using gateway = await Gateway.start(setup)
  const tools = [{ type: 'function', function: { name: 'look' } }]
  const history = [
    { role: 'user', content: 'Look.' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: call_id, type: 'function', function: { name: 'look', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: call_id, content: 'seen' },
  ]
  const isGivenBack = async (messages: readonly object[], port = gateway.port) => {
    const body = { model: 'm', messages, tools }
    expect((await ask(port, requestBytes('/v1/chat/completions', { key: KEY, body }))).status).toBe(200)
    return textOf(upstream.calls.at(-1)?.body ?? new Uint8Array()).includes('sealed-by-the-provider')
  }
  // As long as nothing thinks, nothing is looked up; that ends with the first thought, at every worker.
  upstream.otherwise(json(200, JSON.stringify({ status: 'completed', output: [called] })))
  for (let turn = 0; turn < 24; turn++) expect(await isGivenBack(history)).toBe(false)
  upstream.otherwise(json(200, JSON.stringify({ status: 'completed', output: [reasoning, called] })))
  // Thoughts reach Redis after the answer, and not before the worker has connected.
  do await isGivenBack(history.slice(0, 1))
  while (!(await isGivenBack(history)))
  for (let turn = 0; turn < 8; turn++) expect(await isGivenBack(history)).toBe(true)
  for (const line of gateway.lines.filter(({ event }) => event === 'worker.started'))
    process.kill(Number(line['pid']), 'SIGKILL')
  await gateway.line(({ event }) => event === 'worker.died')
  expect(await isGivenBackOnceServed()).toBe(true)
  if (kind !== 'Redis') return
  await using other = await Gateway.start(setup)
  await until(() => isGivenBack(history, other.port))
  for (let turn = 0; turn < 8; turn++) expect(await isGivenBack(history, other.port)).toBe(true)
  // A look-up goes out on the connection of the reservations.
  // Not with ioredis: it fails on what Redis reports in the same packet as that it now does.
  const { hostname, port } = new URL(redis.url)
  const monitor = net.connect(Number(port), hostname)
  const sources = new Set<string>()
  createInterface(monitor).on('line', (line) => {
    const source = /\[\d+ (\S+)\] "evalsha" "\w+" "\d+" "weir:thoughts:[^"]*" "[^"]*" "call:/i.exec(line)?.[1]
    if (source !== undefined) sources.add(source)
  })
  monitor.write('MONITOR\r\n')
  while (sources.size === 0) await isGivenBack(history)
  monitor.destroy()
  const watcher = new Redis(redis.url)
  const clients = String(await watcher.call('CLIENT', 'LIST')).split('\n')
  watcher.disconnect()
  const named = clients.filter((line) => [...sources].some((source) => line.includes(` addr=${source} `)))
  expect(named.map((line) => / name=(\S*)/.exec(line)?.[1])).toEqual([...sources].map(() => 'weir-reserve'))
  const client = new Redis(redis.url)
  const key = (await client.keys('weir:thoughts:*')).find((one) => !one.endsWith(':order')) ?? ''
  const stored = Object.values(await client.hgetall(key)).join()
  client.disconnect()
  expect(stored).not.toContain('sealed-by-the-provider')

  /** A new worker accepts a moment after the old one has died. */
  async function isGivenBackOnceServed(): Promise<boolean> {
    for (;;) {
      const body = { model: 'm', messages: history, tools }
      const answer = await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body })).catch(
        () => undefined,
      )
      if (answer?.status === 200)
        return textOf(upstream.calls.at(-1)?.body ?? new Uint8Array()).includes('sealed-by-the-provider')
      await Bun.sleep(20)
    }
  }
})

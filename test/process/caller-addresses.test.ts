/** The address of a caller that connects through a proxy or a load balancer, in log lines and the audit. */

import { expect, test } from 'bun:test'
import { Caller, requestBytes } from '../support/caller.ts'
import { ipv4Header, proxyHeader } from '../support/proxy-header.ts'
import { RedisServer } from '../support/redis.ts'
import { COST_MICRO_USD, pacedProvider, pricedConfiguration, SteadyLoad, usageOf } from './steady-load.ts'
import { KEY, type Line, PROGRAM, until, Weir } from './weir.ts'

const body = { model: 'small', messages: [{ role: 'user', content: 'Hello' }] }

/** A gateway whose `listen` has more settings. */
async function gateway(listen: string, baseUrl: string, ledger: string, workers = 1): Promise<Weir> {
  const config = pricedConfiguration(baseUrl, ledger).replace('listen: { port: 0 }', `listen: { port: 0, ${listen} }`)
  return await Weir.ready(config, ['--workers', String(workers)])
}

const portOf = (weir: Weir) => Number(new URL(weir.address).port)

/** The rows of `weir audit` by request, when there are `count` of them. */
async function audited(weir: Weir, count: number): Promise<ReadonlyMap<unknown, Line>> {
  for (;;) {
    const child = Bun.spawn([...PROGRAM, 'audit', '--json'], { cwd: weir.folder, stdout: 'pipe' })
    const lines = (await child.stdout.text()).trim().split('\n')
    const rows: readonly Line[] = lines.flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
    if (rows.length >= count) return new Map(rows.map((row) => [row['request_id'], row]))
    await Bun.sleep(50)
  }
}

test.each([
  ['Redis', 1],
  ['embedded', 1],
  ['embedded', 2],
] as const)('ledger %s, workers %d: a trusted proxy reports the caller', async (kind, workers) => {
  await using redis = await RedisServer.start()
  using upstream = pacedProvider(0)
  const ledger = kind === 'Redis' ? `{ redis: "${redis.url}" }` : 'embedded'
  await using weir = await gateway('trusted_proxies: [127.0.0.2]', upstream.baseUrl, ledger, workers)
  const expected = ['198.51.100.1', '127.0.0.3', '2001:db8::9']
  const asked: readonly (readonly [from: string, headers: Record<string, string>, status: number])[] = [
    ['127.0.0.2', { 'x-forwarded-for': '203.0.113.5, 198.51.100.1' }, 200],
    ['127.0.0.3', { 'x-forwarded-for': '198.51.100.1' }, 200],
    ['127.0.0.2', { forwarded: 'for="[2001:db8::9]:4711"' }, 200],
    ['127.0.0.2', { 'x-forwarded-for': '198.51.100.2' }, 401],
  ]
  const ids: (string | undefined)[] = []
  for (const [from, headers, status] of asked) {
    await using caller = await Caller.connect(portOf(weir), from)
    const key = status === 401 ? 'no-such-key-000000' : KEY
    caller.send(requestBytes('/v1/chat/completions', { key, body, fields: headers }))
    const answer = await caller.answer()
    expect(answer.status).toBe(status)
    ids.push(answer.header('x-request-id'))
  }
  await until(() => weir.all('request').length >= asked.length)
  const logged = new Map(weir.all('request').map((line) => [line['request_id'], line['remote']]))
  expect(ids.map((id) => logged.get(id))).toEqual([...expected, '198.51.100.2'])
  const rows = await audited(weir, 3)
  expect(ids.slice(0, 3).map((id) => rows.get(id)?.['remote'])).toEqual(expected)
})

test('with the PROXY protocol each connection names its source', async () => {
  using upstream = pacedProvider(0)
  await using weir = await gateway('proxy_protocol: true, trusted_proxies: [192.0.2.7]', upstream.baseUrl, 'embedded')
  const local = proxyHeader({ versionAndCommand: 0x20, family: 0, rest: Buffer.alloc(0) })
  for (const [opening, forwarded, expected] of [
    [ipv4Header(9), '198.51.100.1', '192.0.2.9'],
    // A proxy in front of the load balancer.
    [ipv4Header(7), '198.51.100.1', '198.51.100.1'],
    [local, '198.51.100.1', '127.0.0.1'],
  ] as const) {
    await using caller = await Caller.connect(portOf(weir))
    const sent = requestBytes('/v1/chat/completions', { key: KEY, body, fields: { 'x-forwarded-for': forwarded } })
    // Cut within the header.
    caller.send(opening.subarray(0, 7))
    caller.send(Buffer.concat([opening.subarray(7), sent]))
    const ids = [(await caller.answer()).header('x-request-id')]
    // The next request of the connection.
    caller.send(sent)
    ids.push((await caller.answer()).header('x-request-id'))
    await until(() => ids.every((id) => weir.all('request').some((line) => line['request_id'] === id)))
    const lines = weir.all('request').filter((line) => ids.includes(String(line['request_id'])))
    expect(lines.map((line) => line['remote'])).toEqual([expected, expected])
  }
})

test('a connection without the header is closed', async () => {
  using upstream = pacedProvider(0)
  await using weir = await gateway('proxy_protocol: true', upstream.baseUrl, 'embedded')
  await using caller = await Caller.connect(portOf(weir))
  caller.send(requestBytes('/v1/chat/completions', { key: KEY, body }))
  await expect(caller.answer()).rejects.toThrow('the connection ended without an answer')
  expect(weir.all('request')).toEqual([])
})

test('a caller that leaves ends its request, and workers are replaced without a failure', async () => {
  using upstream = pacedProvider(2)
  await using weir = await gateway('proxy_protocol: true', upstream.baseUrl, 'embedded')
  {
    await using caller = await Caller.connect(portOf(weir))
    caller.send(
      Buffer.concat([
        ipv4Header(1),
        requestBytes('/v1/chat/completions', { key: KEY, body: { ...body, stream: true } }),
      ]),
    )
    await caller.until('data: ')
  }
  await until(() => weir.all('request').length === 1)
  expect(weir.all('request')[0]).toMatchObject({ outcome: 'caller_left', remote: '192.0.2.1' })
  const { cost_micro_usd: leftCost } = await usageOf(weir)
  const load = new SteadyLoad({
    ...{ port: portOf(weir), streams: 5, connectionsPerSecond: 30, kept: 5 },
    opening: ipv4Header(9),
  })
  for (let count = 1; count <= 2; count++) {
    await until(() => load.answered > 30 * count)
    weir.signal('SIGUSR2')
    await weir.line('workers replaced', count)
  }
  await load.finish()
  expect(load.failures.slice(0, 5)).toEqual([])
  await until(async () => (await weir.workers()).length === 1)
  expect(await usageOf(weir)).toEqual({
    requests: load.answered + 1,
    cost_micro_usd: load.answered * COST_MICRO_USD + leftCost,
  })
})

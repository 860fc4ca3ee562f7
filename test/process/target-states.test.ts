/** What the running program shows its operator of targets: states, models that are down, and when they are up again. */

import { expect, test } from 'bun:test'
import type { Status, TargetRow } from '../../src/admin/api-shapes.ts'
import { stringOf } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { closedPort, Upstream } from '../support/upstream.ts'

async function stage(workers: number) {
  const upstream = await Upstream.start({ good: does.answersText('Hi'), bad: does.json(500, '{}') })
  const gateway = await Gateway.start({
    providers: { up: upstream.url, gone: `http://127.0.0.1:${await closedPort()}/v1` },
    models: { good: ['up/good'], 'gpt-5-mini': ['up/bad'], pair: ['up/bad', 'gone/m'], never: ['up/never'] },
    config: { workers, routing: { probe: false } },
  })
  const json = async (path: string) => Object(await (await fetch(`${gateway.adminUrl}${path}`)).json())
  return {
    upstream,
    gateway,
    send: async (model: string) => {
      const body = { model, messages: [{ role: 'user', content: 'hi' }] }
      return (await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))).status
    },
    status: async (): Promise<Status> => await json('/api/status'),
    states: async (): Promise<Readonly<Record<string, string>>> => {
      const { rows }: { rows: readonly TargetRow[] } = await json('/api/targets')
      return Object.fromEntries(rows.map(({ provider, model, state }) => [`${provider}/${model}`, state]))
    },
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

/** Asks until it is so. */
async function until<T>(read: () => Promise<T>, isSo: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await read()
    if (isSo(value)) return value
    await Bun.sleep(20)
  }
}

test.each([1, 2])(
  'with %d workers: an idle target that failed is asked for its models, until it answers',
  async (workers) => {
    const upstream = await Upstream.start()
    const { port } = upstream
    await upstream[Symbol.asyncDispose]()
    await using gateway = await Gateway.start({
      providers: { up: { dialect: 'openai', base_url: `http://127.0.0.1:${port}/v1`, api_key: 'k' } },
      models: { m: ['up/m'] },
      config: { workers },
    })
    const rowOf = async (): Promise<TargetRow> => {
      const { rows } = Object(await (await fetch(`${gateway.adminUrl}/api/targets`)).json())
      return rows[0]
    }
    const body = { model: 'm', messages: [{ role: 'user', content: 'hi' }] }
    await until(
      async () => {
        await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
        return await rowOf()
      },
      ({ state }) => state === 'resting',
    )
    await gateway.line(({ event }) => event === 'model.down')
    await using again = await Upstream.start({}, port)
    again.list = (call) => call.answer(200, '{"data":[]}')
    expect(await until(rowOf, ({ state }) => state === 'healthy')).toMatchObject({ reason: null, since: null })
    await gateway.line(({ event }) => event === 'model.up')
    // No request was made for it.
    expect(again.calls).toEqual([])
    expect(again.lists.length).toBeGreaterThan(0)
    const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
    expect(metrics).toContain('\nweir_target_state{provider="up",model="m",state="healthy"} 1\n')
  },
)

test('with 4 workers: three failed calls in a row are an outage, whichever workers made them', async () => {
  await using on = await stage(4)
  for (let call = 0; call < 3; call++) expect(await on.send('gpt-5-mini')).toBe(502)
  const { problems, targets } = await until(on.status, (status) => status.problems.length > 0)
  expect(problems).toMatchObject([
    {
      kind: 'model',
      message: expect.stringMatching(/^gpt-5-mini is down: its only target up\/bad answers 500 since /),
    },
  ])
  expect((targets['failing'] ?? 0) + (targets['resting'] ?? 0) + (targets['probing'] ?? 0)).toBe(1)
  await on.gateway.line(({ event }) => event === 'model.down')
  on.upstream.on('bad', does.answersText('Hi'))
  await until(
    async () => {
      await on.send('gpt-5-mini')
      return await on.status()
    },
    ({ problems }) => problems.length === 0,
  )
  await on.gateway.line(({ event }) => event === 'model.up')
})

test.each([1, 2])(
  'with %d workers: a target that breaks off every stream is down until one comes whole',
  async (workers) => {
    await using on = await stage(workers)
    on.upstream.on('good', does.stream(does.chatFrames(['Hi']).slice(0, 2)))
    const stream = async () => {
      const body = { model: 'good', stream: true, messages: [{ role: 'user', content: 'hi' }] }
      return (await ask(on.gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))).end
    }
    const { problems } = await until(
      async () => {
        expect(await stream()).toBe('cut')
        return await on.status()
      },
      ({ problems }) => problems.length > 0,
    )
    expect(problems).toMatchObject([
      { message: expect.stringMatching(/^good is down: its only target up\/good breaks its answers off since /) },
    ])
    await on.gateway.line(({ event }) => event === 'model.down')
    // It stays down, although each stream has its first content.
    for (let call = 0; call < 5; call++) expect(await stream()).toBe('cut')
    expect((await on.status()).problems).toHaveLength(1)
    const metrics = await (await fetch(`${on.gateway.adminUrl}/metrics`)).text()
    expect(metrics).toMatch(/^weir_requests_total\{[^}]*outcome="provider_cut",error="upstream_failed"[^}]*\} [1-9]/m)
    expect(metrics).toContain('\nweir_target_state{provider="up",model="good",state="healthy"} 0\n')
    on.upstream.on('good', does.stream(does.chatFrames(['Hi'])))
    await until(
      async () => {
        await stream()
        return await on.states()
      },
      (states) => states['up/good'] === 'healthy',
    )
    expect((await on.status()).problems).toEqual([])
    await on.gateway.line(({ event }) => event === 'model.up')
  },
)

test.each([1, 2])(
  'with %d workers: streams that break off are reported although whole answers work',
  async (workers) => {
    await using on = await stage(workers)
    const whole = does.answersText('Hi')
    const cut = does.stream(does.chatFrames(['Hi']).slice(0, 2))
    on.upstream.on('good', (call) => (call.json['stream'] === true ? cut(call) : whole(call)))
    const stream = async () => {
      const body = { model: 'good', stream: true, messages: [{ role: 'user', content: 'hi' }] }
      return (await ask(on.gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))).end
    }
    const { problems } = await until(
      async () => {
        expect([await stream(), await on.send('good')]).toEqual(['cut', 200])
        return await on.status()
      },
      ({ problems }) => problems.length > 0,
    )
    const message = /^good is down for streams: its only target up\/good breaks its streams off .*since \d\d:\d\d\.$/
    expect(problems).toMatchObject([{ message: expect.stringMatching(message) }])
    await on.gateway.line(({ event }) => event === 'model.down')
    for (let call = 0; call < 5; call++) expect([await stream(), await on.send('good')]).toEqual(['cut', 200])
    expect((await on.states())['up/good']).toBe('failing')
    on.upstream.on('good', (call) =>
      (call.json['stream'] === true ? does.stream(does.chatFrames(['Hi'])) : whole)(call),
    )
    expect(await stream()).toBe('whole')
    await on.gateway.line(({ event }) => event === 'model.up')
    expect((await on.status()).problems).toEqual([])
    expect((await on.states())['up/good']).toBe('healthy')
  },
)

test.each([1, 2])('with %d workers: from unknown to down, and up again', async (workers) => {
  await using on = await stage(workers)
  const unknown = { 'up/good': 'unknown', 'up/bad': 'unknown', 'up/never': 'unknown', 'gone/m': 'unknown' }
  expect(await on.states()).toEqual(unknown)
  expect(await on.status()).toMatchObject({ ready: true, targets: { unknown: 4, healthy: 0 }, problems: [] })

  expect(await on.send('good')).toBe(200)
  expect(await on.send('gpt-5-mini')).toBe(502)
  await until(on.states, (states) => states['up/good'] === 'healthy' && states['up/bad'] === 'failing')
  // One failure is no outage.
  expect((await on.status()).problems).toEqual([])

  const down = /^gpt-5-mini is down: its only target up\/bad answers 500 since \d\d:\d\d\.$/
  await until(
    async () => {
      await on.send('gpt-5-mini')
      return await on.status()
    },
    ({ problems }) => problems.some(({ kind, message }) => kind === 'model' && down.test(message)),
  )
  expect((await on.states())['up/bad']).toBeOneOf(['resting', 'probing'])
  const metrics = await (await fetch(`${on.gateway.adminUrl}/metrics`)).text()
  expect(metrics).toContain('\nweir_target_state{provider="up",model="never",state="unknown"} 1\n')
  expect(metrics).toContain('\nweir_target_state{provider="up",model="bad",state="healthy"} 0\n')
  const eventOf = (event: string, model: string) =>
    on.gateway.line((line) => line['event'] === event && line['model'] === model)
  expect(await eventOf('model.down', 'gpt-5-mini')).toMatchObject({
    level: 'error',
    problem: expect.stringMatching(down),
  })

  await until(
    async () => {
      await on.send('pair')
      return await on.status()
    },
    ({ problems }) =>
      problems.some(({ message }) => message.startsWith('pair is down: none of its 2 targets can answer: ')),
  )
  expect(stringOf((await eventOf('model.down', 'pair'))['problem'])).toContain(
    'gone/m cannot be reached (ECONNREFUSED) since ',
  )

  on.upstream.on('bad', does.answersText('Hi'))
  await until(
    async () => {
      await on.send('gpt-5-mini')
      return await on.states()
    },
    (states) => states['up/bad'] === 'healthy',
  )
  expect((await on.status()).problems).toEqual([])
  expect(await eventOf('model.up', 'gpt-5-mini')).toMatchObject({ level: 'info' })
  expect(await eventOf('model.up', 'pair')).toMatchObject({ level: 'info' })
  const lines = on.gateway.lines.filter(({ event }) => event === 'model.down')
  expect(lines.map(({ model }) => model).sort()).toEqual(['gpt-5-mini', 'pair'])
})

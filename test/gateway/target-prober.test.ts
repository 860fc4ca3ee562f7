/** Which idle targets are asked whether they answer, when, and what it shows. The clock is the test's. */

import { expect, test } from 'bun:test'
import { ProviderError, type ProviderErrorDetail, type ProviderErrorKind } from '../../src/core/provider-error.ts'
import { Breaker } from '../../src/gateway/breaker.ts'
import type { Upstream as Adapted } from '../../src/gateway/gateway.ts'
import { type ProbeResult, TargetProber } from '../../src/gateway/target-prober.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { json } from '../support/scenarios.ts'
import { type Scenario, Upstream } from '../support/upstream.ts'

const list = json(200, '{"object":"list","data":[]}')
const deadlines = { connectMs: 5000, firstByteMs: { stream: 5000, whole: 5000 }, idleMs: 5000, totalMs: 5000 }

function fail(message: string): never {
  throw new Error(message)
}

async function stage(provider: Provider = openai) {
  const upstream = await Upstream.start()
  const adapted = (name: string, apiKey: string): Adapted => ({
    provider: {
      ...provider,
      probe(target) {
        asked++
        return provider.probe?.(target) ?? fail(`${name} has no probe`)
      },
    },
    endpoint: { name, baseUrl: upstream.url, apiKey, headers: {}, deadlines },
  })
  const upstreams = new Map(
    [adapted('up', 'key-of-up'), adapted('other', 'key-of-other')].map((one) => [one.endpoint.name, one]),
  )
  let asked = 0
  let ms = 0
  let isOn = true
  const breaker = new Breaker(() => ms)
  const ended: [model: string, result: ProbeResult, failure: string | undefined][] = []
  let waiting = Promise.withResolvers<void>()
  const prober = new TargetProber({
    breaker,
    upstreams: () => (isOn ? upstreams : undefined),
    ended: ({ model }, result, error) => {
      ended.push([model, result, error?.kind])
      waiting.resolve()
    },
    now: () => ms,
  })
  return {
    upstream,
    breaker,
    ended,
    turnOff: () => {
      isOn = false
    },
    fail(
      kind: ProviderErrorKind,
      detail: ProviderErrorDetail = {},
      { provider: name = 'up', model = 'm', times = 3 } = {},
    ) {
      for (let turn = 0; turn < times; turn++)
        breaker.enterAnyway({ provider: name, model }).failed(new ProviderError(kind, 'what it did', detail))
    },
    /** Lets time pass in ticks, and each request end. Returns what has ended. */
    async pass(duration: number, reaction: Scenario = list) {
      upstream.list = reaction
      ended.length = 0
      asked = 0
      for (const end = ms + duration; ms < end; ms += 400) {
        prober.tick()
        while (ended.length < asked) {
          waiting = Promise.withResolvers()
          await waiting.promise
        }
      }
      return [...ended]
    },
    state: (model = 'm') => breaker.restOf({ provider: 'up', model })?.restMs,
    [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose](),
  }
}

test('one that could not be reached is asked once it is idle, and any answer will do', async () => {
  for (const answer of [list, json(404, '{}'), json(405, ''), json(403, '{}')]) {
    await using on = await stage()
    on.fail('unreachable')
    expect(await on.pass(800)).toEqual([])
    expect(await on.pass(2000, answer)).toEqual([['m', 'answered', undefined]])
    expect(on.state()).toBeUndefined()
    expect(on.upstream.lists.map(({ method, path }) => `${method} ${path}`)).toEqual(['GET /v1/models'])
    expect(on.upstream.lists[0]?.header('authorization')).toBe('Bearer key-of-up')
    expect(await on.pass(60_000)).toEqual([])
  }
})

test('while it fails it is asked once a rest, and the rests grow', async () => {
  await using on = await stage()
  on.fail('unreachable')
  const down = json(500, '{}')
  expect(await on.pass(2800, down)).toEqual([['m', 'failed', 'failed']])
  expect(on.breaker.restOf({ provider: 'up', model: 'm' })).toMatchObject({ rests: 2, reason: 'failed', status: 500 })
  await on.pass(600_000, down)
  // 1, 2, 4, 8, 16 and then 30 s, and about a second until it counts as idle.
  expect(on.upstream.lists.length).toBeWithin(15, 26)
  expect(await on.pass(40_000)).toContainEqual(['m', 'answered', undefined])
  expect(on.state()).toBeUndefined()
})

test('a list that answers while the models fail is no witness: the target waits for a request', async () => {
  await using on = await stage()
  on.fail('failed', { status: 500 })
  expect(await on.pass(120_000)).toEqual([['m', 'answered', undefined]])
  expect(on.state()).toBe(0)
  // A request that fails in the same way changes nothing, one that fails in another way does.
  on.fail('failed', { status: 500 }, { times: 1 })
  expect(await on.pass(60_000)).toEqual([])
  on.fail('unreachable', {}, { times: 1 })
  expect(await on.pass(60_000)).toEqual([['m', 'answered', undefined]])
  expect(on.state()).toBeUndefined()
})

test('a list that fails like the models is a witness', async () => {
  await using on = await stage()
  on.fail('credential', { status: 401 }, { times: 1 })
  expect(await on.pass(400, json(401, '{}'))).toEqual([['m', 'credential', undefined]])
  expect(on.state()).toBeGreaterThan(0)
  expect(await on.pass(32_000, json(401, '{}'))).toEqual([['m', 'credential', 'credential']])
  expect(await on.pass(33_000)).toEqual([['m', 'answered', undefined]])
  expect(on.state()).toBeUndefined()
})

test.each<[string, Scenario]>([
  ['has none', json(404, '{}')],
  ['does not allow it', json(403, '{}')],
  ['does not know the version', json(400, '{}')],
])('a provider that %s: nothing is asked again, and nothing counts', async (_, answer) => {
  await using on = await stage()
  on.fail('overloaded', { status: 503 })
  expect(await on.pass(60_000, answer)).toEqual([['m', 'none', undefined]])
  expect(on.state()).toBe(0)
})

test('a page instead of JSON is no answer', async () => {
  await using on = await stage()
  on.fail('unreachable')
  expect(await on.pass(2800, json(200, '<html>'))).toEqual([['m', 'broken', 'broken']])
})

test('a limit is waited for, and one that is used up is no failure', async () => {
  await using on = await stage()
  on.fail('rate_limited', { status: 429, retryAfterMs: 20_000 }, { times: 1 })
  expect(await on.pass(20_000)).toEqual([])
  expect(await on.pass(2000)).toEqual([['m', 'answered', undefined]])
  expect(on.state()).toBeUndefined()
  on.breaker.enterAnyway({ provider: 'up', model: 'other' }).succeeded(1000)
  expect((await on.pass(30_000)).map(([model]) => model)).not.toContain('other')
})

test('a target that requests probe is not asked, and a request decides before a probe does', async () => {
  await using on = await stage()
  on.fail('unreachable')
  await on.pass(1200)
  const permit = on.breaker.enter({ provider: 'up', model: 'm' })
  expect(await on.pass(20_000)).toEqual([])
  permit?.succeeded()
  expect(await on.pass(20_000)).toEqual([])
  on.fail('unreachable')
  const { promise, resolve } = Promise.withResolvers<void>()
  const late: Scenario = async (call) => {
    on.fail('unreachable', {}, { times: 1 })
    await call.answer(200, '{}')
    resolve()
  }
  await Promise.all([on.pass(2800, late), promise])
  expect(on.state()).toBeGreaterThan(0)
})

test('one request for all targets of a provider, and another provider has its own credential', async () => {
  await using on = await stage()
  for (const model of ['a', 'b', 'c']) on.fail('unreachable', {}, { model })
  on.fail('unreachable', {}, { provider: 'other' })
  expect((await on.pass(2800)).map(([model]) => model).sort()).toEqual(['a', 'b', 'c', 'm'])
  expect(on.upstream.lists.map((call) => call.header('authorization')).sort()).toEqual([
    'Bearer key-of-other',
    'Bearer key-of-up',
  ])
})

test('nothing is asked if the configuration turns it off', async () => {
  await using on = await stage()
  on.turnOff()
  on.fail('unreachable')
  expect(await on.pass(60_000)).toEqual([])
  expect(on.upstream.lists).toEqual([])
})

test.each<[string, Provider, string, string | undefined]>([
  ['openai', openai, 'https://api.example/v1', 'GET https://api.example/v1/models'],
  ['azure', azure, 'https://n.example', 'GET https://n.example/openai/models?api-version=2025'],
  ['azure v1', azure, 'https://n.example/openai/v1', 'GET https://n.example/openai/v1/models?api-version=2025'],
  ['anthropic', anthropic, 'https://api.example', 'GET https://api.example/v1/models?limit=1'],
  ['gemini', gemini, 'https://g.example', 'GET https://g.example/v1beta/models?pageSize=1'],
  [
    'vertex',
    vertexGemini,
    'https://v.example',
    'POST https://v.example/v1/projects/p/locations/l/publishers/google/models/m:countTokens',
  ],
  [
    'vertex, Claude',
    vertexClaude,
    'https://v.example',
    'POST https://v.example/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict',
  ],
  ['bedrock', bedrock, 'https://b.example', undefined],
])('what %s is asked', (_, provider, baseUrl, expected) => {
  const endpoint = { name: 'p', baseUrl, apiVersion: '2025', project: 'p', location: 'l', headers: {}, deadlines }
  const request = provider.probe?.({ endpoint, model: 'm' })
  expect(request && `${request.method ?? 'POST'} ${request.url}`).toBe(expected)
})

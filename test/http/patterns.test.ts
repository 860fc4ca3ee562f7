/** Models whose names end in `*`: callers write names that begin so, and the rest is what the provider is asked for. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { problems } from '../config/fixture.ts'
import { type Answer, ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { answersText, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

const place = {} as { upstream: Upstream; gateway: Gateway }
const NARROW = 'narrow-key-0123456789'

beforeAll(async () => {
  place.upstream = await Upstream.start({ bad: json(500, '{}') })
  place.upstream.otherwise(answersText('Hello'))
  const price = { input: 1, output: 2 }
  place.gateway = await Gateway.start({
    providers: { up: place.upstream.url },
    models: {
      'up/*': { targets: [{ provider: 'up', model: '*' }], price },
      'up/special-*': { targets: [{ provider: 'up', model: 'sp.*' }], price },
      'up/exact': { targets: [{ provider: 'up', model: 'real' }], aliases: ['up/alias'], price },
    },
    config: {
      organizations: [
        {
          id: 'test',
          limits: { spend: { day: 5 } },
          keys: [
            { id: 'test', key: KEY },
            { id: 'narrow', key: NARROW, models: ['up/gpt-*'] },
          ],
        },
      ],
    },
  })
})

afterAll(async () => {
  await place.gateway[Symbol.asyncDispose]()
  await place.upstream[Symbol.asyncDispose]()
})

function chat(model: string, key = KEY): Promise<Answer> {
  const body = { model, messages: [{ role: 'user', content: 'hi' }] }
  return ask(place.gateway.port, requestBytes('/v1/chat/completions', { key, body }))
}

test.each([
  ['up/gpt-5', 'gpt-5'],
  ['up/openai/gpt-5:free', 'openai/gpt-5:free'],
  ['up/special-x', 'sp.x'],
  ['up/exact', 'real'],
  ['up/alias', 'real'],
])('%s asks the provider for %s', async (name, asked) => {
  const answer = await chat(name)
  expect([answer.status, answer.header('x-gateway-requested-model')]).toEqual([200, name])
  const served = name === 'up/alias' ? 'up/exact' : name
  expect([answer.header('x-gateway-served-model'), answer.json()]).toMatchObject([served, { model: served }])
  expect(place.upstream.calls.at(-1)?.json).toMatchObject({ model: asked })
})

test.each([
  'up/*',
  'up/',
  'up/../x',
  'up/./x',
  'up//x',
  'up/x/..',
  'up/a b',
  'up/a?b',
  'up/ü',
  `up/${'x'.repeat(126)}`,
  'other',
])('%p is no model', async (name) => {
  const calls = place.upstream.calls.length
  const answer = await chat(name)
  expect([answer.status, answer.json()]).toMatchObject([404, { error: { code: 'model_not_found' } }])
  expect(place.upstream.calls).toHaveLength(calls)
})

test('patterns of organisations and keys apply to the name that the caller wrote', async () => {
  expect((await chat('up/gpt-9', NARROW)).status).toBe(200)
  expect((await chat('up/claude', NARROW)).status).toBe(403)
})

test('metrics, targets and usage know the pattern, whatever callers write', async () => {
  for (let i = 0; i < 20; i++) await chat(`up/word-${i}`)
  expect((await chat('up/bad')).status).toBe(502)
  const read = async (path: string) => (await fetch(`${place.gateway.adminUrl}${path}`)).text()
  let metrics = ''
  while (!metrics.includes('result="failed"} 1')) metrics = await read('/metrics')
  expect(metrics).toContain('model="up/*"')
  expect(metrics).toContain('weir_attempts_total{provider="up",model="*",result="answered"}')
  for (const text of [metrics, await read('/api/targets'), await read('/api/usage?by=model')])
    expect(text).not.toContain('word-')
  expect(await read('/api/explain?key=narrow&model=up/gpt-7')).toContain('"target":"gpt-7"')
  const request = await place.gateway.line((one) => one['requested_model'] === 'up/word-3')
  expect(request['served_model']).toBe('up/word-3')
})

describe('what is no pattern', () => {
  const text = (model: string, rest = '') => `
providers:
  up: { dialect: openai, api_key: x }
  v: { dialect: vertex, project: p, location: eu, credentials: default }
models: [${model}]
${rest}
organizations: [{ id: acme, keys: [{ id: ci, key: 0123456789abcdef0 }] }]
`
  const target = (model: string, provider = 'up') => `targets: [{ provider: ${provider}, model: "${model}" }]`

  test.each([
    [`{ name: "a/*", ${target('m')} }`, 'models[0].targets[0].model: must end in *'],
    [`{ name: "a", ${target('m*')} }`, 'models[0].targets[0].model: ends in *, which needs'],
    [`{ name: "a*b", ${target('m')} }`, 'models[0].name: a pattern has its * at the end'],
    [`{ name: "a/*", aliases: [b], ${target('*')} }`, 'models[0].aliases: are for the name of one model'],
    [`{ name: "a/*", ${target('*', 'v')} }`, 'models[0].targets[0].model: must begin with gemini or claude'],
    [
      `{ name: "a/*", ${target('*')} }, { name: b, ${target('m')}, fallbacks: ["a/*"] }`,
      'models[1].fallbacks[0]: "a/*" is a',
    ],
  ])('%s', (model, problem) => {
    expect(problems(text(model)).join('\n')).toContain(problem)
  })

  test('no candidate of automatic selection is one', () => {
    const found = problems(text(`{ name: "a/*", ${target('*')} }`, 'auto: { candidates: ["a/*"] }'))
    expect(found.join()).toContain('auto.candidates[0]: "a/*" is a pattern; name one model')
  })
})

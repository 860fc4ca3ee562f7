/** `X-Gateway-Tags` and the tags of keys: what is accepted, and where the tags of a request are found afterwards. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'

const TAGGED = 'tagged-key-0123456789abcdef'

let provider: Upstream
let gateway: Gateway
let untagged: Gateway

beforeAll(async () => {
  provider = await Upstream.start()
  provider.otherwise(speaks('openai', () => textAnswer('Hello')))
  const setup = {
    providers: { up: provider.url },
    models: { m: { targets: [{ provider: 'up', model: 'up' }], price: { input: 1, output: 1 } } },
  }
  const organizations = (tags: JsonObject) => [
    {
      id: 'test',
      keys: [
        { id: 'one', key: KEY },
        { id: 'two', key: TAGGED, ...tags },
      ],
    },
  ]
  const tags = { tags: { team: 'payments', project: 'default' } }
  gateway = await Gateway.start({
    ...setup,
    config: { tags: ['project', 'team', 'a', 'b', 'c', 'd', 'e', 'f', 'g'], organizations: organizations(tags) },
  })
  untagged = await Gateway.start({ ...setup, config: { organizations: organizations({}) } })
})

afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await untagged[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
})

const BODIES: Readonly<Record<string, JsonObject | undefined>> = {
  '/v1/chat/completions': { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
  '/v1/responses': { model: 'm', input: 'hi' },
  '/v1/messages': { model: 'm', max_tokens: 9, messages: [{ role: 'user', content: 'hi' }] },
  '/v1/messages/count_tokens': { model: 'm', messages: [{ role: 'user', content: 'hi' }] },
  '/v1/images/generations': { model: 'm', prompt: 'hi' },
  '/v1/models': undefined,
}

async function send(
  tags: string | undefined,
  { key = KEY, path = '/v1/chat/completions', to = gateway, body = '' } = {},
) {
  const json = BODIES[path]
  const answer = await fetch(`${to.url}${path}`, {
    method: json === undefined ? 'GET' : 'POST',
    headers: {
      ...{ 'content-type': 'application/json', authorization: `Bearer ${key}` },
      ...(tags === undefined ? {} : { 'x-gateway-tags': tags }),
    },
    ...(json === undefined ? {} : { body: body || JSON.stringify(json) }),
  })
  const { status } = answer
  const shown: unknown = await answer.json()
  return { status, body: shown, line: await to.request(answer.headers.get('x-request-id')) }
}

describe('tags that are accepted', () => {
  test.each([
    ['project=checkout,team=payments', { project: 'checkout', team: 'payments' }],
    [' team = payments ,\tproject=checkout ', { project: 'checkout', team: 'payments' }],
    [`project=${'x'.repeat(64)}`, { project: 'x'.repeat(64) }],
    ['project=AZaz09._/@:-', { project: 'AZaz09._/@:-' }],
    [
      'project=1,team=2,a=3,b=4,c=5,d=6,e=7,f=8',
      { a: '3', b: '4', c: '5', d: '6', e: '7', f: '8', project: '1', team: '2' },
    ],
    ['', undefined],
    ['  ', undefined],
    [undefined, undefined],
  ])('%s', async (header, tags) => {
    const { status, line } = await send(header)
    expect([status, line['tags']]).toEqual([200, tags])
  })

  test("a key's own tags hold where the request names none of that name", async () => {
    expect((await send(undefined, { key: TAGGED })).line['tags']).toEqual({ project: 'default', team: 'payments' })
    expect((await send('project=x,a=1', { key: TAGGED })).line['tags']).toEqual({
      ...{ a: '1', project: 'x', team: 'payments' },
    })
  })

  test('without tags in the configuration the header is ignored', async () => {
    const { status, line } = await send('nonsense,,=', { to: untagged })
    expect([status, line['tags']]).toEqual([200, undefined])
  })
})

describe('tags that are rejected: 400 invalid_tags', () => {
  test.each([
    'colour=red',
    'Project=x',
    'project',
    'project=',
    '=x',
    'project=x,',
    ',project=x',
    'project=x,,team=y',
    'project=x,project=x',
    'project=x=y',
    'project=x y',
    'project=a+b',
    'project="x"',
    `project=${'x'.repeat(65)}`,
    'project=1,team=2,a=3,b=4,c=5,d=6,e=7,f=8,g=9',
    '__proto__=x',
    'constructor=x',
    `${'n'.repeat(3000)}=x`,
  ])('%s', async (header) => {
    // Before the body: one that is no JSON is not looked at.
    const { status, body, line } = await send(header, { body: '{' })
    expect([status, body]).toMatchObject([
      400,
      { error: { code: 'invalid_tags', type: 'invalid_request_error', param: 'X-Gateway-Tags' } },
    ])
    expect(JSON.stringify(body).length).toBeLessThan(500)
    expect(line).toMatchObject({ error: 'invalid_tags', param: 'X-Gateway-Tags', key: 'one', outcome: 'refused' })
    expect(line['tags']).toBeUndefined()
  })

  test.each(Object.keys(BODIES))('on %s, in the shape of the path', async (path) => {
    const { status, body } = await send('colour=red', { path })
    const message = "The header X-Gateway-Tags is invalid: 'colour' is not one of the tags "
    const error = path.startsWith('/v1/messages')
      ? { type: 'error', error: { type: 'invalid_request_error', message: expect.stringContaining(message) } }
      : { error: { code: 'invalid_tags', param: 'X-Gateway-Tags', message: expect.stringContaining(message) } }
    expect([status, body]).toMatchObject([400, error])
  })

  test('after authentication: a caller without a valid key does not learn which tags there are', async () => {
    expect((await send('colour=red', { key: 'wrong-key-0123456789' })).status).toBe(401)
  })
})

test('usage and audit have the tags, to the micro-dollar', async () => {
  for (const path of ['/v1/responses', '/v1/messages']) expect((await send('a=1', { path })).status).toBe(200)
  await gateway.line(({ tags }) => JSON.stringify(tags) === '{"a":"1"}')
  const report = async (...flags: string[]): Promise<JsonObject & { rows: JsonObject[] }> =>
    JSON.parse((await gateway.run('usage', '--json', ...flags)).stdout)
  const answered = gateway.lines.filter(({ cost_micro_usd: cost }) => typeof cost === 'number')
  const sum = (lines: readonly JsonObject[]) => lines.reduce((total, line) => total + Number(line['cost_micro_usd']), 0)
  let found = await report('--by', 'tag:project')
  while (Number(Reflect.get(Object(found['total']), 'requests')) < answered.length)
    found = await report('--by', 'tag:project')
  const value = ({ tags }: JsonObject) => String(Reflect.get(Object(tags ?? {}), 'project') ?? '')
  const values = [...new Set(answered.map(value))].sort()
  expect(found.rows.map((row) => [row['tag:project'], row['cost_micro_usd']])).toEqual(
    values.map((one) => [one, sum(answered.filter((line) => value(line) === one))]),
  )
  expect(sum(found.rows)).toBe(sum(answered))
  const audited = (await gateway.run('audit', '--json', '--tag', 'a=1', '--limit', '0')).stdout.trim().split('\n')
  expect(audited.map((line) => JSON.parse(line).tags)).toEqual([
    { a: '1', project: 'x', team: 'payments' },
    { a: '1' },
    { a: '1' },
  ])
})

/** `X-Gateway-Tags` and the tags of keys: what is accepted, and where the tags of a request are found afterwards. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import { speaks, textAnswer } from '../support/speech.ts'

const TAGGED = 'tagged-key-0123456789abcdef'

const provider = await lastingUpstream()
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
const gateway = await lastingGateway({
  ...setup,
  config: { tags: ['project', 'team', 'a', 'b', 'c', 'd', 'e', 'f', 'g'], organizations: organizations(tags) },
})
const untagged = await lastingGateway({ ...setup, config: { organizations: organizations({}) } })

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

const USER_JSON = '{"device_id":"d1","session_id":"s1"}'
const hashed = (value: string) => `h:${new Bun.CryptoHasher('sha256').update(value).digest('base64url').slice(0, 22)}`

describe('tags with sources', () => {
  let sourced: Gateway

  beforeAll(async () => {
    sourced = await Gateway.start({
      providers: { up: provider.url },
      models: { m: { targets: [{ provider: 'up', model: 'up' }], price: { input: 1, output: 1 } } },
      config: {
        compatibility: { metadata: 'accept' },
        tags: [
          'project',
          { name: 'person', from: ['header:X-Person', 'user'], required: true },
          { name: 'session', from: ['header:Session_id'], counted: false },
        ],
        organizations: [
          {
            id: 'test',
            keys: [
              { id: 'one', key: KEY },
              { id: 'two', key: TAGGED, tags: { person: 'by-key' }, fixed_tags: { project: 'fixed' } },
            ],
          },
        ],
      },
    })
  })

  afterAll(() => sourced[Symbol.asyncDispose]())

  async function ask(path: string, headers: Readonly<Record<string, string>>, more: JsonObject, key = KEY) {
    const answer = await fetch(`${sourced.url}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers },
      body: JSON.stringify({ ...BODIES[path], ...more }),
    })
    const body: unknown = await answer.json()
    const { tags, error } = await sourced.request(answer.headers.get('x-request-id'))
    return { status: answer.status, body, tags, error }
  }

  test.each([
    ['a header', { 'x-person': 'anna' }, {}, { person: 'anna' }],
    ['a header before the body', { 'x-person': 'anna' }, { user: 'ben' }, { person: 'anna' }],
    ['user', {}, { user: 'ben' }, { person: 'ben' }],
    ['user in a long body', {}, { user: 'ben', stop: ['x'.repeat(3000)] }, { person: 'ben' }],
    ['safety_identifier', {}, { safety_identifier: 'cleo' }, { person: 'cleo' }],
    ['metadata.user_id', {}, { metadata: { user_id: 'dan' } }, { person: 'dan' }],
    ['JSON, of which a hash stays', {}, { user: USER_JSON }, { person: hashed(USER_JSON) }],
    ['a header in UTF-8', { 'x-person': Buffer.from('José à').toString('latin1') }, {}, { person: hashed('José à') }],
    ['the same name in the body', {}, { user: 'José à' }, { person: hashed('José à') }],
    ['a text that is too long', { 'x-person': 'x'.repeat(65) }, {}, { person: hashed('x'.repeat(65)) }],
    ['an empty header', { 'x-person': ' ' }, { user: 'ben' }, { person: 'ben' }],
    ['X-Gateway-Tags before any source', { 'x-gateway-tags': 'person=eve', 'x-person': 'anna' }, {}, { person: 'eve' }],
    ['a session beside it', { 'x-person': 'anna', session_id: 's/1' }, {}, { person: 'anna', session: 's/1' }],
  ])('from %s', async (_, headers, more, tags) => {
    const { status, tags: found } = await ask('/v1/chat/completions', headers, more)
    expect([status, found]).toEqual([200, tags])
  })

  test('Messages names its user in metadata, and images in user', async () => {
    const { tags } = await ask('/v1/messages', {}, { metadata: { user_id: USER_JSON } })
    expect(tags).toEqual({ person: hashed(USER_JSON) })
    expect((await ask('/v1/images/generations', {}, { user: 'ben' })).tags).toEqual({ person: 'ben' })
  })

  test.each(Object.keys(BODIES).filter((path) => BODIES[path] !== undefined && !path.endsWith('count_tokens')))(
    'a request without a required tag is 400 missing_tag on %s',
    async (path) => {
      const { status, body, error } = await ask(path, {}, {})
      const message =
        "The tag 'person' is missing. Send it in the header X-Gateway-Tags: person=VALUE or the header X-Person or " +
        "the field 'user'."
      expect([status, error, body]).toMatchObject([400, 'missing_tag', { error: { message } }])
    },
  )

  test('tokens are counted, and models listed, without it', async () => {
    expect((await ask('/v1/messages/count_tokens', {}, {})).error).not.toBe('missing_tag')
    const listed = await fetch(`${sourced.url}/v1/models`, { headers: { authorization: `Bearer ${KEY}` } })
    expect([listed.status, await listed.text()]).toEqual([200, expect.stringContaining('"m"')])
  })

  test("a key's fixed tags hold whatever the request names, and its own if nothing else does", async () => {
    const { tags } = await ask('/v1/chat/completions', { 'x-gateway-tags': 'project=mine' }, {}, TAGGED)
    expect(tags).toEqual({ person: 'by-key', project: 'fixed' })
    expect((await ask('/v1/chat/completions', { 'x-person': 'anna' }, {}, TAGGED)).tags).toEqual({
      ...{ person: 'anna', project: 'fixed' },
    })
  })

  test('a tag that is not counted makes no sums', async () => {
    await ask('/v1/chat/completions', { 'x-person': 'zoe', session_id: 'only-here' }, {})
    let found = ''
    while (!found.includes('zoe'))
      found = (await sourced.run('usage', '--json', '--by', 'tag:person,tag:session')).stdout
    expect(found).not.toContain('only-here')
  })

  test('a stored key has fixed tags, which change and go', async () => {
    const secret = (
      await sourced.run('keys', 'create', '--org', 'test', '--id', 'made', '--fixed-tags', 'project=p1')
    ).stdout.trim()
    const project = async () =>
      Reflect.get(
        Object(
          (await ask('/v1/chat/completions', { 'x-person': 'a', 'x-gateway-tags': 'project=mine' }, {}, secret)).tags,
        ),
        'project',
      )
    let first = await project()
    while (first === undefined) first = await project()
    expect(first).toBe('p1')
    const listed = JSON.parse((await sourced.run('keys', 'list', '--json')).stdout)
    expect(listed.keys.find(({ id }: { id: string }) => id === 'made')).toMatchObject({ fixed_tags: { project: 'p1' } })
    expect((await sourced.run('keys', 'update', '--id', 'made', '--fixed-tags', 'project=')).code).toBe(0)
    let last = await project()
    while (last === 'p1') last = await project()
    expect(last).toBe('mine')
    expect(
      (await sourced.run('keys', 'create', '--org', 'test', '--id', 'bad', '--fixed-tags', 'nope=1')).stderr,
    ).toContain('fixed_tags.nope: is not in tags of the configuration')
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

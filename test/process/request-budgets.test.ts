/**
 * Budgets against a running weir with two workers, on both ledgers: counters of values of a tag, of models and of keys,
 * the refusal that names its budget, the next candidate in its place, and a restart that forgets nothing.
 */

import { Database } from 'bun:sqlite'
import { expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { JsonObject } from '../../src/core/json.ts'
import { LEDGER_FILE } from '../../src/ledger/embedded/state-tables.ts'
import { redisKey } from '../../src/ledger/redis/store/redis-keys.ts'
import { COUNTERS_MAX } from '../../src/ledger/reservation-store.ts'
import { type Answer, ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { ALERT_SECRET, webhook } from '../support/webhook.ts'

/** An answer of 1,000 tokens costs $1. */
const PRICE = { input: 0, output: 1000 }
const USAGE = { prompt_tokens: 9, completion_tokens: 1000, total_tokens: 1009 }
const TOKEN = 'an-admin-token-of-the-test'
const BUDGETS = [
  { name: 'person', per: 'tag:person', limits: { spend: { day: 2 } }, except: { boss: { spend: { day: 3 } } } },
  {
    name: 'dear',
    per: 'model',
    match: { models: ['m'] },
    limits: { spend: { week: 6, total: 100 } },
    on_exhausted: 'downgrade',
  },
  { name: 'run', per: 'tag:session', limits: { spend: { total: 1 } }, idle_hours: 24 },
  { name: 'pool', match: { tags: { team: ['a', 'b'] } }, limits: { spend: { hour: 1 }, concurrent_requests: 5 } },
]

function start(upstream: Upstream, more: JsonObject): Promise<Gateway> {
  for (const model of ['m', 'cheap']) {
    upstream.on(model, json(200, JSON.stringify({ ...JSON.parse(chatBody('Hello.')), usage: USAGE })))
  }
  const target = (model: string) => ({
    targets: [{ provider: 'up', model }],
    price: PRICE,
    max_output_tokens: 1000,
  })
  return Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: { ...target('m'), fallbacks: ['cheap'] }, cheap: target('cheap') },
    config: {
      tags: ['person', 'team', { name: 'session', counted: false }],
      admin: { port: 0, token: TOKEN },
      organizations: [
        { id: 'acme', timezone: 'Asia/Kathmandu', budgets: BUDGETS, keys: [{ id: 'k', key: KEY, limits: {} }] },
      ],
      ...more,
    },
    flags: ['--workers', '2'],
  })
}

function say(gateway: Gateway, tags: string, model = 'cheap'): Promise<Answer> {
  const body = { model, messages: [{ role: 'user', content: 'Hi' }] }
  const fields = tags === '' ? {} : { 'X-Gateway-Tags': tags }
  return ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body, fields }))
}

test.each(['embedded', 'redis'])(
  '%s: a request that falls over to a model with other budgets is one request everywhere',
  async (kind) => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    await using gateway = await start(upstream, {
      ...(kind === 'redis' ? { ledger: { redis: redis.url } } : {}),
      organizations: [
        {
          id: 'acme',
          budgets: [
            { name: 'each', per: 'model', limits: { spend: { total: 10 } } },
            { name: 'few', match: { models: ['cheap'] }, limits: { spend: { total: 1 } } },
          ],
          keys: [{ id: 'k', key: KEY, limits: { requests_per_minute: 3, concurrent_requests: 1 } }],
        },
      ],
    })
    upstream.on('m', json(500, '{}'))
    const answer = await say(gateway, '', 'm')
    expect([answer.status, answer.header('x-gateway-served-model')]).toEqual([200, 'cheap'])
    expect(answer.header('x-ratelimit-remaining-requests')).toBe('2')
    const rows = async () => {
      const { stdout } = await gateway.run('audit', '--json')
      return stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
    }
    while ((await rows()).length === 0) await Bun.sleep(20)
    // The other budget of the second model refuses: what the first one held is released.
    const refused = await say(gateway, '', 'm')
    expect(errorOf(refused)).toMatchObject({ code: 'insufficient_quota', scope: 'budget:few' })
    while ((await rows()).length < 2) await Bun.sleep(20)
    const ended = (await rows()).map(({ request_id, model, cost_micro_usd }) => [request_id, model, cost_micro_usd])
    expect(ended.sort()).toEqual(
      [
        [answer.header('x-request-id'), 'cheap', 1_000_000],
        [refused.header('x-request-id'), null, 0],
      ].sort(),
    )
    const { stdout } = await gateway.run('budgets', '--name', 'each')
    expect(stdout.replaceAll(/ +/g, ' ')).toMatch(
      /each cheap spend\.total \$1\.00 \$0\.00 .*\n.*each m spend\.total \$0\.00 \$0\.00/,
    )
  },
)

function errorOf({ text }: Answer): JsonObject {
  return JSON.parse(text).error
}

test.each(['embedded', 'redis'])('%s: each counter has its own limits, and a refusal names it', async (kind) => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const ledger = kind === 'redis' ? { ledger: { redis: redis.url } } : {}
  using hook = webhook()
  const alerts = { webhook: hook.url, secret: ALERT_SECRET }
  await using gateway = await start(upstream, { ...ledger, alerts })
  const settled = (tags: string, model?: string) => afterOthers(gateway, tags, model)
  for (const person of ['ann', 'bob']) {
    for (let i = 0; i < 2; i++) expect((await settled(`person=${person}`)).status).toBe(200)
    const refused = await settled(`person=${person}`)
    expect([refused.status, refused.header('x-should-retry')]).toEqual([429, 'false'])
    expect(errorOf(refused)).toMatchObject({
      code: 'insufficient_quota',
      message: expect.stringContaining(`the daily spend limit of $2.00 for budget 'person' of '${person}'. `),
      ...{ limit: 2, spent: 2, window: 'day', scope: `budget:person:${person}` },
      // Midnight in Kathmandu.
      resets_at: expect.stringMatching(/T18:15:00Z$/),
    })
  }
  for (let i = 0; i < 3; i++) expect((await settled('person=boss')).status).toBe(200)
  expect(errorOf(await settled('person=boss'))).toMatchObject({ limit: 3, spent: 3 })
  const refusing = await hook.until(3, ({ type, name }) => type === 'spend.refusing' && name === 'person')
  expect(refusing.map(({ value }) => value).sort()).toEqual(['ann', 'bob', 'boss'])
  // Without the tag the budget does not match.
  for (let i = 0; i < 3; i++) expect((await settled('')).status).toBe(200)

  // A tag that no report counts is one for budgets.
  expect((await settled('session=s1')).status).toBe(200)
  expect(errorOf(await settled('session=s1'))).toMatchObject({ scope: 'budget:run:s1', resets_at: null })

  expect((await settled('team=a')).status).toBe(200)
  expect(errorOf(await settled('team=b'))).toMatchObject({ scope: 'budget:pool', window: 'hour' })
  expect((await settled('team=c')).status).toBe(200)

  for (let i = 0; i < 6; i++) expect((await settled('', 'm')).header('x-gateway-served-model')).toBe('m')
  const downgraded = await settled('', 'm')
  expect([downgraded.header('x-gateway-served-model'), downgraded.header('x-gateway-fallback-count')]).toEqual([
    'cheap',
    '1',
  ])
  // No candidate is left that all budgets allow.
  expect(errorOf(await settled('person=ann', 'm'))).toMatchObject({ code: 'insufficient_quota' })
  const admin = async (path: string, method = 'GET', body?: JsonObject) => {
    const headers = { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' }
    const sent = body === undefined ? {} : { body: JSON.stringify(body) }
    const answer = await fetch(`${gateway.adminUrl}${path}`, { method, headers, ...sent })
    return { status: answer.status, json: (await answer.json()) as JsonObject }
  }
  const listed = await admin('/api/budgets?organization=acme&name=person&search=ANN')
  expect(listed.json).toMatchObject({
    rows: [{ budget: 'person', value: 'ann', limit: 'spend.day', amount: 2_000_000, used: 2_000_000, raise: null }],
    total: 3,
  })
  const counter = { organization: 'acme', name: 'person', value: 'ann', reason: 'release' }
  const raise = await admin('/api/budgets/raises', 'POST', {
    ...counter,
    limits: { spend: { day: 3 } },
    until: '12h',
  })
  expect([raise.status, raise.json['value'], raise.json['limits']]).toEqual([201, 'ann', { spend: { day: 3 } }])
  expect((await settled('person=ann')).status).toBe(200)
  expect(errorOf(await settled('person=ann'))).toMatchObject({ limit: 3, spent: 3 })
  const ends = Array.from({ length: 5 }, () => admin(`/api/budgets/raises/${raise.json['id']}`, 'DELETE'))
  expect((await Promise.all(ends)).map(({ status }) => status)).toContain(200)
  expect(errorOf(await settled('person=ann'))).toMatchObject({ limit: 2, spent: 3 })
  expect((await admin(`/api/budgets/raises/${raise.json['id']}`, 'DELETE')).status).toBe(404)
  expect((await admin('/api/budgets/reset', 'POST', counter)).json).toEqual(counter)
  expect((await settled('person=ann')).status).toBe(200)
  const used = async () => (await admin('/api/budgets?name=person&value=ann')).json['rows'] as JsonObject[]
  while ((await used())[0]?.['used'] !== 1_000_000) await Bun.sleep(20)
  expect((await admin('/api/budgets/reset', 'POST', { ...counter, value: null })).status).toBe(422)
  expect((await admin('/api/budgets/raises', 'POST', { ...counter, until: '12h' })).status).toBe(422)
  const table = await gateway.run('budgets', '--name', 'pool')
  expect(table.stdout).toMatch(/pool +.*spend\.hour +\$1\.00/)
  const command = ['--org', 'acme', '--name', 'pool', '--spend-hour', '5', '--until', '1h', '--reason', 'test']
  expect(await gateway.run('budgets', 'raise', ...command)).toMatchObject({ code: 0 })
  expect((await settled('team=b')).status).toBe(200)
  const explained = await gateway.run('explain', '--key', 'k', '--model', 'm', '--tags', 'person=ann,team=b')
  expect(explained.stdout).toContain('limits of budget "person" of "ann": $2.00 a day ($1.00 left, renews ')
  expect(explained.stdout).toMatch(/^limits of budget "pool": .*\$5\.00 an hour \(\$3\.00 left/m)
  expect(explained.stdout).toMatch(/^raise of budget "pool": \$5\.00 an hour until .*Z by .*: "test"$/m)
  const audited = await gateway.run('audit', '--admin', '--json')
  expect(audited.stdout).toMatch(/"action":"budget\.raised".*"reason":"release"/)
})

/** Waits for requests that have been answered and not settled. */
async function afterOthers(gateway: Gateway, tags: string, model?: string): Promise<Answer> {
  for (;;) {
    const answer = await say(gateway, tags, model)
    if (answer.status !== 429 || answer.header('retry-after') === undefined) return answer
  }
}

test.each(['embedded', 'redis'])(
  '%s: a time zone that a reload changes forgets no spend, and lets the window that runs go on',
  async (kind) => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    await using gateway = await start(upstream, kind === 'redis' ? { ledger: { redis: redis.url } } : {})
    for (let i = 0; i < 2; i++) expect((await afterOthers(gateway, 'person=ann')).status).toBe(200)
    const before = errorOf(await afterOthers(gateway, 'person=ann'))
    const renewal = Date.parse(`${before['resets_at']}`)
    expect(before).toMatchObject({ spent: 2, window: 'day', resets_at: expect.stringMatching(/T18:15:00Z$/) })
    // In one of them it is a later date, and in the other an earlier one, or the same.
    for (const timezone of ['Pacific/Kiritimati', 'Pacific/Pago_Pago', 'Asia/Kathmandu']) {
      const config = JSON.parse(await readFile(gateway.configFile, 'utf8'))
      const [organization] = config.organizations
      await writeFile(gateway.configFile, JSON.stringify({ ...config, organizations: [{ ...organization, timezone }] }))
      expect((await gateway.run('reload')).code).toBe(0)
      expect(errorOf(await afterOthers(gateway, 'person=ann'))).toMatchObject({ limit: 2, spent: 2, window: 'day' })
      const { budgets } = JSON.parse((await gateway.run('budgets', '--value', 'ann', '--json')).stdout)
      expect(budgets).toMatchObject([{ limit: 'spend.day', used: 2_000_000, held: 0 }])
      if (timezone === 'Asia/Kathmandu') expect(Date.parse(budgets[0].renews_at)).toBe(renewal)
    }
  },
)

/** What is in a hash of counters, as if so many milliseconds had passed since. */
const AGE = `
  for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    local counter = cmsgpack.unpack(redis.call('HGET', KEYS[1], name))
    counter[3] = counter[3] - ARGV[1]
    redis.call('HSET', KEYS[1], name, cmsgpack.pack(counter))
    redis.call('ZADD', KEYS[2], counter[3], name)
  end`

test.each(['embedded', 'redis'])(
  '%s: a session that was idle for its hours begins anew, and not before',
  async (kind) => {
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    const directory = mkdtempSync(join(tmpdir(), 'weir-idle-'))
    const more = { data_dir: directory, ...(kind === 'redis' ? { ledger: { redis: redis.url } } : {}) }
    const hour = 3_600_000
    /** As if this time had passed; no gateway runs. */
    const pass = async (ms: number) => {
      if (kind === 'redis') {
        const client = new Redis(redis.url)
        await client.eval(AGE, 2, redisKey('acme', 'counters'), redisKey('acme', 'ends'), ms)
        client.disconnect()
        return
      }
      using file = new Database(join(directory, LEDGER_FILE))
      file.run('UPDATE scope SET until_ms = until_ms - ? WHERE until_ms > 0', [ms])
    }
    const outcomes = async (requests: number) => {
      await using gateway = await start(upstream, more)
      const statuses: number[] = []
      for (let i = 0; i < requests; i++) statuses.push((await afterOthers(gateway, 'session=s1')).status)
      expect(await gateway.stop()).toMatchObject({ code: 0 })
      return statuses
    }
    try {
      expect(await outcomes(2)).toEqual([200, 429])
      await pass(23 * hour)
      // A request that is refused is none of the session.
      expect(await outcomes(1)).toEqual([429])
      await pass(hour)
      expect(await outcomes(2)).toEqual([200, 429])
    } finally {
      rmSync(directory, { recursive: true })
    }
  },
)

test('automatic selection goes on to the next candidate that all budgets allow', async () => {
  await using upstream = await Upstream.start()
  const ofModel = (name: string, total: number, more: JsonObject) => {
    return { name, per: 'model', match: { models: [name] }, limits: { spend: { total } }, ...more }
  }
  const budgets = [ofModel('m', 1, { on_exhausted: 'downgrade' }), ofModel('cheap', 2, { on_exhausted: 'refuse' })]
  await using gateway = await start(upstream, {
    auto: { candidates: ['m', 'cheap'] },
    organizations: [{ id: 'acme', auto: 'available', budgets, keys: [{ id: 'k', key: KEY }] }],
  })
  const served: (string | undefined)[] = []
  for (let i = 0; i < 3; i++) served.push((await afterOthers(gateway, '', 'auto')).header('x-gateway-served-model'))
  expect(served).toEqual(['m', 'cheap', 'cheap'])
  expect(errorOf(await afterOthers(gateway, '', 'auto'))).toMatchObject({ scope: 'budget:m:m', limit: 1, spent: 1 })
})

test('an organisation with as many counters as there may be refuses new values of callers, and no others', async () => {
  await using upstream = await Upstream.start()
  const directory = mkdtempSync(join(tmpdir(), 'weir-values-'))
  const more = { data_dir: directory }
  try {
    await using first = await start(upstream, more)
    expect((await say(first, 'person=ann')).status).toBe(200)
    expect(await first.stop()).toMatchObject({ code: 0 })
    {
      using file = new Database(join(directory, LEDGER_FILE))
      const columns = file.query<{ name: string }, []>("SELECT name FROM pragma_table_info('scope')").all()
      const names = columns.map(({ name }) => name)
      file.run(
        `INSERT INTO scope (${names})
           WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${COUNTERS_MAX - 1})
           SELECT ${names.map((name) => (name === 'key' ? "'bperson' || char(9) || 'v' || i" : name))}
           FROM scope, n WHERE key = 'bperson' || char(9) || 'ann'`,
      )
    }
    await using gateway = await start(upstream, more)
    const refused = await say(gateway, 'person=zoe')
    expect([refused.status, refused.header('x-should-retry'), errorOf(refused)]).toMatchObject([
      429,
      'false',
      { code: 'too_many_values', message: expect.stringContaining("The budget 'person' has no counter for 'zoe' yet") },
    ])
    // One that has a counter, one that the configuration names, and none.
    for (const tags of ['person=ann', 'person=boss', '']) expect((await say(gateway, tags)).status).toBe(200)
  } finally {
    rmSync(directory, { recursive: true })
  }
})

/**
 * The table of provider dialects: every dialect with every key, its default address, and a request that carries its
 * credential.
 */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadAdapters } from '../../src/assembly/provider-adapters.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { PROVIDER_DIALECTS, providerDialects, takersOf } from '../../src/config/provider-dialects.ts'
import type { JsonObject } from '../../src/core/json.ts'
import type { ProviderDialect } from '../../src/core/provider-dialect.ts'
import { DIALECTS } from '../providers/dialects.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { serviceAccountKey } from '../support/google-tokens.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'
import { linesOf, options } from './fixture.ts'

const VALUES: JsonObject = {
  base_url: 'https://b.test/v1',
  api_key: 'k',
  api_version: '2025-04-01-preview',
  region: 'eu-west-1',
  access_key_id: 'i',
  secret_access_key: 's',
  session_token: 't',
  project: 'project-1',
  location: 'us-central1',
  service_account: serviceAccountKey(),
  api: 'responses',
}
function load(dialect: ProviderDialect, entry: JsonObject) {
  const file = {
    providers: { p: { dialect, ...entry } },
    models: [{ name: 'm', targets: [{ provider: 'p', model: 'm' }] }],
    organizations: [{ id: 'o', keys: [{ id: 'k', key: '0123456789abcdef0' }] }],
  }
  return parseConfig(JSON.stringify(file), options)
}

/** The problems of an entry. */
function problemsOf(dialect: ProviderDialect, entry: JsonObject): readonly string[] {
  const loaded = load(dialect, entry)
  return loaded.ok ? [] : linesOf(loaded.problems)
}

const cases = PROVIDER_DIALECTS.flatMap((dialect) =>
  DIALECTS[dialect].configurations.map((configuration) => ({
    ...{ dialect, ...configuration },
    fields: Object.keys(configuration.entry).join(),
  })),
)

describe.each(cases)('$dialect: $fields', ({ dialect, entry, more, baseUrl }) => {
  test('is valid, at its default address', () => {
    const loaded = load(dialect, entry)
    expect(problemsOf(dialect, entry)).toEqual([])
    expect(loaded.ok && loaded.config.providers[0]?.baseUrl).toBe(baseUrl)
  })

  test.each(Object.keys(VALUES))('%s', (field) => {
    if (Object.hasOwn(entry, field)) {
      const { [field]: _, ...without } = entry
      const problems = problemsOf(dialect, without)
      expect(problems).toHaveLength(1)
      expect(problems[0]).toStartWith('providers.p')
      expect(problems[0]).toContain(field)
    } else {
      const problems = problemsOf(dialect, { ...entry, [field]: VALUES[field] ?? '' })
      expect(problems).toHaveLength(more.includes(field) ? 0 : 1)
      const second = takersOf(field).includes(dialect)
      const complaint = second
        ? 'providers.p: has more than one credential'
        : `providers.p.${field}: is only for dialect`
      if (!more.includes(field)) expect(problems[0]).toStartWith(complaint)
    }
  })
})

test('an incomplete credential is reported with what is missing', () => {
  expect(problemsOf('bedrock', { region: 'r', session_token: 't' })).toEqual([
    'providers.p.access_key_id: is missing; session_token needs it',
    'providers.p.secret_access_key: is missing; session_token needs it',
  ])
})

test.each([
  ['global', 'https://aiplatform.googleapis.com'],
  ['eu', 'https://aiplatform.eu.rep.googleapis.com'],
  ['asia-east1', 'https://asia-east1-aiplatform.googleapis.com'],
])('vertex in %s is at %s', (location, baseUrl) => {
  const loaded = load('vertex', { project: 'project-1', location, credentials: 'default' })
  expect(loaded.ok && loaded.config.providers[0]).toMatchObject({ baseUrl, project: 'project-1', location })
})

test.each([
  '{',
  '"text"',
  '{"client_email":"a@b.c"}',
  '{"client_email":"a","private_key":"b","token_uri":"file:///x"}',
])('service_account %s is not a key, and not shown', (text) => {
  const place = { project: 'project-1', location: 'global' }
  const problems = problemsOf('vertex', { ...place, service_account: text })
  expect(problems).toHaveLength(1)
  expect(problems[0]).toStartWith('providers.p.service_account: must be the JSON of a service account key')
  if (text.length > 1) expect(problems[0]).not.toContain(text)
})

test('vertex serves models of two publishers', () => {
  const file = (model: string) => ({
    providers: { p: { dialect: 'vertex', project: 'project-1', location: 'global', credentials: 'default' } },
    models: [{ name: 'm', targets: [{ provider: 'p', model }] }],
    organizations: [{ id: 'o', keys: [{ id: 'k', key: '0123456789abcdef0' }] }],
  })
  const problems = (model: string) => {
    const loaded = parseConfig(JSON.stringify(file(model)), options)
    return loaded.ok ? [] : linesOf(loaded.problems)
  }
  expect(problems('publishers/anthropic/models/claude-sonnet-4-5')).toEqual([])
  expect(problems('publishers/mistralai/models/mistral-large')).toEqual([
    'models[0].targets[0].model: is a model of publisher mistralai; weir calls those of google and anthropic only',
  ])
})

test('adapters generate images if the table has images: true', async () => {
  const deadlines = { connectMs: 1, firstByteMs: { stream: 1, whole: 1 }, idleMs: 1, totalMs: 1 }
  const providers = PROVIDER_DIALECTS.map((dialect) => ({
    name: dialect,
    dialect,
    baseUrl: '',
    headers: {},
    deadlines,
  }))
  const adapters = await loadAdapters({ providers })
  for (const dialect of PROVIDER_DIALECTS) {
    const { images = false } = providerDialects[dialect]
    expect([dialect, adapters.get(dialect)?.images !== undefined]).toEqual([dialect, images])
  }
})

test('the page about providers names every key of every dialect in its row', () => {
  const page = readFileSync(join(import.meta.dir, '../../docs/providers.md'), 'utf8')
  for (const dialect of PROVIDER_DIALECTS) {
    const row = page.split('\n').find((line) => line.startsWith(`| \`${dialect}\` |`))
    for (const field of providerDialects[dialect].takes)
      expect([dialect, row]).toEqual([dialect, expect.stringContaining(`\`${field}\``)])
  }
})

describe('a request carries the credential', () => {
  let upstreams: readonly Upstream[]
  let gateway: Gateway

  beforeAll(async () => {
    upstreams = await Promise.all(cases.map(() => Upstream.start()))
    const providers = cases.map(({ dialect, entry }, at) => {
      upstreams[at]?.otherwise(speaks(dialect, () => textAnswer('Hello')))
      const key = providerDialects[dialect].credentials === undefined ? { api_key: 'k' } : {}
      return [`p${at}`, { dialect, ...entry, ...key, base_url: `http://127.0.0.1:${upstreams[at]?.port}` }]
    })
    gateway = await Gateway.start({
      providers: Object.fromEntries(providers),
      models: Object.fromEntries(cases.map((_, at) => [`m${at}`, [`p${at}/m`]])),
    })
  })

  afterAll(async () => {
    await gateway[Symbol.asyncDispose]()
    for (const upstream of upstreams) await upstream[Symbol.asyncDispose]()
  })

  test.each(cases.map(({ dialect, entry }, at) => [at, dialect, Object.keys(entry).join()] as const))(
    '%i: %s with %s',
    async (at) => {
      for (const stream of [true, false]) {
        const body = { model: `m${at}`, messages: [{ role: 'user', content: 'hi' }], stream }
        const answer = await ask(gateway.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
        expect([answer.status, answer.end]).toEqual([200, 'whole'])
        const [name = '', value = /^$/] = cases[at]?.header ?? []
        expect(upstreams[at]?.calls.at(-1)?.header(name)).toMatch(value)
      }
    },
  )
})

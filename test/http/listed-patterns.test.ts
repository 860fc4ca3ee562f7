/** `GET /v1/models` and patterns: what providers list, read in the background, and what each key may use of it. */

import { expect, test } from 'bun:test'
import { writeFile } from 'node:fs/promises'
import { modelList, PatternModels } from '../../src/catalog/model-list.ts'
import type { Upstream as Adapted } from '../../src/gateway/gateway.ts'
import { ProviderLists } from '../../src/gateway/provider-lists.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { vertexGemini } from '../../src/providers/gemini/vertex-gemini.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { catalog, key, keyOf, model, organization } from '../catalog/fixture.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { configOf, Gateway, type GatewaySetup, KEY } from '../support/gateway.ts'
import { json, rest, silent } from '../support/scenarios.ts'
import { type Scenario, Upstream } from '../support/upstream.ts'

const MINUTE = 60_000
const deadlines = { connectMs: 5000, firstByteMs: { stream: 5000, whole: 5000 }, idleMs: 5000, totalMs: 5000 }

const listing = (...ids: readonly unknown[]): Scenario =>
  json(200, JSON.stringify({ object: 'list', data: ids.map((id) => ({ id, object: 'model' })) }))

/** Patterns, and what a key with these names may see of them. The clock is the test's. */
async function stage(names: readonly [name: string, target: string][], provider: Provider = openai) {
  const upstream = await Upstream.start()
  const failures: string[] = []
  const lists = new ProviderLists((name, error) => failures.push(`${name} ${error.kind} ${error.detail.status}`))
  const upstreamFor = (baseUrl: string): Adapted => ({
    provider,
    endpoint: { name: 'up', baseUrl, apiKey: 'secret-of-up', headers: {}, deadlines },
  })
  const serve = (baseUrl: string, patterns = names, models?: readonly string[]) => {
    const entries = patterns.map(([name, target]) => model(name, { targets: [{ provider: 'up', model: target }] }))
    const organizations = [organization('o', { keys: [key('k', { auto: 'off', models })] })]
    const served = catalog({ models: entries, organizations })
    lists.use({ catalog: served, upstreams: new Map([['up', upstreamFor(baseUrl)]]) })
    lists.stop()
    const found = new PatternModels(served, lists)
    return () => modelList(served, keyOf(served), found).data.map(({ id }) => id)
  }
  let ms = 0
  return {
    upstream,
    failures,
    serve,
    ids: serve(upstream.url),
    /** Lets time pass, and each reading end. Returns the addresses that were asked for. */
    async pass(duration: number, reaction: Scenario = json(500, '{}')): Promise<readonly string[]> {
      upstream.list = reaction
      upstream.lists.length = 0
      ms += duration
      await lists.tick(ms)
      return upstream.lists.map(({ path }) => path)
    },
    [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose](),
  }
}

test('names go through the pattern, in its place, sorted, once, and as a request would find them', async () => {
  await using at = await stage([
    ['z', 'real'],
    ['up/*', '*'],
    ['up/b', 'other'],
    ['us/*', 'us.anthropic.*'],
    ['up/x-*', 'y-*'],
    ['a', 'real'],
  ])
  expect(at.ids()).toEqual(['z', 'up/b', 'a'])
  const names = ['c', 'b', 'us.anthropic.claude', 'a:free', 'c', 'x-1', 'y-1', '../up', 'a b', 'ü', 'o/q', '', 7, null]
  await at.pass(0, listing(...names, 'n'.repeat(200)))
  expect(at.ids()).toEqual([
    ...['z', 'up/a:free', 'up/c', 'up/o/q', 'up/us.anthropic.claude', 'up/y-1'],
    ...['up/b', 'us/claude', 'up/x-1', 'a'],
  ])
})

test('a pattern of all names has no second "auto"', async () => {
  await using at = await stage([['*', '*']])
  await at.pass(0, listing('auto', 'b'))
  expect(at.ids()).toEqual(['b'])
})

test('a key sees what its lists allow', async () => {
  await using at = await stage([['up/*', '*']])
  await at.pass(0, listing('gpt-1', 'gpt-2', 'claude'))
  const ids = (...models: string[]) => at.serve(at.upstream.url, [['up/*', '*']], models)()
  expect(ids('up/gpt-*')).toEqual(['up/gpt-1', 'up/gpt-2'])
  expect(ids('up/claude')).toEqual(['up/claude'])
  expect(ids('other')).toEqual([])
  expect(ids()).toEqual([])
})

test('a list is read every ten minutes; one that cannot be read again is kept for an hour', async () => {
  await using at = await stage([['up/*', '*']])
  expect(await at.pass(0, listing('one'))).toEqual(['/v1/models'])
  expect(await at.pass(10 * MINUTE - 1)).toEqual([])
  expect(await at.pass(1)).toEqual(['/v1/models'])
  expect([at.ids(), at.failures]).toEqual([['up/one'], ['up failed 500']])
  expect(await at.pass(MINUTE - 1)).toEqual([])
  expect(await at.pass(1)).toHaveLength(1)
  await at.pass(49 * MINUTE - 1)
  expect(at.ids()).toEqual(['up/one'])
  await at.pass(1)
  expect([at.ids(), at.failures]).toEqual([[], ['up failed 500']])
  await at.pass(MINUTE, listing('two'))
  expect(at.ids()).toEqual(['up/two'])
  await at.pass(10 * MINUTE)
  expect(at.failures).toHaveLength(2)
})

test('a provider without a list is asked every ten minutes', async () => {
  await using at = await stage([['up/*', '*']])
  expect(await at.pass(0, json(404, '{}'))).toHaveLength(1)
  expect(await at.pass(10 * MINUTE - 1)).toHaveLength(0)
  expect(await at.pass(1, listing('one'))).toHaveLength(1)
  expect(at.ids()).toEqual(['up/one'])
})

test('a long list is cut at 1,000 names that fit', async () => {
  await using at = await stage([['up/*', 'm-*']])
  const names = Array.from({ length: 5000 }, (_, index) => `m-${String(index).padStart(4, '0')}`)
  await at.pass(0, listing(...names.map((name) => `a-${name}`).slice(0, 2000), ...names.reverse()))
  expect([at.ids().length, at.ids()[0], at.ids().at(-1)]).toEqual([1000, 'up/0000', 'up/0999'])
})

test.each<[string, Scenario]>([
  ['no JSON', json(200, 'nonsense')],
  ['an array', json(200, '[]')],
  ['no list', json(200, '{"data":{"id":"x"}}')],
  ['a body of more than 1 MiB', listing('x', 'y'.repeat(1024 * 1024))],
  ['a deep body', json(200, '['.repeat(100_000))],
  ['a body that breaks off', rest(['{"data":['])],
])('%s is no list; the one before stays', async (_, reaction) => {
  await using at = await stage([['up/*', '*']])
  await at.pass(0, listing('one'))
  await at.pass(10 * MINUTE, reaction)
  expect([at.ids(), at.failures.length]).toEqual([['up/one'], 1])
})

test('items that are none are left out', async () => {
  await using at = await stage([['up/*', '*']])
  await at.pass(0, json(200, '{"data":[null,1,"x",[],{},{"id":{}},{"id":"good"}]}'))
  expect(at.ids()).toEqual(['up/good'])
})

test('another configuration: what stays is kept, what changes is read again', async () => {
  await using at = await stage([['up/*', '*']])
  await at.pass(0, listing('one'))
  expect(at.serve(at.upstream.url)()).toEqual(['up/one'])
  expect(await at.pass(0)).toEqual([])
  const elsewhere = at.serve(`${at.upstream.url}/b`)
  expect(elsewhere()).toEqual([])
  expect(await at.pass(0, listing('two'))).toEqual(['/v1/b/models'])
  expect(elsewhere()).toEqual(['up/two'])
  expect(at.serve(at.upstream.url, [['m', 'm']])()).toEqual(['m'])
  expect(await at.pass(60 * MINUTE)).toEqual([])
})

const geminiList = json(
  200,
  JSON.stringify({
    models: [
      { name: 'models/gemini-9', supportedGenerationMethods: ['generateContent', 'countTokens'] },
      { name: 'models/embedding-9', supportedGenerationMethods: ['embedContent'] },
      { name: 'models/other' },
    ],
  }),
)

const deployments = json(
  200,
  JSON.stringify({
    data: [
      { id: 'ours', model: 'gpt-9', status: 'succeeded', object: 'deployment' },
      { id: 'coming', model: 'gpt-9', status: 'running', object: 'deployment' },
    ],
  }),
)

/** Answers by what the path contains; a page names the next one. */
const pages =
  (answers: Readonly<Record<string, object>>): Scenario =>
  (call) => {
    const found = Object.entries(answers).find(([part]) => call.path.includes(part))
    return found === undefined ? call.answer(404, '{}') : call.answer(200, JSON.stringify(found[1]))
  }

const foundation = { modelSummaries: [{ modelId: 'amazon.nova-lite-v1:0', modelArn: 'arn:x' }, { modelId: 7 }] }
const bedrockLists = pages({
  '/foundation-models?byInferenceType=ON_DEMAND&byOutputModality=TEXT': foundation,
  'nextToken=p%2B2%3D': { inferenceProfileSummaries: [{ inferenceProfileId: 'us.anthropic.claude-9-v1:0' }] },
  '/inference-profiles': { inferenceProfileSummaries: [{ inferenceProfileId: 'eu.nova' }, 'x'], nextToken: 'p+2=' },
})

const published = (publisher: string, ...models: string[]) =>
  models.map((name) => ({ name: `publishers/${publisher}/models/${name}`, versionId: '001' }))
const vertexLists = pages({
  'pageToken=2': { publisherModels: published('google', 'gemini-9-pro', 'gemini-embedding-1', 'imagen-9') },
  '/publishers/google/': { publisherModels: [...published('google', 'gemini-9'), {}, null], nextPageToken: '2' },
  '/publishers/anthropic/': { publisherModels: published('anthropic', 'claude-9'), nextPageToken: '' },
})
const GOOGLE = '/v1/v1beta1/publishers/google/models?pageSize=200'
const CLAUDE = '/v1/v1beta1/publishers/anthropic/models?pageSize=200'

test.each<[string, Provider, Scenario, string[], string[]]>([
  ['openai', openai, listing('a'), ['/v1/models'], ['up/a']],
  ['anthropic', anthropic, listing('a'), ['/v1/v1/models?limit=1000'], ['up/a']],
  ['gemini', gemini, geminiList, ['/v1/v1beta/models?pageSize=1000'], ['up/gemini-9', 'up/other']],
  ['azure', azure, deployments, ['/openai/deployments?api-version=2022-12-01'], ['up/ours']],
  [
    'bedrock',
    bedrock,
    bedrockLists,
    [
      '/v1/foundation-models?byInferenceType=ON_DEMAND&byOutputModality=TEXT',
      '/v1/inference-profiles?maxResults=1000&type=SYSTEM_DEFINED',
      '/v1/inference-profiles?maxResults=1000&type=SYSTEM_DEFINED&nextToken=p%2B2%3D',
    ],
    ['up/amazon.nova-lite-v1:0', 'up/eu.nova', 'up/us.anthropic.claude-9-v1:0'],
  ],
  [
    'vertex',
    vertexGemini,
    vertexLists,
    [GOOGLE, `${GOOGLE}&pageToken=2`, CLAUDE],
    ['up/claude-9', 'up/gemini-9', 'up/gemini-9-pro'],
  ],
])('%s', async (_, provider, reaction, paths, ids) => {
  await using at = await stage([['up/*', '*']], provider)
  expect(await at.pass(0, reaction)).toEqual(paths)
  expect(at.ids()).toEqual(ids)
})

test('Vertex AI is asked only for the lists of publishers whose models a pattern can have', async () => {
  await using claude = await stage([['up/*', 'claude-*']], vertexClaude)
  expect(await claude.pass(0, vertexLists)).toEqual([CLAUDE])
  expect(claude.ids()).toEqual(['up/9'])
  await using both = await stage(
    [
      ['g/*', 'gemini-9*'],
      ['c/*', 'c*'],
    ],
    vertexClaude,
  )
  expect(await both.pass(0, vertexLists)).toEqual([GOOGLE, `${GOOGLE}&pageToken=2`, CLAUDE])
})

test('lists whose pages never end are read to a bound', async () => {
  await using at = await stage([['up/*', 'claude-*']], vertexClaude)
  const endless = pages({
    '/publishers/': { publisherModels: published('anthropic', 'claude-1'), nextPageToken: 'on' },
  })
  expect(await at.pass(0, endless)).toHaveLength(10)
  expect(at.ids()).toEqual(['up/1'])
})

test('if one of the lists of a provider cannot be read, the ones before stay', async () => {
  await using at = await stage([['up/*', '*']], bedrock)
  await at.pass(0, bedrockLists)
  await at.pass(10 * MINUTE, pages({ '/foundation-models': { modelSummaries: [{ modelId: 'new' }] } }))
  expect([at.ids().length, at.failures]).toEqual([3, ['up failed 404']])
})

test('addresses of lists: Azure with and without v1, the control plane of Bedrock, all locations of Vertex AI', () => {
  const paths = (provider: Provider, baseUrl: string) =>
    provider.models?.requests({ name: 'up', baseUrl, apiKey: 'k', headers: {}, deadlines }, ['']).map(({ url }) => url)
  const azureList = 'https://x.openai.azure.com/openai/deployments?api-version=2022-12-01'
  expect(paths(azure, 'https://x.openai.azure.com')).toEqual([azureList])
  expect(paths(azure, 'https://x.openai.azure.com/openai/v1')).toEqual([azureList])
  expect(paths(bedrock, 'https://bedrock-runtime.eu-west-1.amazonaws.com')?.[0]).toStartWith(
    'https://bedrock.eu-west-1.amazonaws.com/foundation-models?',
  )
  expect(paths(bedrock, 'https://bedrock-runtime-fips.us-east-1.amazonaws.com')?.[1]).toStartWith(
    'https://bedrock-fips.us-east-1.amazonaws.com/inference-profiles?',
  )
  for (const host of ['aiplatform', 'europe-west1-aiplatform', 'aiplatform.eu.rep'])
    expect(paths(vertexGemini, `https://${host}.googleapis.com`)?.[0]).toStartWith(
      'https://aiplatform.googleapis.com/v1beta1/publishers/google/models?',
    )
  expect(paths(vertexGemini, 'https://vertex.example.org')?.[0]).toStartWith('https://vertex.example.org/v1beta1/')
})

async function idsAt(gateway: Gateway, as = KEY): Promise<readonly string[]> {
  const answer = await ask(gateway.port, requestBytes('/v1/models', { method: 'GET', key: as }))
  return (answer.json() as { data: { id: string }[] }).data.map(({ id }) => id)
}

async function until(gateway: Gateway, ids: readonly string[]): Promise<void> {
  while (!Bun.deepEquals(await idsAt(gateway), ids)) await Bun.sleep(50)
}

test('a gateway lists them, and after a reload without the pattern no longer', async () => {
  await using upstream = await Upstream.start()
  await using silentOne = await Upstream.start()
  upstream.list = listing('gpt-1', 'claude')
  silentOne.list = silent()
  const price = { input: 1, output: 2 }
  const organizations = [
    {
      id: 'test',
      limits: { spend: { day: 5 } },
      keys: [
        { id: 'test', key: KEY },
        { id: 'narrow', key: 'narrow-key-0123456789', models: ['up/gpt-*'] },
      ],
    },
  ]
  const setup = (models: GatewaySetup['models']): GatewaySetup => ({
    providers: { up: upstream.url, quiet: silentOne.url, gone: 'http://127.0.0.1:1/v1' },
    models: models ?? {},
    config: { organizations },
  })
  const exact = { targets: [{ provider: 'up', model: 'm' }], price }
  const pattern = (provider: string) => ({ targets: [{ provider, model: '*' }], price })
  const gateway = await Gateway.start(
    setup({ 'gone/*': pattern('gone'), 'quiet/*': pattern('quiet'), 'up/*': pattern('up'), exact }),
  )
  await using _ = gateway
  // No request waits for a provider.
  await until(gateway, ['up/claude', 'up/gpt-1', 'exact'])
  expect(await idsAt(gateway, 'narrow-key-0123456789')).toEqual(['up/gpt-1'])
  expect(upstream.lists[0]?.header('authorization')).toBe('Bearer provider-key-of-up')
  const line = await gateway.line((one) => one['event'] === 'provider.models_unread')
  expect(line).toMatchObject({ provider: 'gone', reason: 'unreachable', level: 'info' })
  expect(gateway.output).not.toContain('provider-key-of')
  expect(gateway.output).not.toContain('127.0.0.1:1/')
  await writeFile(gateway.configFile, JSON.stringify(configOf(setup({ exact }), gateway.folder)))
  gateway.signal('SIGHUP')
  await until(gateway, ['exact'])
})

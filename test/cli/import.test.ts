/** `weir import litellm`: the file that it prints passes `weir check`, and nothing is lost without a line. */

import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { fromLitellm } from '../../src/import/litellm.ts'
import { PROGRAM } from '../process/weir.ts'

const folder = await mkdtemp(join(tmpdir(), 'weir-import-'))
afterAll(() => rm(folder, { recursive: true, force: true }))

/** As of a proxy that uses most of what LiteLLM has. */
const LITELLM = `
model_list:
  - model_name: gpt-4o
    litellm_params: { model: openai/gpt-4o, api_key: os.environ/OPENAI_API_KEY, rpm: 480 }
    model_info:
      input_cost_per_token: 0.0000025
      output_cost_per_token: 1e-5
      cache_read_input_token_cost: 0.00000125
      max_input_tokens: 128000
      max_output_tokens: 16384
      supports_function_calling: true
      supports_vision: false
  - model_name: gpt-4o
    litellm_params:
      model: azure/gpt-4o-eu
      api_base: https://example.openai.azure.com/
      api_key: os.environ/AZURE_API_KEY
      api_version: "2025-01-01-preview"
      timeout: 30
  - model_name: claude
    litellm_params: { model: claude-sonnet-4-5, litellm_credential_name: claude-key }
    model_info: { input_cost_per_token: 0.000003, output_cost_per_token: 0.000015 }
  - model_name: nova lite
    litellm_params: { model: bedrock/converse/amazon.nova-lite-v1:0, aws_region_name: eu-west-1 }
    model_info: { input_cost_per_token: 6e-8, output_cost_per_token: 2.4e-7 }
  - model_name: painter
    litellm_params: { model: gpt-image-1, api_key: os.environ/OPENAI_API_KEY, output_cost_per_image: 0.04 }
  - model_name: llama
    litellm_params: { model: ollama_chat/llama3, api_base: "http://127.0.0.1:11434" }
    model_info: { input_cost_per_token: 0, output_cost_per_token: 0 }
  - { model_name: own, litellm_params: { model: hosted_vllm/own, api_base: os.environ/VLLM_URL } }
  - { model_name: homeless, litellm_params: { model: hosted_vllm/own } }
  - { model_name: "groq/*", litellm_params: { model: "groq/*" } }
  - { model_name: vertex, litellm_params: { model: vertex_ai/mistral-large, vertex_project: p } }
  - { model_name: ada, litellm_params: { model: text-embedding-ada-002 } }
  - { model_name: "x-*-y", litellm_params: { model: "groq/*" } }
  - { model_name: broken }
credential_list:
  - { credential_name: claude-key, credential_values: { api_key: os.environ/CLAUDE_KEY } }
router_settings:
  routing_strategy: least-busy
  num_retries: 2
  fallbacks: [{ gpt-4o: [claude, painter] }, { claude: [gpt-4o] }]
  model_group_alias: { gpt-4: gpt-4o, sonnet: { model: claude, hidden: true }, lost: nothing }
litellm_settings: { request_timeout: 120, drop_params: true, callbacks: [langfuse] }
general_settings: { master_key: os.environ/LITELLM_MASTER_KEY, alerting: [slack, email] }
environment_variables: { REDIS_HOST: localhost }
include: [other.yaml]
`

const ENV = {
  OPENAI_API_KEY: 'a',
  AZURE_API_KEY: 'b',
  CLAUDE_KEY: 'c',
  AWS_ACCESS_KEY_ID: 'd',
  AWS_SECRET_ACCESS_KEY: 'e',
  GROQ_API_KEY: 'g',
  VLLM_URL: 'http://127.0.0.1:8000/v1',
  SLACK_WEBHOOK_URL: 'https://hooks.slack.invalid/x',
  LITELLM_MASTER_KEY: 'canary-0123456789abcdef',
  WEIR_KEY: 'canary-0123456789abcdef',
}

async function weir(env: Readonly<Record<string, string>>, ...args: readonly string[]) {
  const child = Bun.spawn([...PROGRAM, ...args], {
    cwd: folder,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { code, stdout, stderr }
}

test('a whole proxy: the result passes weir check, with a line for each thing that is lost', async () => {
  await writeFile(join(folder, 'config.yaml'), LITELLM)
  const { code, stdout, stderr } = await weir({}, 'import', 'litellm', 'config.yaml')
  expect(code).toBe(0)
  await writeFile(join(folder, 'weir.yaml'), stdout)
  const checked = await weir(ENV, 'check')
  expect([checked.code, checked.stdout]).toEqual([0, 'weir.yaml: ok (7 providers, 8 models, 1 organisation, 1 key)\n'])
  const lost = [
    'model_list[11]: x-*-y is not carried over: a pattern of weir has its * at the end',
    'model_list[12]: is not carried over: it has no model_name or no litellm_params',
    'model_list[0].litellm_params.rpm: is not carried over; weir limits organisations and keys ' +
      '(requests_per_minute, tokens_per_minute)',
    'model_list[7]: homeless is not carried over: it has no api_base',
    'model_list[9]: vertex is not carried over: weir calls Gemini and Claude on Vertex AI, and no other models',
    'router_settings.fallbacks: gpt-4o to painter is not carried over: one is for chat and the other ' +
      'generates images',
    'router_settings.fallbacks: claude to gpt-4o is not carried over: it would close a circle of fallbacks',
    'router_settings.model_group_alias: lost is not carried over: nothing is not in the new file',
    'general_settings.alerting: email is not carried over; see alerts.hooks',
    'litellm_settings.callbacks: is not carried over; weir writes one log line per request',
    'router_settings.routing_strategy: is not carried over; weir spreads conversations by weight ' +
      '(spread: weighted), or tries targets in order (spread: order)',
    'include: is not carried over',
  ]
  const assumed = [
    'model_list[3]: nova lite became nova-lite: weir cannot have that name',
    'gpt-4o: its targets got spread: weighted, so that a conversation stays with one; remove it to try them in order',
    ...['claude', 'nova-lite', 'llama', 'own', 'groq/*'].map(
      (name) => `${name}: supports: [tools, images] is assumed; correct it`,
    ),
    'general_settings.alerting: slack gets all alerts of weir; alerts.hooks[].events chooses some',
    'num_retries: became routing.max_attempts 3; weir retries on other targets only',
  ]
  const toDo = [
    ...['own', 'groq/*', 'ada'].map(
      (name) => `${name}: has no price; without one it cannot be used under a spend limit, and costs nothing`,
    ),
    'environment_variables.REDIS_HOST: set it in the environment of weir',
    'set in the environment of weir: SLACK_WEBHOOK_URL, OPENAI_API_KEY, AZURE_API_KEY, CLAUDE_KEY, ' +
      'AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, VLLM_URL, GROQ_API_KEY, LITELLM_MASTER_KEY',
  ]
  expect(stderr.trimEnd().split('\n')).toEqual([
    ...lost.map((line) => `lost: ${line}`),
    ...assumed.map((line) => `assumed: ${line}`),
    ...toDo.map((line) => `to do: ${line}`),
  ])
  const file = parse(stdout)
  expect(file.models.find((model: { name: string }) => model.name === 'groq/*')).toMatchObject({
    targets: [{ provider: 'groq', model: '*' }],
  })
  expect(file.models[0]).toEqual({
    name: 'gpt-4o',
    aliases: ['gpt-4'],
    targets: [
      { provider: 'openai', model: 'gpt-4o' },
      { provider: 'azure', model: 'gpt-4o-eu' },
    ],
    spread: 'weighted',
    fallbacks: ['claude'],
    price: { input: 2.5, cached_input: 1.25, output: 10 },
    context_window: 128000,
    max_output_tokens: 16384,
    supports: ['tools'],
  })
  expect(file.providers.azure).toEqual({
    dialect: 'azure',
    base_url: 'https://example.openai.azure.com',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the configuration
    api_key: '${AZURE_API_KEY}',
    api_version: '2025-01-01-preview',
    total_timeout_ms: 30_000,
  })
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the configuration
  expect(file.providers.anthropic).toEqual({ dialect: 'anthropic', api_key: '${CLAUDE_KEY}' })
  expect(file.models.find((model: { name: string }) => model.name === 'painter')).toMatchObject({
    price: { image: 0.04 },
    supports: ['image_generation'],
  })
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a reference of the configuration
  expect(file.organizations).toEqual([{ id: 'default', keys: [{ id: 'default', key: '${LITELLM_MASTER_KEY}' }] }])
})

test('prices, limits and identities', () => {
  const file = `
model_list:
  - { model_name: gpt, litellm_params: { model: openai/gpt-4o, max_tokens: 900 } }
  - model_name: sonnet
    litellm_params: { model: bedrock/eu-west-1/anthropic.sonnet, aws_role_name: "arn:aws:iam::1:role/x" }
  - model_name: own
    litellm_params: { model: azure/my-deployment, api_base: "https://x.invalid" }
    model_info: { base_model: azure/gpt }
  - model_name: mine
    litellm_params: { model: openai/gpt-4o, input_cost_per_token: 1e-7, output_cost_per_token: "3e-07" }
`
  const prices = {
    sample_spec: { input_cost_per_token: 0 },
    'gpt-4o': {
      input_cost_per_token: 2.5e-6,
      output_cost_per_token: 1e-5,
      max_tokens: 16384,
      max_input_tokens: 128000,
    },
    'anthropic.sonnet': {
      ...{ input_cost_per_token: 3e-6, output_cost_per_token: 1.5e-5, cache_read_input_token_cost: 3e-7 },
      ...{ cache_creation_input_token_cost: 3.75e-6, cache_creation_input_token_cost_above_1hr: 6e-6 },
      ...{ input_cost_per_token_above_200k_tokens: 6e-6, supports_function_calling: true },
      ...{
        input_cost_per_token_batches: 1.5e-6,
        output_cost_per_token_priority: 3e-5,
        input_cost_per_token_flex: null,
      },
      ...{ input_cost_per_token_above_200k_tokens_priority: 1.2e-5, input_cost_per_audio_token: 4e-5 },
    },
    'azure/gpt': {
      ...{ input_cost_per_token: 1.1e-7, output_cost_per_token: 4.4e-7, cache_read_input_token_cost: 1e-8 },
      ...{ input_cost_per_token_priority: 2.2e-7, output_cost_per_token_priority: 8.8e-7 },
      ...{ input_cost_per_token_above_272k_tokens_priority: 4e-7 },
    },
  }
  const SONNET = { input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6, output: 15, audio_input: 40 }
  const imported = fromLitellm(file, { prices })
  if ('problem' in imported) throw new Error(imported.problem)
  const { models, providers } = parse(imported.text)
  expect(models.map((model: { price: object }) => model.price)).toEqual([
    { input: 2.5, output: 10 },
    {
      ...{ input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6, output: 15, audio_input: 40 },
      above: [{ input_tokens: 200_000, ...SONNET, input: 6 }],
    },
    {
      ...{ input: 0.11, cached_input: 0.01, output: 0.44 },
      tiers: {
        priority: {
          ...{ input: 0.22, cached_input: 0.01, output: 0.88 },
          above: [{ input_tokens: 272_000, input: 0.4, cached_input: 0.01, output: 0.88 }],
        },
      },
    },
    { input: 0.1, output: 0.3 },
  ])
  expect(models[0]).toMatchObject({ context_window: 128000, max_output_tokens: 16384, default_output_tokens: 900 })
  expect(models[1].supports).toEqual(['tools'])
  expect(providers.bedrock).toEqual({ dialect: 'bedrock', region: 'eu-west-1', credentials: 'default' })
  const notes = imported.notes.join('\n')
  expect(notes).toContain('lost: sonnet: input_cost_per_token_batches: weir has no such price')
  // What nobody has stated is not made up.
  expect(notes).toContain('to do: sonnet: has no output price above 200000 tokens; add it')
  const left = 'has no input price of tier priority, so the tier is left out; add it to price.tiers'
  expect(notes).toContain(`to do: sonnet: ${left}`)
  expect(notes).toContain('to do: own: has no output price of tier priority above 272000 tokens; add it')
  expect(notes).toContain(
    'to do: model_list[1]: credentials: default takes the identity of the machine; give it that of',
  )
  expect(notes).toContain('aws_role_name (arn:aws:iam::1:role/x)')
})

describe('Vertex AI', () => {
  const imported = (params: string) => {
    const file = `model_list: [{ model_name: m, litellm_params: ${params} }]`
    const result = fromLitellm(file)
    if ('problem' in result) throw new Error(result.problem)
    const { providers, models } = parse(result.text)
    return { provider: Object.values(providers)[0], target: models[0].targets[0], notes: result.notes.join('\n') }
  }

  test('Claude, with a key in a file', () => {
    const place = 'vertex_project: project-1, vertex_location: europe-west1'
    const model = 'vertex_ai/claude-sonnet-4-5@20250929'
    const { provider, target } = imported(`{ model: ${model}, ${place}, vertex_credentials: /run/key.json }`)
    expect(target).toEqual({ provider: 'vertex-ai', model: 'claude-sonnet-4-5@20250929' })
    expect(provider).toEqual({
      ...{ dialect: 'vertex', project: 'project-1', location: 'europe-west1' },
      service_account: `\${file:/run/key.json}`,
    })
  })

  test('Gemini, with what LiteLLM takes from the environment and the machine', () => {
    const { provider, notes } = imported('{ model: vertex_ai/gemini-2.5-flash }')
    expect(provider).toEqual({
      ...{ dialect: 'vertex', project: `\${VERTEXAI_PROJECT}`, location: 'us-central1', credentials: 'default' },
    })
    expect(notes).toContain('has no vertex_location; weir uses us-central1')
  })

  test('a key in the environment may be a path', () => {
    const { provider, notes } = imported('{ model: vertex_ai/gemini-2.5-pro, vertex_credentials: os.environ/SA }')
    expect(provider).toMatchObject({ service_account: `\${SA}` })
    expect(notes).toContain('takes the JSON of the key itself')
  })
})

test('regions in names, organisations of OpenAI, and values that only the environment of weir has', async () => {
  await writeFile(
    join(folder, 'regions.yaml'),
    `
model_list:
  - { model_name: haiku, litellm_params: { model: bedrock/eu-west-3/anthropic.claude-3-haiku-20240307-v1:0 } }
  - { model_name: nova, litellm_params: { model: bedrock/converse/us-gov-west-1/amazon.nova-pro-v1:0 } }
  - { model_name: other, litellm_params: { model: bedrock/eu-west-3/x.y, aws_region_name: eu-west-1 } }
  - { model_name: gpt, litellm_params: { model: gpt-4o, organization: os.environ/OPENAI_ORG } }
  - model_name: gemini
    litellm_params:
      model: vertex_ai/gemini-2.5-pro
      vertex_ai_project: os.environ/PROJECT
      vertex_ai_location: europe-west1
      vertex_credentials: /etc/vertex.json
`,
  )
  const { code, stdout, stderr } = await weir({}, 'import', 'litellm', 'regions.yaml')
  expect([code, stderr.split('\n').filter((line) => /^to do: (?:correct|set in|make)/.test(line))]).toEqual([
    0,
    [
      'to do: set in the environment of weir: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, OPENAI_API_KEY, OPENAI_ORG, ' +
        'PROJECT, WEIR_KEY',
      'to do: make readable for weir: /etc/vertex.json',
    ],
  ])
  expect(stderr).not.toContain('aws_region_name')
  const { providers, models } = parse(stdout)
  const targets = models.map((model: { targets: readonly { provider: string; model: string }[] }) => model.targets[0])
  expect(targets.slice(0, 3).map((target: { model: string }) => target.model)).toEqual([
    'anthropic.claude-3-haiku-20240307-v1:0',
    'amazon.nova-pro-v1:0',
    'x.y',
  ])
  expect(targets.slice(0, 3).map((target: { provider: string }) => providers[target.provider].region)).toEqual([
    'eu-west-3',
    'us-gov-west-1',
    'eu-west-1',
  ])
  expect(providers.openai.headers).toEqual({ 'OpenAI-Organization': `\${OPENAI_ORG}` })
  expect(providers['vertex-ai']).toMatchObject({ project: `\${PROJECT}`, location: 'europe-west1' })
})

describe('the master key and the budget', () => {
  const model =
    'model_list: [{ model_name: m, litellm_params: { model: gpt-4o, input_cost_per_token: 1e-6, ' +
    'output_cost_per_token: 2e-6 } }]\n'
  const organizationOf = (rest: string) => {
    const imported = fromLitellm(model + rest)
    if ('problem' in imported) throw new Error(imported.problem)
    return { organization: parse(imported.text).organizations[0], notes: imported.notes.join('\n') }
  }
  const own = [{ id: 'default', key: `\${WEIR_KEY}` }]

  test.each([
    ['none', '', own, 'has no master_key; set WEIR_KEY'],
    ['a well-known one', 'general_settings: { master_key: sk-1234 }', own, 'easy to guess; set WEIR_KEY'],
    [
      'one in the file',
      'general_settings: { master_key: canary-0123456789abcdef }',
      [{ id: 'default', key: 'canary-0123456789abcdef' }],
      'general_settings.master_key: stands in the file',
    ],
  ])('%s', (_, rest, keys, note) => {
    const { organization, notes } = organizationOf(rest)
    expect(organization.keys).toEqual(keys)
    expect(notes).toContain(note)
    expect(notes).not.toContain('canary')
  })

  test('a budget is one of the organisation', () => {
    const budget = (text: string) => organizationOf(`litellm_settings: { ${text} }`).organization.limits
    expect(budget('max_budget: 100, budget_duration: 30d')).toEqual({ spend: { month: 100 } })
    expect(budget('max_budget: 5, budget_duration: 1d')).toEqual({ spend: { day: 5 } })
    expect(budget('max_budget: 5')).toEqual({ spend: { total: 5 } })
    expect(budget('max_budget: 5, budget_duration: 7d')).toBeUndefined()
    expect(budget('max_budget: 0.0000001')).toBeUndefined()
  })
})

test.each([
  ['model_list: [', 'is not YAML: '],
  ['providers: {}\n', 'has no model_list, '],
  ['- a\n', 'has no model_list, '],
  ['model_list: []\n', 'has no model that weir can serve'],
])('%p is refused in one line', async (text, problem) => {
  await writeFile(join(folder, 'odd.yaml'), text)
  const { code, stdout, stderr } = await weir({}, 'import', 'litellm', 'odd.yaml')
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toStartWith(`weir: odd.yaml: ${problem}`)
  expect(stderr.trimEnd()).not.toContain('\n')
})

test('a file that does not exist, and wrong usage', async () => {
  expect((await weir({}, 'import', 'litellm', 'none.yaml')).stderr).toBe('weir: none.yaml: there is no such file\n')
  expect((await weir({}, 'import', 'litellm')).code).toBe(2)
  expect((await weir({}, 'import', 'portkey', 'x')).code).toBe(2)
})

test('weir check names the command for such a file', async () => {
  const { code, stderr } = await weir({}, 'check', '--config', 'config.yaml')
  expect(code).toBe(1)
  expect(stderr).toStartWith('config.yaml:2: model_list: this is a configuration of the LiteLLM proxy')
  expect(stderr).toContain('weir import litellm')
})

test('a pattern gets the models of the price file with their own prices, and the highest for all others', () => {
  const of = (input: number, output: number, more: object = {}) => ({
    ...{ input_cost_per_token: input / 1e6, output_cost_per_token: output / 1e6, litellm_provider: 'anthropic' },
    ...{ mode: 'chat', supports_function_calling: true, max_input_tokens: 200_000, ...more },
  })
  const prices = {
    'claude-large-9': of(15, 75, { cache_read_input_token_cost: 1.5e-6 }),
    'anthropic/claude-small-9': of(1, 5),
    'claude-own-9': of(3, 15),
    'claude-embedding': of(1, 1, { mode: 'embedding' }),
    'anthropic/deep/claude': of(99, 99),
    'gpt-9': of(99, 99, { litellm_provider: 'openai' }),
    free: { litellm_provider: 'anthropic', mode: 'chat' },
  }
  const text = `
model_list:
  - { model_name: "claude/*", litellm_params: { model: "anthropic/*", api_key: os.environ/ANTHROPIC_API_KEY, rpm: 5 } }
  - { model_name: claude/claude-own-9, litellm_params: { model: anthropic/claude-other, input_cost_per_token: 2e-6,
      output_cost_per_token: 2e-6 } }
general_settings: { master_key: os.environ/MASTER }
`
  const made = fromLitellm(text, { prices })
  if ('problem' in made) throw new Error(made.problem)
  const { models } = parse(made.text) as { models: { name: string; targets: unknown; price: object }[] }
  expect(models.map(({ name, targets, price }) => [name, targets, price])).toEqual([
    [
      'claude/claude-large-9',
      [{ provider: 'anthropic', model: 'claude-large-9' }],
      { input: 15, cached_input: 1.5, output: 75 },
    ],
    ['claude/claude-small-9', [{ provider: 'anthropic', model: 'claude-small-9' }], { input: 1, output: 5 }],
    ['claude/*', [{ provider: 'anthropic', model: '*' }], { input: 15, cached_input: 1.5, output: 75 }],
    ['claude/claude-own-9', [{ provider: 'anthropic', model: 'claude-other' }], { input: 2, output: 2 }],
  ])
  expect(made.notes.filter((note) => note.includes('rpm'))).toHaveLength(1)
  expect(made.notes.join('\n')).toContain('claude/*: 2 models of the price file have their own price')
})

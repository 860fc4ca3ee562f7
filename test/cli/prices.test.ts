/** `weir prices diff` with lists of each form, and what `--apply` changes of a configuration file. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readPriceList } from '../../src/import/price-list.ts'
import { MAIN } from '../process/weir.ts'

let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-prices-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const PROVIDERS = `providers:
  up: { dialect: openai, base_url: "http://127.0.0.1:9/v1", api_key: "\${NOT_SET_HERE}" }
  cloud: { dialect: azure, base_url: "http://127.0.0.1:9", api_version: v1, api_key: "\${NOT_SET_HERE}" }
`
const OWNERS = `organizations: [{ id: acme, keys: [{ id: ci, key: configured-key-0123456789 }] }]
`

let files = 0

async function diff(config: string, list: string | object, ...flags: readonly string[]) {
  const [file, from] = [join(folder, `weir-${++files}.yaml`), join(folder, `list-${files}`)]
  await Bun.write(file, config)
  await Bun.write(from, typeof list === 'string' ? list : JSON.stringify(list))
  const run = async (...more: readonly string[]) => {
    const words = [process.execPath, MAIN, 'prices', 'diff', '--config', file, '--from', from, ...flags, ...more]
    const child = Bun.spawn(words, { env: { PATH: process.env['PATH'] }, stdio: ['ignore', 'pipe', 'pipe'] })
    const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
    return { lines: stdout.split('\n').slice(0, -1), stderr, code }
  }
  return { ...(await run()), run, text: () => Bun.file(file).text() }
}

const LITELLM = {
  sample_spec: { input_cost_per_token: 0, output_cost_per_token: 0 },
  'gpt-5': {
    input_cost_per_token: 3e-6,
    cache_read_input_token_cost: 3e-7,
    output_cost_per_token: 1.2e-5,
    input_cost_per_token_above_272k_tokens: 6e-6,
    output_cost_per_token_above_272k_tokens: 1.8e-5,
    input_cost_per_token_priority: 6e-6,
    output_cost_per_token_priority: 2.4e-5,
  },
  public: { input_cost_per_token: 9e-6, output_cost_per_token: 9e-6 },
  'gpt-4o': { input_cost_per_token: 1e-6, output_cost_per_token: 1e-6 },
  'azure/gpt-4o': { input_cost_per_token: 2e-6, output_cost_per_token: 4e-6 },
}

test('one line a difference, the dearest first, by the names of targets before public names', async () => {
  const config = `${PROVIDERS}models:
  - name: public
    targets: [{ provider: up, model: gpt-5 }]
    price: { input: 2.5, cached_input: 0.25, output: 15, tiers: { priority: { factor: 2 } } }
  - { name: gpt-5, targets: [{ provider: up, model: unlisted }], price: { input: 3, cached_input: 0.3, output: 12,
      above: [{ input_tokens: 272000, input: 6, cached_input: 0.3, output: 18 }] } }
  - { name: eu, targets: [{ provider: cloud, model: gpt-4o }], price: { input: 2, output: 4 } }
  - { name: lost, targets: [{ provider: up, model: nowhere }], price: { input: 1, output: 1 } }
${OWNERS}`
  const { lines, stderr, code, text } = await diff(config, LITELLM)
  expect({ lines, stderr, code }).toEqual({
    lines: [
      'public, above 272000: only the list has this length: input 6, cached_input 0.3, output 18 (+140.0 %)',
      'gpt-5, tier priority: only the list has this tier: input 6, cached_input 0.3, output 24 (+100.0 %)',
      'public: input 2.5 -> 3 (+20.0 %)',
      'public: cached_input 0.25 -> 0.3 (+20.0 %)',
      'public, tier priority: input 5 -> 6 (+20.0 %)',
      'public: output 15 -> 12 (-20.0 %)',
      'public, tier priority: output 30 -> 24 (-20.0 %)',
      'public, tier priority: cached_input 0.5 -> 0.3 (-40.0 %)',
    ],
    stderr: 'weir: not in the list: lost\n',
    code: 1,
  })
  expect(await text()).toBe(config)
})

const MANY = `# a comment at the top
${PROVIDERS}models:
  - name: block          # the name
    targets: [{ provider: up, model: gpt-5 }]
    price:               # of this year
      input:   2.50      # in
      output: 15.00
      # long requests
      above:
        # of the first
        - { input_tokens: 100000, input: 4, output: 20, }   # first
        - input_tokens: 272000
          # dear
          input: 5
      tiers:
        # half of it
        flex: { factor: 0.5 }    # kept
  - {name: flow, targets: [{provider: up, model: gpt-5}], price: {input: 1,output: 2,} }
  - name: shared
    targets: [{ provider: up, model: gpt-4o }]
    price: &shared { input: &one 1, output: 2 }  # shared
  - name: sharing
    targets: [{ provider: up, model: nowhere }]
    price: *shared
  - { name: one, targets: [{ provider: up, model: nowhere2 }], price: { input: *one, output: 5 } }
  - name: bare
    targets: [{ provider: up, model: gpt-4o }]
  - name: picture
    supports: [image_generation]
    targets: [{ provider: up, model: pic }]
    price: { image: 0.5 }   # each
${OWNERS}# the end`

const YAML_LIST = `
models:
  - name: gpt-5
    price:
      input: 3
      output: 12
      above: [{ input_tokens: 272000, input: 6, output: 18 }]
      tiers: { priority: { input: 6, output: 24 }, flex: { input: 1.4, output: 7 } }
  - { name: other, targets: [{ model: gpt-4o }], price: { input: 4, output: 8 } }
  - { name: pic, price: { images: { "low:1024x1024": 0.01 } } }
`

const GONE = [
  '      input:   2.50      # in',
  '      output: 15.00',
  '        - { input_tokens: 100000, input: 4, output: 20, }   # first',
  '          input: 5',
  '        flex: { factor: 0.5 }    # kept',
  '  - {name: flow, targets: [{provider: up, model: gpt-5}], price: {input: 1,output: 2,} }',
  '    price: &shared { input: &one 1, output: 2 }  # shared',
  '    price: *shared',
  '  - { name: one, targets: [{ provider: up, model: nowhere2 }], price: { input: *one, output: 5 } }',
  '    price: { image: 0.5 }   # each',
]
const FLEX = 'flex: { input: 1.4, output: 7 }'
test('a tier whose list has a price of the input alone is named, and not written', async () => {
  const row = (more: object) => ({ input_cost_per_token: 3e-6, output_cost_per_token: 1.2e-5, ...more })
  const list = {
    'gpt-5': row({ input_cost_per_token_priority: 6e-6, input_cost_per_token_above_272k_tokens: 6e-6 }),
    'gpt-6': row({ input_cost_per_token_priority: 6e-6 }),
  }
  const config = `${PROVIDERS}models:
  - { name: none, targets: [{ provider: up, model: gpt-5 }], price: { input: 3, output: 12 } }
  - { name: some, targets: [{ provider: up, model: gpt-6 }],
      price: { input: 3, output: 12, tiers: { priority: { input: 5, output: 24 } } } }
${OWNERS}`
  const { lines, code, run, text } = await diff(config, list)
  expect(code).toBe(1)
  expect(lines).toEqual([
    'none, above 272000: only the list has this length, and no output price of it: input 6 (+100.0 %)',
    'none, tier priority: only the list has this tier, and no output price of it: input 6 (+100.0 %)',
    'some, tier priority: input 5 -> 6 (+20.0 %)',
  ])
  // One is left to the operator.
  expect((await run('--apply')).code).toBe(1)
  expect(await text()).toContain(
    'price: { input: 3, output: 12, above: [{ input_tokens: 272000, input: 6, output: 12 }] }',
  )
  expect(await text()).toContain('tiers: { priority: { input: 6, output: 24 } }')
  expect((await run()).lines).toEqual([
    'none, tier priority: only the list has this tier, and no output price of it: input 6 (+100.0 %)',
  ])
})

const PRIORITY = 'priority: { input: 6, output: 24 }'
const WRITTEN = [
  '      input:   3      # in',
  '      output: 12',
  '        - { input_tokens: 100000, input: 3, output: 12, }   # first',
  '          input: 6',
  '          output: 18',
  `        ${PRIORITY}`,
  `        ${FLEX}    # kept`,
  [
    '  - {name: flow, targets: [{provider: up, model: gpt-5}], price: {input: 3,output: 12, ',
    `above: [{ input_tokens: 272000, input: 6, output: 18 }], tiers: { ${PRIORITY}, `,
    `${FLEX} },} }`,
  ].join(''),
  '    price: &shared { input: &one 4, output: 8 }  # shared',
  '    price: { input: 1, output: 2 }',
  '  - { name: one, targets: [{ provider: up, model: nowhere2 }], price: { input: 1, output: 5 } }',
  '    price: { input: 4, output: 8 }',
  '    price: { images: { "*": 0.5, "low:1024x1024": 0.01 } }   # each',
]

test.each(['\n', '\r\n'])('--apply writes what differs and no other byte, with lines that end in %j', async (eol) => {
  const config = MANY.replaceAll('\n', eol)
  const { code, run, text } = await diff(config, YAML_LIST, '--apply')
  const [before, after] = [config.split(eol), (await text()).split(eol)]
  expect(code).toBe(0)
  expect(before.filter((line) => !after.includes(line))).toEqual(GONE)
  expect(after.filter((line) => !before.includes(line))).toEqual(WRITTEN)
  // The other lines stay in their order.
  expect(after.filter((line) => before.includes(line))).toEqual(before.filter((line) => after.includes(line)))
  expect(await run()).toMatchObject({ code: 0, lines: [] })
})

describe('a list', () => {
  test("of OpenRouter's form", () => {
    const pricing = { prompt: '0.0000025', completion: '0.000015', input_cache_read: '0.00000025', request: '0' }
    const overrides = [
      { min_prompt_tokens: 272_000, prompt: '0.000005' },
      { min_prompt_tokens: 1000, prompt: '0.01', utc_start: 1630 },
    ]
    const data = [
      { id: 'openai/gpt-5', pricing: { ...pricing, input_cache_write: '0', overrides } },
      { id: 'some/free', pricing: { prompt: '0', completion: '0', input_cache_read: '0' } },
      { id: 'openrouter/auto', pricing: { prompt: '-1', completion: '-1' } },
      { id: 'no/output', pricing: { prompt: '0.1' } },
      { id: 'too/dear', pricing: { prompt: '1', completion: '1' } },
      { id: 'no/price' },
      null,
    ]
    expect([...readPriceList(JSON.stringify({ data }))]).toEqual([
      [
        'openai/gpt-5',
        expect.objectContaining({
          ...{ input: 2_500_000, cachedInput: 250_000, cacheWrite: undefined, output: 15_000_000 },
          above: [
            expect.objectContaining({
              ...{ inputTokens: 272_000, input: 5_000_000, cachedInput: 250_000, output: 15_000_000 },
            }),
          ],
        }),
      ],
      ['some/free', expect.objectContaining({ input: 0, cachedInput: 0, output: 0 })],
    ])
  })

  test('of embeddings and images, and rows that no configuration could have', () => {
    const rows = {
      small: { mode: 'embedding', input_cost_per_token: 2e-8, output_cost_per_token: 0 },
      pic: { mode: 'image_generation', output_cost_per_image: 0.04 },
      negative: { input_cost_per_token: -1e-6, output_cost_per_token: 1e-6 },
      words: { input_cost_per_token: 'free', output_cost_per_token: 1e-6 },
      empty: {},
      list: [],
    }
    const list = readPriceList(JSON.stringify(rows))
    expect([...list.keys()]).toEqual(['small', 'pic'])
    expect(list.get('small')).toMatchObject({ input: 20_000 })
    expect(list.get('pic')).toMatchObject({ image: 40_000 })
  })

  test.each([
    ['', 'is no price list'],
    ['null', 'is no price list'],
    ['[1]', 'is no price list'],
    ['{"data": []}', 'is no price list'],
    ['{"a": {"b": 1}}', 'is no price list'],
    ['a: [', 'is neither JSON nor YAML'],
    ['models: []', 'has no models'],
    ['models: [{ name: a, price: { input: -1, output: 1 } }]', 'models[0].price.input: Expected'],
    ['models: [{ name: a, price: { input: .nan, output: 1 } }]', 'models[0].price.input: Expected'],
    ['models: [{ name: a, price: 7 }]', 'models[0].price: Expected'],
    ['models: [{ name: a, price: { input: 1e99 } }]', 'models[0].price.input: Expected'],
  ])('%j is rejected', (text, problem) => {
    expect(() => readPriceList(text)).toThrow(problem)
  })
})

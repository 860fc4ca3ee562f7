/** The examples of the documents do what the text around them promises. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse, stringify } from 'yaml'
import { loadConfigText } from '../../src/config/load.ts'
import { isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import { Gateway } from '../support/gateway.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'
import { problemsOfDiagram } from './diagrams.ts'
import { type Block, PAGES, pageOf, ROOT } from './pages.ts'
import { Reader } from './reader.ts'

const blocks = (info: string): readonly Block[] =>
  PAGES.flatMap((page) => page.blocks.filter((each) => each.info === info))
const labelled = (found: readonly Block[]) => found.map((block) => [block.at, block] as const)

/** What the page promises that a block prints: the block right after it, if that is one of output. */
function outputOf(at: string): string | undefined {
  for (const page of PAGES) {
    const index = page.blocks.findIndex((block) => block.at === at)
    const next = index < 0 ? undefined : page.blocks[index + 1]
    if (next?.info === 'text output') return next.text
  }
  return undefined
}

/** The key of the gateway that examples talk to. Its id is `ci`, as in the documents. */
const KEY = 'example-key-0123456789abcdef'

/** What sections of the documents stand beside: each replaces the section of the same name. */
const REST = {
  providers: {
    openai: { dialect: 'openai', api_key: 'example' },
    azure: { dialect: 'azure', base_url: 'https://example.openai.azure.com', api_version: '2025-04-01-preview' },
    anthropic: { dialect: 'anthropic', api_key: 'example' },
    aws: { dialect: 'bedrock', region: 'eu-west-1', api_key: 'example' },
  },
  models: ['gpt-5-mini', 'claude-sonnet'].map((name) => ({
    name,
    targets: [{ provider: 'openai', model: name }],
    price: { input: 1, output: 2 },
    max_output_tokens: 4096,
  })),
  organizations: [{ id: 'acme', keys: [{ id: 'ci', key: KEY }] }],
} as const

/** Files that examples refer to, as those of the tests. */
const FILES: Readonly<Record<string, string>> = {
  '/etc/weir/redis-ca.pem': 'authority.crt',
  '/etc/weir/weir.pem': 'client.crt',
  '/etc/weir/weir.key': 'client.key',
}

/** A value for each variable that an example names: distinct, and of the form that it needs. */
function environmentOf(text: string): Record<string, string> {
  const names = [...text.matchAll(/\$\{([A-Z_0-9]+)\}/g)].map(([, name = '']) => name)
  const dummyOf = (name: string) => {
    const hash = new Bun.CryptoHasher('sha256').update(name)
    if (name.endsWith('_SHA256')) return hash.digest('hex')
    if (name.includes('PAGERDUTY')) return hash.digest('hex').slice(0, 32)
    if (name.includes('SLACK')) return 'https://slack.example.org/hook'
    return name.includes('COMPACTION') ? hash.digest('base64') : `example-${name.toLowerCase()}`
  }
  return Object.fromEntries(names.map((name) => [name, dummyOf(name)]))
}

let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weir-docs-'))
})

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

/** What `weir check` would report, read in this process: a start for each example takes 0.2 s of CPU. */
async function problemsOf(text: string): Promise<readonly string[]> {
  const file = join(folder, `${Bun.hash(text)}.yaml`)
  let complete = text
  for (const [path, fixture] of Object.entries(FILES))
    complete = complete.replaceAll(path, join(ROOT, 'test/fixtures/tls', fixture))
  const loaded = await loadConfigText(complete, file, environmentOf(text))
  // What an example does not show, such as an unused provider, is a warning.
  return loaded.ok ? [] : loaded.problems
}

/** The example as it stands if it is a whole configuration, else its sections with others beside them. */
function completed(text: string): string {
  const sections: JsonValue = parse(text)
  if (!isObject(sections)) throw new Error('is no section of a configuration')
  if ('providers' in sections && 'models' in sections && 'organizations' in sections) return text
  const rest: JsonObject = {
    ...JSON.parse(JSON.stringify(REST)),
    ...('workers' in sections ? { ledger: { redis: 'redis://127.0.0.1:6379' } } : {}),
    ...('models' in sections ? {} : { auto: { candidates: ['gpt-5-mini'] } }),
  }
  const beside = Object.entries(rest).filter(([name]) => !(name in sections))
  return `${text}\n${beside.length === 0 ? '' : stringify(Object.fromEntries(beside))}`
}

describe('configurations pass weir check', () => {
  const found = blocks('yaml')
  test('there are some', () => expect(found.length).toBeGreaterThan(12))

  test.each(labelled(found))('%s', async (_at, { text }) => {
    expect(await problemsOf(completed(text))).toEqual([])
  })

  test('what the check finds is reported', async () => {
    expect((await problemsOf(completed('routing: { max_attempts: 0 }\n'))).join()).toContain('routing.max_attempts')
  })
})

describe('JSON is valid', () => {
  test.each(labelled(blocks('json')))('%s', (_at, { text }) => {
    expect(() => JSON.parse(text)).not.toThrow()
  })
})

describe('diagrams are well formed', () => {
  const found = blocks('mermaid')
  test('there are some', () => expect(found.length).toBeGreaterThan(3))

  test.each(labelled(found))('%s', (_at, { text }) => {
    expect(problemsOfDiagram(text)).toEqual([])
  })

  test.each([
    ['of an unknown kind', 'pie\n  "a" : 1'],
    ['with a label that is not closed', 'flowchart LR\n  a["one] --> b'],
    ['with an arrow to nothing', 'flowchart LR\n  a -->'],
    ['with a second colon in a transition', 'stateDiagram-v2\n  A --> B: one: two'],
    ['with a loop that does not end', 'sequenceDiagram\n  loop always\n  A->>B: hello'],
  ])('one %s is none', (_what, text) => {
    expect(problemsOfDiagram(text)).not.toEqual([])
  })
})

describe('examples that run', () => {
  let provider: Upstream
  let gateway: Gateway
  let reader: Reader

  beforeAll(async () => {
    provider = await Upstream.start()
    provider.otherwise(speaks('openai', () => textAnswer('Hello from the provider.')))
    const price = { input: 0.25, output: 2 }
    gateway = await Gateway.start({
      providers: { up: provider.url },
      models: Object.fromEntries(
        ['gpt-5-mini', 'claude-sonnet'].map((name) => [
          name,
          { targets: [{ provider: 'up', model: name }], price, context_window: 400_000, supports: ['tools', 'images'] },
        ]),
      ),
      config: {
        organizations: [
          { id: 'acme', limits: { requests_per_minute: 6000, spend: { day: 50 } }, keys: [{ id: 'ci', key: KEY }] },
        ],
      },
    })
    reader = await Reader.of(gateway, { WEIR_KEY: KEY })
    // A project with the SDKs.
    await symlink(join(ROOT, 'node_modules'), join(gateway.folder, 'node_modules'))
  })

  afterAll(async () => {
    for (const each of [gateway, provider]) await each[Symbol.asyncDispose]()
  })

  test.each(labelled(blocks('sh runnable')))('%s', async (at, { text }) => {
    const { code, stdout, stderr } = await reader.shell(text)
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).not.toBe('')
    // `curl` exits with 0 for an error of HTTP.
    expect(stdout).not.toContain('"error":{')
    const output = outputOf(at)
    if (output !== undefined) expect(stdout).toBe(output)
  })

  test.each(labelled(blocks('ts runnable')))('%s', async (_at, { text }) => {
    const file = join(gateway.folder, 'example.ts')
    await writeFile(file, reader.here(text))
    const { code, stdout, stderr } = await reader.run([process.execPath, file])
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toContain('Hello from the provider.')
  })

  test('every field of the log lines that they caused is documented', async () => {
    await gateway.line((line) => line['msg'] === 'request')
    const page = pageOf('docs/logs.md').text
    const fields = new Set(gateway.lines.filter(({ msg }) => msg === 'request').flatMap((line) => Object.keys(line)))
    expect(fields.size).toBeGreaterThan(10)
    expect([...fields].filter((field) => !page.includes(`\`${field}\``))).toEqual([])
  })
})

/** What a valid file becomes, how files are found and read, and that no edit of a file makes the loader fail. */

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the configuration file are written so

import { afterAll, describe, expect, test } from 'bun:test'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TSchema } from '@sinclair/typebox'
import { parseDocument, visit } from 'yaml'
import { configurationPage, EXAMPLES } from '../../scripts/configuration-page.ts'
import type { CatalogConfig } from '../../src/catalog/catalog.ts'
import type { Config } from '../../src/config/config.ts'
import { configFile, environment, loadConfig } from '../../src/config/load.ts'
import { parseConfig } from '../../src/config/parse.ts'
import { problemText } from '../../src/config/problems.ts'
import { jsonSchema, schema } from '../../src/config/schema-file.ts'
import type { Endpoint } from '../../src/core/endpoint.ts'
import { property } from '../support/random.ts'
import { BASE, edited, good, options, parse } from './fixture.ts'

const ROOT = join(import.meta.dir, '../..')
const EXAMPLE = join(ROOT, 'weir.example.yaml')
const AUTHORITY = readFileSync(join(import.meta.dir, '../fixtures/tls/authority.crt'), 'utf8')
const DUMMIES = [
  'OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'GEMINI_API_KEY',
  'AZURE_API_KEY',
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'WEIR_APP_KEY',
]
const ENV = Object.fromEntries(DUMMIES.map((name) => [name, `canary-of-${name}`]))

const folders: string[] = []
afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true, force: true }))))

/** A new directory, which is deleted after the tests. */
async function temporary(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-config-'))
  folders.push(folder)
  return folder
}

/** The paths of all settings below a schema: `listen.host`, `models.price.input`. */
function settingsOf(outer: TSchema, path = ''): readonly string[] {
  const inner: readonly TSchema[] = [
    ...(outer['anyOf'] ?? []),
    ...(outer['items'] === undefined ? [] : [outer['items']]),
    ...Object.values<TSchema>(outer['patternProperties'] ?? {}).filter((each) => each['properties'] !== undefined),
  ]
  const own = Object.entries<TSchema>(outer['properties'] ?? {}).flatMap(([name, each]) => {
    const at = path === '' ? name : `${path}.${name}`
    return [at, ...settingsOf(each, at)]
  })
  return [...own, ...inner.flatMap((each) => settingsOf(each, path))]
}

/** Compiles only if the configuration fits the catalog and the adapters. */
const fits = (config: Config): { catalog: CatalogConfig; endpoints: readonly Endpoint[] } => ({
  catalog: config,
  endpoints: config.providers,
})

describe('defaults', () => {
  test('of the process', () => {
    const { providers: _providers, models: _models, organizations: _organizations, ...rest } = good(BASE)
    expect(rest).toEqual({
      listen: {
        host: '127.0.0.1',
        port: 8080,
        explainHeader: false,
        bodyBytes: { organizationBytes: 64 * 1024 * 1024, workerBytes: 512 * 1024 * 1024 },
        workerSockets: 20_000,
        proxyProtocol: false,
        trustedProxies: [],
      },
      admin: { host: '127.0.0.1', port: 9090, tokens: [], hosts: [] },
      workers: 1,
      dataDir: './data',
      drainSeconds: 600,
      ownedBy: 'weir',
      ledger: { kind: 'embedded' },
      ledgerUnreachable: 'refuse',
      shortcuts: true,
      audit: { keepDays: 90 },
      log: { format: 'auto' },
      metrics: { keyLabel: false },
      tags: [],
      tagRules: {},
      responses: { rememberItemsSeconds: 3600, websockets: true, socketMinutes: 60, socketBytes: 64 * 1024 * 1024 },
      continuity: { keepSeconds: 21_600, organizationBytes: 67_108_864 },
      compatibility: { toolResultImages: 'refuse', imageUrls: 'public' },
      compaction: {},
      auto: { candidates: ['gpt', 'claude'] },
      routing: { maxAttempts: 3, totalTimeoutMs: 600_000, probe: true },
    })
  })

  test('of providers: deadlines and addresses', () => {
    const text = edited(
      'anthropic: { dialect: anthropic, api_key: x }',
      `anthropic: { dialect: anthropic }
  google: { dialect: gemini }
  aws: { dialect: bedrock, region: eu-west-1, access_key_id: a, secret_access_key: b, session_token: c }
  local: { dialect: openai, base_url: "http://127.0.0.1:8000/v1/", first_byte_timeout_ms: 7, headers: { x-a: b } }`,
    )
    const { providers } = good(text)
    expect(providers.map(({ name, baseUrl }) => [name, baseUrl])).toEqual([
      ['openai', 'https://api.openai.com/v1'],
      ['anthropic', 'https://api.anthropic.com'],
      ['google', 'https://generativelanguage.googleapis.com'],
      ['aws', 'https://bedrock-runtime.eu-west-1.amazonaws.com'],
      ['local', 'http://127.0.0.1:8000/v1'],
    ])
    expect(providers[0]).toMatchObject({
      apiKey: 'sk-canary-openai',
      headers: {},
      deadlines: {
        connectMs: 3000,
        firstByteMs: { stream: 60_000, whole: 600_000 },
        idleMs: 60_000,
        totalMs: 3_600_000,
      },
    })
    expect(providers[3]?.aws).toEqual({
      region: 'eu-west-1',
      keys: { accessKeyId: 'a', secretAccessKey: 'b', sessionToken: 'c' },
    })
    expect(providers[4]).toMatchObject({
      headers: { 'x-a': 'b' },
      deadlines: { firstByteMs: { stream: 7, whole: 7 } },
    })
  })

  test('the default output limit may exceed max_output_tokens, which lowers it', () => {
    const config = good(
      edited(
        'targets: [{ provider: openai, model: gpt-1 }]',
        'targets: [{ provider: openai, model: gpt-1 }]\n    max_output_tokens: 1000',
      ),
    )
    expect(config.models[0]).toMatchObject({ maxOutputTokens: 1000, defaultOutputTokens: 4096 })
  })

  test('of models, organisations and keys', () => {
    const config = good(BASE)
    expect(config.models[1]).toMatchObject({
      aliases: [],
      fallbacks: [],
      defaultOutputTokens: 4096,
      supports: [],
      promptCache: { key: false, explicit: false, ttls: [] },
    })
    expect(config.organizations[0]).toMatchObject({
      rules: [],
      auto: 'available',
      keys: [
        { id: 'ci', auto: 'available', disabled: false },
        { id: 'app', auto: 'available', disabled: false },
      ],
    })
  })
})

describe('values', () => {
  test('money is whole micro-dollars', () => {
    const spend = 'spend: { day: 50.25, total: 0.1, strict: true, on_exhausted: cut }'
    const limited = BASE.replaceAll('    price: { input:', '    max_output_tokens: 8000\n    price: { input:')
    const config = good(edited('spend: { day: 50 }', spend, limited))
    expect(config.models[0]?.price).toEqual({ input: 250_000, cachedInput: 25_000, output: 2_000_000 })
    expect(config.models[2]?.price).toEqual({ image: 40_000 })
    expect(config.organizations[0]?.limits.spend).toEqual({
      day: 50_250_000,
      total: 100_000,
      strict: true,
      onExhausted: 'cut',
    })
  })

  test('keys are hashes, and no plain key is left', () => {
    const config = good(edited('ff361e', 'FF361E'))
    const [ci, app] = config.organizations[0]?.keys ?? []
    expect(ci?.sha256).toBe(createHash('sha256').update('0123456789abcdef0').digest('hex'))
    expect(app?.sha256).toStartWith('ff361e')
    expect(JSON.stringify(config)).not.toContain('0123456789abcdef0')
  })

  test.each([
    ['2027-01-01', Date.UTC(2027, 0, 1)],
    ['"2027-01-01T12:30:00Z"', Date.UTC(2027, 0, 1, 12, 30)],
    ['"2027-01-01T12:30:00.5+02:00"', Date.UTC(2027, 0, 1, 10, 30, 0, 500)],
    ['"2028-02-29"', Date.UTC(2028, 1, 29)],
  ])('expires_at %s', (written, ms) => {
    const config = good(edited('key: 0123456789abcdef0 }', `key: 0123456789abcdef0, expires_at: ${written} }`))
    expect(config.organizations[0]?.keys[0]?.expiresAtMs).toBe(ms)
  })

  test('references: inside a string, from a file, and unquoted ones as numbers and booleans', () => {
    const text = `
data_dir: "a/\${PORT}/\${file:there}"
drain_seconds: \${PORT}
workers: \${ONE}
listen:
  explain_header: \${FLAG}
${edited(
  'api_key: x }',
  `api_key: x }
  local:
    dialect: openai
    api_key: \${DIGITS}`,
)}`
    const config = good(text, { env: { ...options.env, ONE: '1' } })
    expect(config.dataDir).toBe('a/8181/from a file')
    expect(config.drainSeconds).toBe(8181)
    expect(config.workers).toBe(1)
    expect(config.listen.explainHeader).toBe(true)
    expect(config.providers[2]?.apiKey).toBe('1234567890123456')
  })

  test.each([
    ['embedded', { kind: 'embedded' }],
    ['{ redis: "redis://a:1/0" }', { kind: 'redis', redis: { kind: 'single', url: 'redis://a:1/0', timeoutMs: 250 } }],
    [
      '{ redis: "redis://a:1/0", timeout_ms: 400 }',
      { kind: 'redis', redis: { kind: 'single', url: 'redis://a:1/0', timeoutMs: 400 } },
    ],
    [
      '{ redis: { cluster: ["redis://a"] } }',
      { kind: 'redis', redis: { kind: 'cluster', nodes: ['redis://a'], timeoutMs: 250 } },
    ],
    [
      '{ redis: { sentinels: ["rediss://a"], name: m } }',
      { kind: 'redis', redis: { kind: 'sentinel', sentinels: ['rediss://a'], name: 'm', timeoutMs: 250 } },
    ],
    [
      `{ redis: "rediss://a", tls: { ca: ${JSON.stringify(AUTHORITY)} } }`,
      { kind: 'redis', redis: { kind: 'single', url: 'rediss://a', timeoutMs: 250, tls: { ca: AUTHORITY } } },
    ],
  ])('ledger: %s', (written, ledger) => {
    expect(JSON.parse(JSON.stringify(good(`ledger: ${written}\n${BASE}`).ledger))).toEqual(ledger)
  })

  test('workers: auto is the number of cores with Redis, and one core needs no Redis', () => {
    expect(good(`workers: auto\nledger: { redis: "redis://a" }\n${BASE}`, { cores: 6 }).workers).toBe(6)
    expect(good(`workers: auto\n${BASE}`, { cores: 1 }).workers).toBe(1)
  })

  test.each(['sockets', 'fetch'])('`upstream: %s` of an earlier version has no effect, and gets a warning', (value) => {
    const parsed = parseConfig(`upstream: ${value}\n${BASE}`, options)
    expect(parsed.ok && parsed.config).toEqual(good(BASE))
    expect(parsed.warnings).toMatchObject([
      { line: 1, path: 'upstream', message: expect.stringContaining('remove it') },
    ])
  })

  test('a proxy of the environment that weir cannot use gets a warning without its address', () => {
    const env = { ...options.env, HTTPS_PROXY: 'socks5://user:word@proxy.test:1080', http_proxy: 'proxy.test' }
    const { warnings } = parseConfig(BASE, { ...options, env })
    expect(warnings).toMatchObject([{ path: 'HTTPS_PROXY', message: expect.stringContaining('http://HOST:PORT') }])
    expect(JSON.stringify(warnings)).not.toContain('word')
  })

  test('two models may have the same alias', () => {
    expect(good(edited('name: claude', 'name: claude\n    aliases: [mini]')).models[1]?.aliases).toEqual(['mini'])
  })

  test('a key may narrow the setting of its organisation or make it mandatory', () => {
    const row = 'key: 0123456789abcdef0 }'
    for (const auto of ['off', 'available', 'mandatory'] as const) {
      const config = good(edited(row, `key: 0123456789abcdef0, auto: ${auto} }`))
      expect(config.organizations[0]?.keys[0]?.auto).toBe(auto)
    }
  })

  test('a file in JSON is read as the same file in YAML, with the same lines and problems', () => {
    const base = parseDocument(BASE).toJS()
    const several = [{ ...base.models[0], name: '\\"{', aliases: [] }, ...base.models]
    const file = { ...base, models: several, listen: { port: '${PORT}', hots: 'x' }, "odd 'key'": [[]] }
    const json = JSON.stringify(file, null, 2)
    // A comment makes it YAML, which is not JSON.
    const [own, yaml] = [json, `${json} # YAML`].map((text) => parseConfig(text, options))
    expect(own).toEqual(yaml as NonNullable<typeof yaml>)
    const lineOf = (key: string) => json.slice(0, json.indexOf(key)).split('\n').length
    const places = own?.ok === false ? own.problems.map(({ line, path }) => `${line} ${path}`) : []
    expect(places.sort()).toEqual(
      [`${lineOf('"hots"')} listen.hots`, `${lineOf('"port"')} listen.port`, `${lineOf('"odd')} ["odd 'key'"]`].sort(),
    )
    const twice = parseConfig(json.replace('"hots": "x"', '"port": 1'), options)
    expect(twice.ok || twice.problems[0]?.message).toContain('duplicate key')
  })

  test('the configuration is plain data that survives JSON', () => {
    const config = good(BASE)
    const back: unknown = JSON.parse(JSON.stringify(config))
    expect(back).toEqual(config)
    expect(fits(config).endpoints).toHaveLength(2)
  })
})

describe('files', () => {
  test('the example is rejected until its placeholder is replaced', async () => {
    const loaded = await loadConfig(EXAMPLE, ENV)
    expect(loaded).toMatchObject({ ok: false })
    expect(loaded.ok ? [] : loaded.problems).toEqual([
      expect.stringMatching(/yaml:\d+: organizations\[0\]\.keys\[1\]\.sha256: is the placeholder of the example; /),
    ])
  })

  test('without its placeholder the example is valid, and contains no key', () => {
    const text = readFileSync(EXAMPLE, 'utf8').replace('0'.repeat(64), 'ab'.repeat(32))
    const loaded = parse(text, { env: ENV })
    expect(loaded).toMatchObject({ ok: true })
    if (!loaded.ok) return
    expect(loaded.config.models.map((model) => model.name)).toContain('gpt-image')
    expect(JSON.stringify(loaded.config)).not.toContain('canary-of-WEIR_APP_KEY')
  })

  test('the example has every setting', () => {
    const sections = readFileSync(EXAMPLE, 'utf8').split(/^(?=(?:# )?[a-z_]+:)/m)
    const textOf = (section: string) => sections.filter((text) => text.replace(/^# /, '').startsWith(`${section}:`))
    // A group of settings that several sections have is written out in the first.
    const paths = settingsOf(schema)
    const tails = paths.map((path) => path.split('.').slice(-2).join('.'))
    const missing = paths.filter((path, index) => {
      const [section = '', ...rest] = path.split('.')
      if (rest.length > 1 && tails.indexOf(tails[index] ?? '') < index) return false
      const name = rest.at(-1)
      const found = textOf(section).join('')
      return found === '' || (name !== undefined && !new RegExp(`\\b${name}:`).test(found))
    })
    expect(missing).toEqual([])
  })

  test('the example without its environment names every variable', async () => {
    const loaded = await loadConfig(EXAMPLE, {})
    // One more for the placeholder.
    expect(loaded.ok ? [] : loaded.problems).toHaveLength(DUMMIES.length + 1)
  })

  test('one value that is missing or wrong is one problem, whatever refers to it', () => {
    const text = readFileSync(EXAMPLE, 'utf8').replace('0'.repeat(64), 'ab'.repeat(32))
    const places: (readonly [start: number, end: number])[] = []
    visit(parseDocument(text), {
      Scalar: (key, { range }) => {
        if (key !== 'key' && range) places.push([range[0], range[1]])
      },
    })
    expect(places.length).toBeGreaterThan(80)
    for (const env of [ENV, { ...ENV, MISSING: '' }]) {
      for (const [start, end] of places) {
        const found = parse(`${text.slice(0, start)}"\${MISSING}"${text.slice(end)}`, { env })
        expect(found.ok ? [] : found.problems.map(problemText).slice(1)).toEqual([])
      }
    }
  })

  test('a variable that is missing is one problem, which names all places', () => {
    const written = '${OPENAI_API_KEY}'
    const found = parse(BASE.replaceAll(/api_key: [^ ]+/g, `api_key: "${written}"`), { env: {} })
    const lines = found.ok ? [] : found.problems.map(problemText).filter((line) => line.includes('OPENAI'))
    expect(lines).toEqual([
      expect.stringMatching(/ "\$\{OPENAI_API_KEY\}" is not set in the environment \(also at .*\)$/),
    ])
  })

  test('references to files are relative to the configuration, and lose one line end', async () => {
    const directory = await temporary()
    const file = join(directory, 'weir.yaml')
    await writeFile(join(directory, 'secret'), 'canary-secret\n')
    await writeFile(file, edited('${OPENAI_API_KEY}', '${file:secret}'))
    const loaded = await loadConfig(file, {})
    expect(loaded.ok ? loaded.config.providers[0]?.apiKey : loaded.problems).toBe('canary-secret')
    await writeFile(file, edited('${OPENAI_API_KEY}', '${file:sub/none}'))
    expect(await loadConfig(file, {})).toEqual({
      ok: false,
      problems: [`${file}:3: providers.openai.api_key: "\${file:sub/none}" there is no such file`],
      warnings: [],
    })
  })

  test('a missing file, a directory, bytes that are not UTF-8, an endless file', async () => {
    const directory = await temporary()
    await writeFile(join(directory, 'bytes'), new Uint8Array([0xff, 0xfe, 0]))
    const none = join(directory, 'none')
    const of = async (file: string) => {
      const loaded = await loadConfig(file, {})
      return loaded.ok ? [] : loaded.problems
    }
    expect(await of(none)).toEqual([
      `${none}: there is no such file; write one as weir.example.yaml shows, or name another with --config FILE`,
    ])
    expect(await of(directory)).toEqual([`${directory}: cannot be read: it is a directory`])
    const bytes = join(directory, 'bytes')
    expect(await of(bytes)).toEqual([`${bytes}:1: is not UTF-8; save the file in that encoding`])
    await writeFile(bytes, Buffer.from('# ü\n# \xe9\n', 'latin1'))
    expect(await of(bytes)).toEqual([`${bytes}:1: is not UTF-8; save the file in that encoding`])
    await writeFile(bytes, Buffer.concat([Buffer.from('# ü\n# '), new Uint8Array([0xe9]), Buffer.from('\n')]))
    expect(await of(bytes)).toEqual([`${bytes}:2: is not UTF-8; save the file in that encoding`])
    expect(await of('/dev/zero')).toEqual(['/dev/zero: is larger than 8388608 bytes'])
  })

  test('a pipe without a writer is read neither forever nor as an empty file', async () => {
    const directory = await temporary()
    expect(spawnSync('mkfifo', [join(directory, 'pipe')]).status).toBe(0)
    const file = join(directory, 'weir.yaml')
    await writeFile(file, edited('${OPENAI_API_KEY}', '${file:pipe}'))
    expect(await loadConfig(file, {})).toMatchObject({
      problems: [`${file}:3: providers.openai.api_key: "\${file:pipe}" is a pipe or a socket; name a regular file`],
    })
  })

  test('the flag names the file; without it weir.yaml', async () => {
    expect(await configFile('/a/b.yaml')).toBe('/a/b.yaml')
    expect(await configFile(undefined)).toEndWith('weir.yaml')
  })

  test('the environment is a copy', () => {
    environment()['WEIR_TEST_OF_A_COPY'] = '1'
    expect(environment()['WEIR_TEST_OF_A_COPY']).toBeUndefined()
  })

  test.each([
    ['docs/weir.schema.json', jsonSchema],
    ['docs/configuration.md', configurationPage],
  ])('%s is current: bun scripts/write-schema.ts', async (path, generate) => {
    expect(await Bun.file(join(ROOT, path)).text()).toBe(generate())
  })

  test('the examples of the page about the configuration are one valid file, and so is its small one', () => {
    const variables = [...DUMMIES, 'REDIS_PASSWORD', 'WEIR_CI_KEY']
    const key = Buffer.alloc(32).toString('base64')
    const env = {
      ...Object.fromEntries(variables.map((name) => [name, `canary-of-${name}`])),
      WEIR_COMPACTION_KEY: key,
      WEIR_OLD_COMPACTION_KEY: key.replace('A', 'B'),
      WEIR_ALERT_SECRET: 'a-secret-of-the-test-0123',
      SLACK_WEBHOOK: 'https://slack.example.org/hook',
      WEIR_CI_KEY_SHA256: 'ab'.repeat(32),
    }
    const small = /```yaml\n(.*?)```/s.exec(configurationPage())?.[1] ?? ''
    for (const text of [small, Object.values(EXAMPLES).join('\n')]) {
      const loaded = parse(text, { env })
      expect(loaded.ok ? [] : loaded.problems).toEqual([])
    }
    expect(Object.keys(EXAMPLES)).toEqual(Object.keys(schema.properties))
  })
})

const SCRAPS = [
  '{',
  '}',
  '[',
  ']',
  ':',
  ': ',
  '-',
  '\n',
  '  ',
  '"',
  "'",
  '&a ',
  '*a',
  '<<: ',
  '!!str ',
  '%',
  '~',
  '0',
  '-1',
  '1e400',
  '.inf',
  'null',
  'true',
  'auto',
  '${',
  '${PORT}',
  '${file:there}',
  '__proto__: ',
  'constructor',
  'x'.repeat(300),
  '\u0000',
  '\ud800',
  '🜁',
]

const RANDOM_EDITS = 'random edits never crash the loader: it returns a configuration, or problems of one line each'

property(RANDOM_EDITS, 400, (random) => {
  let text = random.chance(0.5) ? BASE : readFileSync(EXAMPLE, 'utf8')
  for (let edits = random.between(1, 3); edits > 0; edits--) {
    const at = random.below(text.length)
    const copied = text.slice(random.below(text.length)).slice(0, random.below(60))
    const scrap = random.below(3) === 0 ? copied : (SCRAPS[random.below(SCRAPS.length)] ?? '')
    text = text.slice(0, at) + scrap + text.slice(at + (random.chance(0.5) ? random.below(40) : 0))
  }
  const result = parseConfig(text, { ...options, env: { ...options.env, ...ENV } })
  if (result.ok) {
    const back: unknown = JSON.parse(JSON.stringify(result.config))
    expect(back).toEqual(result.config)
  } else {
    expect(result.problems.length).toBeGreaterThan(0)
    const lines = [...result.problems, ...result.warnings].map(problemText)
    for (const line of lines) expect(line).toMatch(/^[^\n\r]+: [^\n\r]+$/)
    expect(lines.join()).not.toContain('canary')
  }
})

/** The path of every value in parsed data. */
function places(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== 'object' || value === null) return [path]
  return [path, ...Object.entries(value).flatMap(([name, inner]) => places(inner, [...path, name]))]
}

function put(value: unknown, [head, ...rest]: readonly string[], by: unknown): unknown {
  if (head === undefined) return by
  if (Array.isArray(value))
    return value.map((item: unknown, index) => (String(index) === head ? put(item, rest, by) : item))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, name === head ? put(inner, rest, by) : inner]),
  )
}

test('any value in any place of a valid file is accepted or reported, never thrown', async () => {
  const whole: unknown = Bun.YAML.parse(await Bun.file(EXAMPLE).text())
  const values = [null, 0, -1, 1.5, true, '', 'x', 'auto', [], {}, [null], { x: 1 }, [[]], { redis: 3 }]
  for (const [index, path] of places(whole).entries()) {
    // Three values for each place, others at the next one: every pair of place and value would take a minute.
    for (let turn = 0; turn < 3; turn++) {
      const value = values[(index * 3 + turn) % values.length]
      const text = JSON.stringify(put(whole, path, value))
      const result = parse(text, { env: { ...options.env, ...ENV } })
      if (!result.ok) expect(result.problems.length).toBeGreaterThan(0)
    }
  }
})

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadAdapters } from '../../src/assembly/provider-adapters.ts'
import { provider } from '../process/provider.ts'
import { configuration, Weir } from '../process/weir.ts'

const SRC = join(import.meta.dir, '../../src')

/** The files below `src` and the packages that are loaded with a file. */
function loadedWith(path: string, seen = new Set<string>()): ReadonlySet<string> {
  if (seen.has(path)) return seen
  seen.add(path)
  const imports = new Bun.Transpiler({ loader: 'ts' }).scanImports(readFileSync(join(SRC, path), 'utf8'))
  for (const { kind, path: to } of imports) {
    if (kind !== 'import-statement' || to.endsWith('.json') || to.endsWith('.lua')) continue
    if (to.startsWith('.')) loadedWith(join(path, '..', to), seen)
    else seen.add(to)
  }
  return seen
}

test('a worker that starts loads neither packages of clouds, nor the Redis client, nor the encoder of traces', () => {
  const loaded = loadedWith('process/worker.ts')
  expect(loaded).toContain('elysia')
  expect(loaded).toContain('providers/openai/openai.ts')
  expect(
    [...loaded].filter((name) => /smithy|ioredis|bedrock|redis\/|opentelemetry|@azure|google-auth/.test(name)),
  ).toEqual([])
})

test('the supervisor starts its first worker before it loads the code that checks a configuration', () => {
  const paths = ['cli/serve-command.ts', 'assembly/served-config.ts', 'process/supervisor.ts']
  const loaded = paths.flatMap((path) => [...loadedWith(path)])
  expect(loaded).toContain('config/load.ts')
  expect(loaded.filter((name) => /typebox|yaml|elysia/.test(name))).toEqual([])
})

test('exactly the dialects of a configuration are loaded, each once', async () => {
  const providers = (['openai', 'bedrock', 'bedrock', 'azure'] as const).map((dialect, at) => ({
    name: `p${at}`,
    dialect,
    baseUrl: 'http://127.0.0.1:1',
    headers: {},
    deadlines: { connectMs: 1, firstByteMs: { stream: 1, whole: 1 }, idleMs: 1, totalMs: 1 },
  }))
  expect([...(await loadAdapters({ providers })).keys()]).toEqual(['openai', 'bedrock', 'azure'])
})

test('a reload may add a dialect whose adapter was not loaded before', async () => {
  using upstream = provider()
  await using weir = await Weir.ready(configuration({ baseUrl: upstream.baseUrl }))
  const credentials = 'access_key_id: a, secret_access_key: b'
  const aws = `aws: { dialect: bedrock, base_url: "${upstream.baseUrl}", region: eu-west-1, ${credentials} }`
  const changed = configuration({ baseUrl: upstream.baseUrl })
    .replace('providers: {', `providers: { ${aws},`)
    .replace('models:', 'models:\n  - { name: large, targets: [{ provider: aws, model: claude }] }')
  await weir.configure(changed)
  weir.signal('SIGHUP')
  await weir.line('configuration reloaded')
  expect(await weir.models()).toEqual(['large', 'small'])
})

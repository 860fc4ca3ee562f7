/** The examples of the reference do what they promise, in every language. */

import { describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isArray, isObject } from '../../src/core/json.ts'
import { DOCUMENT, objectAt } from '../support/api-schema.ts'
import { KEY } from '../support/gateway.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { ROOT } from './pages.ts'

/** A Python with the official SDKs; `scripts/test` installs one. */
const PYTHON = process.env['WEIR_PYTHON'] ?? join(ROOT, '.bun/python/bin/python3')

interface Sample {
  readonly title: string
  readonly lang: string
  readonly source: string
  readonly operation: string
}

const samples = Object.values(objectAt(DOCUMENT, 'paths')).flatMap((methods): readonly Sample[] =>
  Object.values(isObject(methods) ? methods : {}).flatMap((each) => {
    const list = isObject(each) ? each['x-codeSamples'] : undefined
    const operation = isObject(each) ? String(each['operationId']) : ''
    return (isArray(list) ? list.filter(isObject) : []).map((sample) => ({
      title: `${operation}: ${sample['label']}`,
      lang: String(sample['lang']),
      source: String(sample['source']),
      operation,
    }))
  }),
)

const TEXT = 'Hello from the provider.'
/** The smallest PNG image. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

/** What each operation's examples print, as a part. */
function printed({ operation, lang }: Sample): RegExp {
  if (operation.startsWith('listModels')) return /gpt-5-mini[\s\S]*claude-sonnet/
  if (operation.includes('Image')) return /iVBORw0KGgo/
  if (operation.startsWith('countMessageTokens')) return /\d+/
  if (operation === 'createEmbedding') return lang === 'Shell' ? /AACAPwAAAEA=/ : /^2$/m
  if (operation === 'compactResponse') return /cmp_/
  return lang === 'Shell' ? /Hello|from the provider/ : new RegExp(TEXT)
}

const images = JSON.stringify({ created: 1763650000, data: [{ b64_json: PNG }] })
const data = [0, 1].map((index) => ({ object: 'embedding', index, embedding: 'AACAPwAAAEA=' }))
const usage = { prompt_tokens: 8, total_tokens: 8 }
const embeddings = JSON.stringify({ object: 'list', data, model: 'embed-small', usage })
const answersText = speaks('openai', () => textAnswer(TEXT))
const provider = await lastingUpstream()
provider.otherwise((call) => {
  if (call.path.includes('/images/')) return call.answer(200, images)
  return call.path.includes('/embeddings') ? call.answer(200, embeddings) : answersText(call)
})
const price = { input: 0.25, output: 2 }
const chatModel = (name: string) => ({
  targets: [{ provider: 'up', model: name }],
  ...{ price, context_window: 400_000, supports: ['tools', 'images'] },
})
const gateway = await lastingGateway({
  validated: true,
  providers: { up: provider.url },
  models: {
    'gpt-5-mini': chatModel('gpt-5-mini'),
    'claude-sonnet': chatModel('claude-sonnet'),
    'embed-small': {
      targets: [{ provider: 'up', model: 'embed-small' }],
      price: { input: 0.02 },
      supports: ['embeddings'],
    },
    'gpt-image': {
      targets: [{ provider: 'up', model: 'gpt-image' }],
      price: { image: 0.04 },
      supports: ['image_generation'],
    },
  },
})
await symlink(join(ROOT, 'node_modules'), join(gateway.folder, 'node_modules'))
await writeFile(join(gateway.folder, 'photo.png'), Buffer.from(PNG, 'base64'))

interface Output {
  readonly title: string
  readonly stdout: string
  readonly error: string | null
}

/**
 * Run all examples of a language in one process, because loading an SDK takes a second. They read a list of `{ title,
 * source, file }` and write an `Output` on each line.
 */
const RUNNERS: Readonly<Record<string, string>> = {
  Python: `
import contextlib, io, json, sys
for sample in json.load(sys.stdin):
    out, error = io.StringIO(), None
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(sample["source"], sample["title"], "exec"), {"__name__": "__main__"})
    except BaseException as problem:
        error = repr(problem)
    print(json.dumps({"title": sample["title"], "stdout": out.getvalue(), "error": error}), flush=True)
`,
  TypeScript: `
const write = process.stdout.write.bind(process.stdout)
let stdout = ''
console.log = (...values) => { stdout += values.join(' ') + '\\n' }
process.stdout.write = (text) => { stdout += text; return true }
for (const { title, file } of await Bun.stdin.json()) {
  stdout = ''
  let error = null
  try { await import(file) } catch (problem) { error = String(problem) }
  write(JSON.stringify({ title, stdout, error }) + '\\n')
}
`,
}

const here = (text: string) => text.replaceAll('http://127.0.0.1:8080', gateway.url)

const runs = new Map<string, Promise<readonly Output[]>>()

/** What an example writes. Throws with its error if it fails. */
async function output(sample: Sample): Promise<string> {
  const { title, lang } = sample
  if (lang === 'Shell') return await started(['bash', '-euo', 'pipefail', '-c', here(sample.source)], '')
  const running = runs.get(lang) ?? runAll(lang)
  runs.set(lang, running)
  const own = (await running).find((each) => each.title === title)
  if (own === undefined || own.error !== null) throw new Error(own?.error ?? 'the example was not run')
  return own.stdout
}

async function runAll(lang: string): Promise<readonly Output[]> {
  const list = (languages.get(lang) ?? []).map((sample, at) => {
    const file = join(gateway.folder, `example-${at}.ts`)
    return { title: sample.title, source: here(sample.source), file }
  })
  const runner = RUNNERS[lang] ?? ''
  const file = join(gateway.folder, 'runner.ts')
  if (lang === 'TypeScript')
    await Promise.all([writeFile(file, runner), ...list.map((each) => writeFile(each.file, each.source))])
  const command = lang === 'Python' ? [PYTHON, '-c', runner] : [process.execPath, file]
  const lines = (await started(command, JSON.stringify(list))).trim().split('\n')
  return lines.map((line): Output => JSON.parse(line))
}

/** The standard output of a command. Throws with its errors if it fails. */
async function started(command: string[], input: string): Promise<string> {
  const child = Bun.spawn(command, {
    cwd: gateway.folder,
    env: { PATH: process.env['PATH'], HOME: process.env['HOME'], WEIR_KEY: KEY },
    stdio: [new TextEncoder().encode(input), 'pipe', 'pipe'],
  })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`)
  return stdout
}

const languages = Map.groupBy(samples, ({ lang }) => lang)

test('there are examples in three languages', () => {
  expect([...languages].map(([lang, list]) => [lang, list.length > 9])).toEqual([
    ['Shell', true],
    ['Python', true],
    ['TypeScript', true],
  ])
})

describe.each(['Shell', 'TypeScript', 'Python'])('%s', (lang) => {
  const isInstalled = lang !== 'Python' || existsSync(PYTHON)
  const rows = (languages.get(lang) ?? []).map((sample) => [sample.title, sample] as const)

  test.skipIf(!isInstalled).each(rows)('%s', async (_, sample) => {
    expect(await output(sample)).toMatch(printed(sample))
  })
})

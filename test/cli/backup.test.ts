/** `weir backup` while a gateway serves: the copy is consistent, and a gateway runs on it. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { chmod, lstat, mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isArray, isObject, type JsonObject } from '../../src/core/json.ts'
import { PROGRAM } from '../process/weir.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { speaks, textAnswer } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'

const SUMMARY = 'The user lives in Oslo.'

let provider: Upstream
let gateway: Gateway
let folder: string

beforeAll(async () => {
  provider = await Upstream.start()
  provider.otherwise(speaks('openai', () => textAnswer(SUMMARY)))
  gateway = await start()
  folder = await mkdtemp(join(tmpdir(), 'weir-backup-'))
})

afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await provider[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

function start(dataDir?: string): Promise<Gateway> {
  const model = { targets: [{ provider: 'up', model: 'up' }], price: { input: 1, output: 2 } }
  return Gateway.start({
    providers: { up: provider.url },
    models: { m: model },
    config: {
      organizations: [{ id: 'test', limits: { spend: { total: 100 } }, keys: [{ id: 'one', key: KEY }] }],
      ...(dataDir === undefined ? {} : { data_dir: dataDir }),
    },
  })
}

async function weir(...args: readonly string[]) {
  const child = Bun.spawn([...PROGRAM, ...args, '--config', gateway.configFile], {
    cwd: gateway.folder,
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [stdout, stderr, code] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited])
  return { code, stdout, stderr }
}

async function ask(from: Gateway, path: string, body: JsonObject): Promise<JsonObject> {
  const answer = await fetch(`${from.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', ...body }),
  })
  const json: unknown = await answer.json()
  if (!isObject(json)) throw new Error('the answer is no object')
  expect([answer.status, json['error'] ?? null]).toEqual([200, null])
  return json
}

const chat = (from: Gateway) => ask(from, '/v1/chat/completions', { messages: [{ role: 'user', content: 'Hello' }] })

/** What the ledger of a copy has, by the sums and by the single requests. */
async function figuresOf(copy: string) {
  const file = join(folder, 'read.yaml')
  const config: unknown = JSON.parse(await Bun.file(gateway.configFile).text())
  if (!isObject(config)) throw new Error('the configuration is no object')
  await writeFile(file, JSON.stringify({ ...config, data_dir: copy }))
  const read = async (...args: readonly string[]) => {
    const child = Bun.spawn([...PROGRAM, ...args, '--json', '--config', file], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const text = await child.stdout.text()
    expect(await child.exited).toBe(0)
    return text
  }
  const usage = JSON.parse(await read('usage')).total
  const rows = (await read('audit', '--limit', '0')).split('\n').filter(Boolean)
  const costs = rows.map((line) => Number(JSON.parse(line).cost_micro_usd))
  return {
    requests: Number(usage.requests),
    cost: Number(usage.cost_micro_usd),
    rows: rows.length,
    rowsCost: costs.reduce((sum, cost) => sum + cost, 0),
  }
}

test('copies that are made under load are consistent, and only grow', async () => {
  let isDone = false
  let count = 0
  const load = Array.from({ length: 4 }, async () => {
    while (!isDone) {
      await chat(gateway)
      count++
    }
  })
  const copies: string[] = []
  for (const name of ['a', 'b', 'c', 'd']) {
    const before = count
    const copy = join(folder, name)
    const { code, stdout, stderr } = await weir('backup', copy)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/ is backed up in .*: .*compaction\.key .*ledger\.sqlite /)
    copies.push(copy)
    while (count < before + 20) await Bun.sleep(5)
  }
  isDone = true
  await Promise.all(load)
  const figures = []
  for (const copy of copies) figures.push(await figuresOf(copy))
  for (const { requests, cost, rows, rowsCost } of figures) expect([rows, rowsCost]).toEqual([requests, cost])
  const requests = figures.map((each) => each.requests)
  expect(requests).toEqual(requests.toSorted((one, other) => one - other))
  expect(requests.at(-1)).toBeGreaterThan(20)
  expect(requests.at(-1)).toBeLessThanOrEqual(count)
})

test('a gateway runs on the copy: keys, budgets and sealed conversations go on', async () => {
  const made = await weir('keys', 'create', '--org', 'test', '--id', 'made')
  const compacted = await ask(gateway, '/v1/responses/compact', {
    input: [{ role: 'user', content: 'I live in Oslo.' }],
  })
  // The provider teaches it, and the copy knows it.
  const limitsSent = () => provider.calls.map(({ json }) => Object.keys(json).filter((name) => name.startsWith('max_')))
  const rejection = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
  provider.otherwise((call) =>
    'max_tokens' in call.json
      ? call.answer(400, JSON.stringify({ error: { message: rejection, type: 'invalid_request_error' } }))
      : speaks('openai', () => textAnswer(SUMMARY))(call),
  )
  await ask(gateway, '/v1/chat/completions', { max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] })
  await gateway.line(({ event }) => event === 'target.form_learned')
  while (!existsSync(join(gateway.folder, 'data', 'learned-forms.json'))) await Bun.sleep(5)
  const copy = join(folder, 'restored')
  expect((await weir('backup', copy)).code).toBe(0)
  const before = await figuresOf(copy)
  await using restored = await start(copy)
  const models = await fetch(`${restored.url}/v1/models`, {
    headers: { authorization: `Bearer ${made.stdout.trim()}` },
  })
  expect(models.status).toBe(200)
  const output = isArray(compacted['output']) ? compacted['output'] : []
  const seen = provider.calls.length
  await ask(restored, '/v1/responses', { input: [...output, { role: 'user', content: 'Where do I live?' }] })
  expect(JSON.stringify(provider.calls.slice(seen).map(({ json }) => json))).toContain(SUMMARY)
  expect(limitsSent().slice(seen)).toEqual([['max_completion_tokens']])
  restored.signal('SIGTERM')
  await restored.exit
  const after = await figuresOf(copy)
  expect(after.requests).toBe(before.requests + 1)
  expect(after.rows).toBe(after.requests)
})

test('every file of a copy is private', async () => {
  const copy = join(folder, 'private')
  await mkdir(copy)
  expect((await weir('backup', copy)).code).toBe(0)
  const names = await readdir(copy)
  expect(names.toSorted()).toEqual(expect.arrayContaining(['compaction.key', 'keys.sqlite', 'ledger.sqlite']))
  expect(names.filter((name) => /sock|lock|wal|shm|unfinished/.test(name))).toEqual([])
  for (const name of names) expect([name, (await stat(join(copy, name))).mode & 0o777]).toEqual([name, 0o600])
  expect((await readdir(folder)).filter((name) => name.includes('unfinished'))).toEqual([])
})

test('a directory that is not empty is not touched', async () => {
  const copy = join(folder, 'full')
  await mkdir(copy)
  await writeFile(join(copy, 'mine'), 'x')
  const { code, stderr } = await weir('backup', copy)
  expect([code, stderr]).toEqual([1, `weir: ${copy} is not empty; name a directory that is, or that does not exist\n`])
  expect(await readdir(copy)).toEqual(['mine'])
})

test('a file is not replaced', async () => {
  const file = join(folder, 'file')
  await writeFile(file, 'x')
  expect(await weir('backup', file)).toMatchObject({ code: 1, stderr: `weir: ${file} is a file; name a directory\n` })
})

test('nothing to back up, and no directory to write to: one line each', async () => {
  const empty = join(folder, 'empty')
  await mkdir(empty)
  await writeFile(join(folder, 'empty.yaml'), `data_dir: ${empty}\n`)
  await writeFile(join(folder, 'gone.yaml'), 'data_dir: ./gone\n')
  for (const [file, line] of [
    ['empty.yaml', `weir: ${empty} has nothing of weir to back up\n`],
    ['gone.yaml', /^weir: no backup was made: ENOENT[^\n]+\n$/],
  ] as const) {
    const child = Bun.spawn([...PROGRAM, 'backup', 'x', '--config', file], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const stderr = await child.stderr.text()
    expect(await child.exited).toBe(1)
    expect(stderr).toMatch(typeof line === 'string' ? new RegExp(`^${RegExp.escape(line)}$`) : line)
  }
})

test.each(['mkdir -m 777', 'ln -s ../planted'])('what another user planted is not taken: %s', async (plant) => {
  const shared = join(folder, `shared-${plant.length}`)
  await mkdir(shared, { recursive: true })
  await chmod(shared, 0o777)
  await mkdir(join(folder, 'planted'), { recursive: true })
  const copy = join(shared, 'copy')
  // The name of the folder once had the process id, which `exec` keeps.
  const backup = `exec "$@" backup ${copy} --config ${gateway.configFile}`
  const line = `cd ${shared} && ${plant} copy.unfinished-$$ && cd ${gateway.folder} && ${backup}`
  const child = Bun.spawn(['bash', '-c', line, 'bash', ...PROGRAM], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  expect([await child.stderr.text(), await child.exited]).toEqual(['', 0])
  expect((await lstat(copy)).isDirectory()).toBe(true)
  expect((await lstat(copy)).mode & 0o777).toBe(0o700)
  expect(await readdir(join(folder, 'planted'))).toEqual([])
})

test('a symbolic link is not followed', async () => {
  const link = join(folder, 'link')
  await mkdir(join(folder, 'elsewhere'))
  await symlink(join(folder, 'elsewhere'), link)
  const { code, stderr } = await weir('backup', link)
  expect([code, stderr]).toEqual([1, `weir: ${link} is a symbolic link; name the directory that it leads to\n`])
  expect(await readdir(join(folder, 'elsewhere'))).toEqual([])
})

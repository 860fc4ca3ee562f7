/** Three nodes of one Redis know each other, report in what they differ, and do what one of them is asked for. */

import { afterEach, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { isArray, isObject, type JsonObject, objectOf } from '../../src/core/json.ts'
import { RedisServer } from '../support/redis.ts'
import { ALERT_SECRET, webhook } from '../support/webhook.ts'
import { KEY, PROGRAM, until, Weir } from './weir.ts'

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true, force: true })
})

interface Setup {
  readonly name: string
  readonly redis?: string
  readonly input?: number
  readonly hook?: string
}

function config({ name, redis, input = 1, hook }: Setup): string {
  const target = { provider: 'fake', model: 'a' }
  return JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0 },
    workers: 1,
    node_name: name,
    ledger: redis === undefined ? 'embedded' : { redis },
    data_dir: './data',
    providers: { fake: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1', api_key: 'provider-secret' } },
    models: [
      { name: 'first', targets: [target] },
      { name: 'priced', targets: [target], price: { input, output: 2 } },
    ],
    organizations: [{ id: 'acme', keys: [{ id: 'k', key: KEY }] }],
    ...(hook === undefined ? {} : { alerts: { hooks: [{ url: hook, format: 'weir', secret: ALERT_SECRET }] } }),
  })
}

async function fleet(weir: Weir): Promise<{ readonly nodes: readonly JsonObject[]; readonly mixed: unknown }> {
  const answer = objectOf(await (await fetch(`${weir.admin}/api/nodes`)).json())
  const nodes = answer?.['nodes']
  return { nodes: isArray(nodes) ? nodes.filter(isObject) : [], mixed: answer?.['mixed'] }
}

async function names(weir: Weir): Promise<string> {
  return (await fleet(weir)).nodes.map(({ name, state }) => `${name} ${state}`).join(', ')
}

async function run(weir: Pick<Weir, 'folder'>, ...args: readonly string[]) {
  const child = Bun.spawn([...PROGRAM, ...args], { cwd: weir.folder, stdout: 'pipe', stderr: 'pipe' })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, stdout, stderr }
}

test('nodes see each other, in what they differ, and reload and drain one another', async () => {
  await using redis = await RedisServer.start()
  await using client = Object.assign(new Redis(redis.url), {
    async [Symbol.asyncDispose]() {
      client.disconnect()
    },
  })
  // As docs/operating.md has it.
  const page = await Bun.file(join(import.meta.dir, '../../docs/operating.md')).text()
  const rights = page.match(/^\+[a-z|]+(?: \+[a-z|]+)*$/gm)?.flatMap((line) => line.split(' ')) ?? []
  expect(rights.length).toBeGreaterThan(20)
  await client.call('ACL', 'SETUSER', 'weir', 'on', '>secret', '~weir:*', '-@all', ...rights)
  using hook = webhook()
  const setup = { redis: redis.url.replace('redis://', 'redis://weir:secret@'), hook: hook.url }
  await using a = await Weir.ready(config({ ...setup, name: 'a' }))
  await using b = await Weir.ready(config({ ...setup, name: 'b', input: 3 }))
  await using c = await Weir.ready(config({ ...setup, name: 'c' }))
  for (const node of [a, b, c]) await until(async () => (await names(node)) === 'a ready, b ready, c ready')

  // The node whose price is otherwise than that of most, on every node; their ports are their own.
  const { nodes } = await fleet(a)
  const ids = new Map(nodes.map(({ id, name }) => [String(name), String(id)]))
  const mixed = [{ section: 'models[1].price', nodes: [ids.get('b')] }]
  for (const node of [a, b, c]) await until(async () => Bun.deepEquals((await fleet(node)).mixed, mixed))
  expect(nodes.map(({ digests }) => objectOf(digests)?.['prices'])).toSatisfy(([x, y, z]) => x === z && x !== y)
  expect(new Set(nodes.map(({ digests }) => objectOf(digests)?.['organizations'])).size).toBe(1)
  expect(JSON.stringify(nodes)).not.toContain('secret')
  const metrics = await (await fetch(`${c.admin}/metrics`)).text()
  expect(metrics).toContain('\nweir_nodes 3\n')
  expect(metrics).toContain('\nweir_nodes_mixed{what="configuration"} 1\n')
  expect(metrics).toContain('\nweir_nodes_mixed{what="version"} 0\n')
  expect(metrics).toContain('\nweir_nodes_mixed{what="prices"} 1\n')
  const listed = await run(a, 'nodes')
  expect(listed).toMatchObject({ code: 0, stdout: expect.stringContaining('differs: models[1].price on b\n') })

  // The same from a machine on which no gateway runs, also if its file has a mistake.
  const apart = { folder: await mkdtemp(join(tmpdir(), 'weir-apart-')) }
  folders.push(apart.folder)
  const elsewhere = config({ ...setup, name: 'apart' }).replace('"first"', '"priced"')
  await Bun.write(join(apart.folder, 'weir.yaml'), elsewhere)
  expect(await run(apart, 'nodes')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('differs: models[1].price on b\n'),
    stderr: expect.stringContaining('warning: '),
  })
  const json = await run(apart, 'nodes', '--json')
  expect(objectOf(JSON.parse(json.stdout))).toMatchObject({
    mixed,
    nodes: [{ name: 'a' }, { name: 'b' }, { name: 'c' }],
  })
  expect(await run(apart, 'nodes', 'reload', 'c')).toMatchObject({
    code: 0,
    stdout: `c (${ids.get('c')}): nothing changed\n`,
  })
  expect(await run(apart, 'nodes', 'drain', 'apart')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('apart'),
  })

  // After five minutes, of which Redis keeps the beginning, one of them reports it, and its end.
  await client.set('weir:{nodes}:mixed', Date.now() - 301_000, 'PX', 20_000)
  const attention = async (node: Weir) => {
    const status = objectOf(await (await fetch(`${node.admin}/api/status`)).json())
    const found = status?.['attention']
    return isArray(found) ? found.filter((each) => objectOf(each)?.['kind'] === 'nodes') : []
  }
  for (const node of [a, b, c]) await until(async () => (await attention(node)).length === 1)
  expect((await attention(a))[0]).toMatchObject({
    level: 'warning',
    message: 'Nodes differ from most: models[1].price on b.',
  })
  const [firing] = await hook.until(1, ({ type }) => type === 'fleet.mixed')
  expect(firing).toMatchObject({ status: 'firing', differences: ['models[1].price on b'] })

  // By another node, which reports what came of it.
  await b.configure('{')
  expect(await run(a, 'nodes', 'reload', 'b')).toMatchObject({ code: 1, stderr: expect.stringContaining('b (') })
  await b.configure(config({ ...setup, name: 'b' }))
  const reloaded = await run(a, 'nodes', 'reload', '--all')
  expect(reloaded).toMatchObject({ code: 0, stderr: '' })
  expect(reloaded.stdout).toContain(`b (${ids.get('b')}): ~ price of priced\n`)
  expect(reloaded.stdout).toContain(`c (${ids.get('c')}): nothing changed\n`)
  for (const node of [a, b, c]) await until(async () => Bun.deepEquals((await fleet(node)).mixed, []))
  const [ended] = await hook.until(1, ({ type, status }) => type === 'fleet.mixed' && status === 'resolved')
  expect(ended?.['id']).toBe(String(firing?.['id']))
  const ofFleet = hook.received.filter(({ alert }) => alert['type'] === 'fleet.mixed')
  expect(ofFleet.map(({ alert }) => alert['status'])).toEqual(['firing', 'resolved'])

  // A node that was killed and starts again is one node, not two for as long as its lease lasts.
  c.signal('SIGKILL')
  await c.ended
  await using again = await Weir.ready(config({ ...setup, name: 'c' }), [], { folder: c.folder })
  const idOf = async (name: string) =>
    (await fleet(a)).nodes.flatMap((node) => (node['name'] === name ? [node['id']] : []))
  await until(async () => !(await idOf('c')).includes(String(ids.get('c'))))
  await until(async () => (await idOf('c')).length === 1)

  expect(await run(a, 'nodes', 'drain', 'nobody')).toMatchObject({ code: 1, stderr: expect.stringContaining('nobody') })
  expect(await run(a, 'nodes', 'drain', 'b')).toMatchObject({ code: 0, stdout: `b (${ids.get('b')}): draining\n` })
  expect((await b.ended).code).toBe(0)
  await until(async () => (await names(again)) === 'a ready, c ready')
  const audit = (await run(a, 'audit', '--admin', '--json')).stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const done = audit.filter(({ action }) => String(action).startsWith('node.'))
  expect(done.map(({ action, target, source }) => `${action} ${target} ${source}`).sort()).toEqual(
    ['reloaded a', 'reloaded b', 'reloaded b', 'reloaded c', 'reloaded c', 'drained b']
      .map((words) => `node.${words} cli`)
      .sort(),
  )
  expect(done.find(({ details }) => details.result === 'rejected')).toMatchObject({ target: 'b' })
})

test('one node with the embedded ledger is alone', async () => {
  await using weir = await Weir.ready(config({ name: 'alone' }))
  const { nodes, mixed } = await fleet(weir)
  expect([nodes.map(({ name, state }) => `${name} ${state}`), mixed]).toEqual([['alone ready'], []])
  expect(await run(weir, 'nodes', '--json')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('"name":"alone"'),
  })
  expect(await run(weir, 'nodes', 'reload')).toMatchObject({ code: 2 })
  expect(await run(weir, 'nodes', 'drain', 'alone')).toMatchObject({ code: 0 })
  expect((await weir.ended).code).toBe(0)
})

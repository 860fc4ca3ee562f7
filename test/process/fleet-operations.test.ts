/**
 * A fleet of three nodes as docs/operating.md runs it, with the limits and the queue of docs/routing.md: started,
 * reloaded, rolled out, drained and moved under load.
 */

import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { parse } from 'yaml'
import { isArray, isObject, objectOf } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { KEY, PROGRAM, until, Weir } from './weir.ts'

/** A page of the manual. */
function page(name: string): Promise<string> {
  return Bun.file(join(import.meta.dir, '../../docs', name)).text()
}

const LIMITED: unknown = parse(/## Limits of providers.*?```yaml\n(.*?)```/s.exec(await page('routing.md'))?.[1] ?? '')
const { limits } = objectOf(objectOf(objectOf(LIMITED)?.['providers'])?.['openai']) ?? {}

function config(name: string, redis: string, url: string, models: readonly string[]): string {
  return JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0 },
    workers: 1,
    node_name: name,
    ledger: { redis },
    data_dir: './data',
    compaction: { keys: [Buffer.alloc(32, 1).toString('base64')] },
    providers: { up: { dialect: 'openai', base_url: url, api_key: 'k', limits } },
    models: models.map((model) => ({
      name: model,
      targets: [{ provider: 'up', model }],
      price: { input: 1, output: 1 },
    })),
    queue: objectOf(LIMITED)?.['queue'],
    organizations: [{ id: 'acme', keys: [{ id: 'k', key: KEY }] }],
  })
}

function send(node: Weir, model = 'm') {
  const body = { model, messages: [{ role: 'user', content: 'Hi' }] }
  return ask(Number(new URL(node.address).port), requestBytes('/v1/chat/completions', { key: KEY, body }))
}

async function run(node: Weir, words: string): Promise<string> {
  const child = Bun.spawn([...PROGRAM, ...words.split(' ').slice(1)], {
    cwd: node.folder,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [text, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  expect([words, await child.exited, errors]).toEqual([words, 0, ''])
  return text
}

async function names(node: Weir): Promise<readonly string[]> {
  const answer: unknown = await (await fetch(`${node.admin}/api/nodes`)).json()
  const nodes = objectOf(answer)?.['nodes']
  return isArray(nodes) ? nodes.filter(isObject).map(({ name, state }) => `${name} ${state}`) : []
}

/** What a load balancer does: sends requests to the nodes that are ready, one after the other. */
class Balancer {
  readonly statuses: number[] = []
  private isOn = true
  private readonly sending: Promise<void>

  constructor(readonly nodes: Weir[]) {
    this.sending = this.send()
  }

  private async send(): Promise<void> {
    for (let i = 0; this.isOn; i++) {
      const node = this.nodes[i % this.nodes.length]
      if (node !== undefined) this.statuses.push((await send(node)).status)
    }
  }

  /** Resolves after so many more answers. */
  async served(count: number): Promise<void> {
    const wanted = this.statuses.length + count
    await until(() => this.statuses.length >= wanted)
  }

  async stop(): Promise<void> {
    this.isOn = false
    await this.sending
  }
}

/** On a busy machine the new worker may not be ready in time: then the old one stays, and it is done once more. */
async function rollOut(node: Weir): Promise<void> {
  for (let tries = 1; node.all('workers replaced').length === 0; tries++) {
    node.signal('SIGUSR2')
    const hasFailed = () => node.all('workers not replaced').length >= tries
    await until(() => node.all('workers replaced').length > 0 || hasFailed())
  }
}

test('a fleet is started, reloaded, rolled out, drained and moved, and no request fails', async () => {
  // The commands of the page.
  const manual = await page('operating.md')
  for (const words of ['weir nodes reload --all', 'weir nodes drain gateway-2', 'weir nodes', 'weir audit --request'])
    expect(manual).toContain(words)
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  let release = () => {}
  upstream.otherwise(json(200, chatBody('Hello.')))
  upstream.on('slow', async (call) => {
    await new Promise<void>((resolve) => {
      release = resolve
    })
    await json(200, chatBody('Late.'))(call)
  })
  const text = (name: string, models: readonly string[]) => config(name, redis.url, upstream.url, models)
  // Start: in any order.
  const started = ['gateway-3', 'gateway-1', 'gateway-2'].map((name) => Weir.ready(text(name, ['m'])))
  const [third, first, second] = await Promise.all(started)
  if (first === undefined || second === undefined || third === undefined) throw new Error('no node')
  await using stack = new AsyncDisposableStack()
  for (const node of [first, second, third]) stack.use(node)
  const all = ['gateway-1 ready', 'gateway-2 ready', 'gateway-3 ready']
  // Each reloads those that it knows.
  for (const node of [first, second, third]) await until(async () => Bun.deepEquals(await names(node), all))
  expect((await run(third, 'weir nodes')).match(/^gateway-[123] .*ready/gm)).toHaveLength(3)
  const balancer = new Balancer([first, second, third])
  await balancer.served(3)
  // The limits hold over all nodes, and each shows what is left of them.
  const explained = await run(second, 'weir explain --key k --model m')
  for (const words of [
    'limit up/requests 5000 a minute',
    'limit up/concurrent_requests 300',
    'waits for up to 30000 ms',
  ])
    expect(explained).toContain(words)
  for (const node of [first, second, third]) {
    const left = /^weir_target_room_ratio\{target="up",unit="spend.month"\} (0\.9|1$)/m
    await until(async () => left.test(await (await fetch(`${node.admin}/metrics`)).text()))
  }

  // Reload: the new file on every node, then one command on one of them.
  for (const [i, node] of [first, second, third].entries())
    await node.configure(text(`gateway-${i + 1}`, ['m', 'slow']))
  expect((await run(first, 'weir nodes reload --all')).match(/\+ model/g)).toHaveLength(3)
  for (const node of [first, second, third]) expect(await node.models()).toEqual(['m', 'slow'])

  // Roll out a version: one node after another, each ready before the next.
  for (const node of [first, second, third]) {
    await rollOut(node)
    await until(async () => (await node.readyz()).status === 200)
    await balancer.served(3)
  }

  // Drain: out of the load balancer first; what runs may finish.
  const late = send(second, 'slow')
  await until(() => upstream.calls.some(({ model }) => model === 'slow'))
  balancer.nodes.splice(1, 1)
  await balancer.served(3)
  expect(await run(first, 'weir nodes drain gateway-2')).toEndWith('): draining\n')
  await until(async () => (await second.readyz()).status === 503)
  await until(async () => (await names(first)).includes('gateway-2 draining'))
  release()
  expect((await late).status).toBe(200)
  expect((await second.ended).code).toBe(0)

  // Move: the new node, then the old one drains, and nobody has it any more.
  const fourth = stack.use(await Weir.ready(text('gateway-4', ['m', 'slow'])))
  await until(async () => (await names(fourth)).includes('gateway-1 ready'))
  balancer.nodes.push(fourth)
  await balancer.served(3)
  const served = await send(first)
  balancer.nodes.splice(balancer.nodes.indexOf(first), 1)
  await balancer.served(3)
  await run(fourth, 'weir nodes drain gateway-1')
  expect((await first.ended).code).toBe(0)
  await until(async () => Bun.deepEquals(await names(fourth), ['gateway-3 ready', 'gateway-4 ready']))
  await balancer.stop()
  expect([...new Set(balancer.statuses)]).toEqual([200])

  // Where a request was served, also by a node that is gone.
  const { node } = JSON.parse(await run(third, `weir audit --request ${served.header('x-request-id')} --json`))
  expect(node).toBe('gateway-1')
}, 240_000)

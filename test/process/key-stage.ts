/** Gateways in which keys and organisations change: one node with the embedded ledger, or two on one Redis. */

import { expect } from 'bun:test'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { until } from './weir.ts'

export const TOKEN = 'admin-token-0123456789'
export const OTHER = 'other-key-0123456789abcdef'

/** A cent for each token: a request holds 10 of output and some of input, and an answer takes 9 and 3. */
const PRICE = { input: 10_000, output: 10_000 }

/** One node with the embedded ledger, or two that share a Redis, each with two workers. */
export class Stage implements AsyncDisposable {
  private constructor(
    readonly nodes: readonly Gateway[],
    private readonly parts: readonly AsyncDisposable[],
  ) {}

  static async start(kind: string): Promise<Stage> {
    const redis = kind === 'redis' ? await RedisServer.start() : undefined
    const upstream = await Upstream.start()
    upstream.on('m', json(200, chatBody('Hello.')))
    const node = () =>
      Gateway.start({
        providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
        models: {
          m: { name: 'm', targets: [{ provider: 'up', model: 'm' }], price: PRICE, max_output_tokens: 10 },
          free: { name: 'free', targets: [{ provider: 'up', model: 'm' }] },
        },
        config: {
          workers: 2,
          tags: ['team'],
          admin: { port: 0, token: TOKEN },
          organizations: [{ id: 'acme', keys: [KEY, OTHER].map((key, i) => ({ id: `k${i}`, key })) }],
          ...(redis === undefined ? {} : { ledger: { redis: redis.url } }),
        },
      })
    const nodes = await Promise.all(redis === undefined ? [node()] : [node(), node()])
    return new Stage(nodes, [...nodes, upstream, ...(redis === undefined ? [] : [redis])])
  }

  get first(): Gateway {
    const [first] = this.nodes
    if (first === undefined) throw new Error('There is no node.')
    return first
  }

  /** The statuses of requests to every worker of every node, each once. Connections of their own reach all workers. */
  async statuses(key: string): Promise<readonly number[]> {
    const answers = this.nodes.flatMap((node) => Array.from({ length: 8 }, () => statusOf(node, key)))
    return [...new Set(await Promise.all(answers))].sort()
  }

  /** Resolves when every worker of every node answers a key with this status: a change reaches them within a second. */
  async allAnswer(key: string, status: number): Promise<void> {
    await until(async () => (await this.statuses(key)).join() === String(status))
  }

  /** The last node runs a command: the others learn of it. */
  async run(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await (this.nodes.at(-1) ?? this.first).run(...args)
    expect([code, stderr]).toEqual([0, expect.any(String)])
    return stdout.trim()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const part of this.parts) await part[Symbol.asyncDispose]()
  }
}

/** A request that the ledger could not answer in time, on a busy machine, is repeated. */
async function statusOf(node: Gateway, key: string): Promise<number> {
  const body = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }] }
  for (;;) {
    const { status } = await ask(node.port, requestBytes('/v1/chat/completions', { key, body }))
    if (status !== 503) return status
  }
}

/** Calls the admin API. */
export async function api(node: Gateway, method: string, path: string, body?: JsonObject) {
  const answer = await fetch(`${node.adminUrl}${path}`, {
    method,
    headers: { authorization: `Bearer ${TOKEN}` },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const found: unknown = await answer.json()
  if (!isObject(found)) throw new Error('The answer is no object.')
  return { status: answer.status, body: found }
}

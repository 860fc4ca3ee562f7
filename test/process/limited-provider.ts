/** A gateway whose provider has limits, and a provider that holds requests, for tests of what waits. */

import type { JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { chatBody, json } from '../support/scenarios.ts'
import type { Call, Upstream } from '../support/upstream.ts'
import { KEY, until, type Weir } from './weir.ts'

export interface Given {
  readonly redis?: string
  readonly workers?: number
  readonly limits?: JsonObject
  readonly queue?: JsonObject
  readonly second?: boolean
  readonly more?: JsonObject
}

export function config(url: string, { redis, workers = 1, limits, queue, second = false, more = {} }: Given): string {
  const key = (id: string, more: JsonObject = {}) => ({ id, key: `${KEY}-${id}`, ...more })
  const spare = { provider: 'spare', model: 's' }
  return JSON.stringify({
    listen: { port: 0 },
    admin: { port: 0 },
    workers,
    ledger: redis === undefined ? 'embedded' : { redis },
    data_dir: './data',
    providers: {
      up: { dialect: 'openai', base_url: url, api_key: 'k', ...(limits && { limits }) },
      ...(second && { spare: { dialect: 'openai', base_url: url, api_key: 'k' } }),
    },
    models: [
      {
        name: 'm',
        targets: [{ provider: 'up', model: 'a' }, ...(second ? [spare] : [])],
        price: { input: 1, output: 1 },
        default_output_tokens: 100,
      },
    ],
    ...(queue && { queue }),
    organizations: [
      {
        id: 'acme',
        keys: [
          key('one'),
          key('slow', { priority: 'batch' }),
          key('hasty', { max_wait_ms: 0 }),
          key('patient', { max_wait_ms: 60_000 }),
        ],
      },
      { id: 'globex', weight: 3, keys: [key('two'), key('three')] },
    ],
    ...more,
  })
}

export function say(weir: Weir, key = 'one', fields: Readonly<Record<string, string>> = {}, words = '') {
  const body = { model: 'm', max_tokens: 100, messages: [{ role: 'user', content: `Hi from ${key}${words}` }] }
  const request = requestBytes('/v1/chat/completions', { key: `${KEY}-${key}`, body, fields })
  return ask(Number(new URL(weir.address).port), request)
}

/** A provider that holds each request until it is released, and knows how many it had at once. */
export class Holding {
  running = 0
  most = 0
  readonly calls: Call[] = []
  private readonly held: (() => void)[] = []

  constructor(readonly upstream: Upstream) {
    upstream.otherwise(async (call) => {
      this.calls.push(call)
      this.running++
      this.most = Math.max(this.most, this.running)
      await new Promise<void>((resolve) => this.held.push(resolve))
      this.running--
      await json(200, chatBody('Hello.'))(call)
    })
  }

  /** Answers the next request as soon as there is one. */
  async release(): Promise<void> {
    await until(async () => this.held.length > 0)
    this.held.shift()?.()
  }

  get senders(): readonly string[] {
    return this.calls.map(({ json: { messages } }) => /from (\w+)/.exec(JSON.stringify(messages))?.[1] ?? '')
  }
}

/** How many requests wait in the queue. */
export async function waiting(weir: Weir): Promise<number> {
  const text = await (await fetch(`${weir.admin}/metrics`)).text()
  return [...text.matchAll(/^weir_queue_waiting\{.*\} (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0)
}

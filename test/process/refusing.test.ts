/**
 * A budget that refuses is shown as one, long before all of it is spent: in the admin API, the metrics and `weir top`,
 * on every node, until room is made. The message names the output limit with which the request passes.
 */

import { expect, test } from 'bun:test'
import { readFile, writeFile } from 'node:fs/promises'
import type { JsonObject } from '../../src/core/json.ts'
import { type Answer, ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { ALERT_SECRET, type TestWebhook, webhook } from '../support/webhook.ts'

/** An answer of 3,000 tokens costs $0.30, and 4,096 are held for it. */
/** The ledger is read for alerts in at most 2 % of the time, which is seldom under the load of other tests. */
const LONGEST_MS = 600_000
const PRICE = { input: 0, output: 100 }
const USAGE = { prompt_tokens: 9, completion_tokens: 3000, total_tokens: 3009 }

function start(upstream: Upstream, hook: TestWebhook, more: JsonObject): Promise<Gateway> {
  upstream.on('m', json(200, JSON.stringify({ ...JSON.parse(chatBody('Hello.')), usage: USAGE })))
  return Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: { targets: [{ provider: 'up', model: 'm' }], price: PRICE, max_output_tokens: 10_000 } },
    config: {
      alerts: { webhook: hook.url, secret: ALERT_SECRET },
      organizations: [
        { id: 'acme', limits: { spend: { day: 1, month: 100 } }, keys: [{ id: 'k', key: KEY, limits: {} }] },
      ],
      ...more,
    },
    flags: ['--workers', '2'],
  })
}

function say(gateway: Gateway, path: string, more: JsonObject = {}): Promise<Answer> {
  const body = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...more }
  return ask(gateway.port, requestBytes(path, { key: KEY, body }))
}

async function admin(gateway: Gateway, path: string): Promise<Response> {
  return await fetch(`${gateway.adminUrl}${path}`)
}

/** Asks until the states of the limits are these, and all is settled: an answer may be up to 2 s old. */
async function until(gateway: Gateway, day: string, used: number): Promise<void> {
  for (;;) {
    const { rows } = (await (await admin(gateway, '/api/budgets')).json()) as { rows: JsonObject[] }
    const states = rows.map(({ limit, state, used, held }) => `${limit} ${state} ${used} ${held}`).sort()
    if (states.join() === `spend.day ${day} ${used} 0,spend.month ok ${used} 0`) return
    await Bun.sleep(50)
  }
}

test.each(['embedded', 'redis'])(
  '%s: at 60 % of the limit, on all nodes, until it is raised',
  async (kind) => {
    using hook = webhook()
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    const ledger = kind === 'redis' ? { ledger: { redis: redis.url } } : {}
    await using gateway = await start(upstream, hook, ledger)
    for (let i = 0; i < 2; i++) expect((await say(gateway, '/v1/chat/completions')).status).toBe(200)
    await until(gateway, 'ok', 600_000)
    const refused = await say(gateway, '/v1/chat/completions')
    expect([refused.status, refused.header('x-should-retry')]).toEqual([429, 'false'])
    expect(JSON.parse(refused.text).error).toMatchObject({
      code: 'insufficient_quota',
      message: expect.stringMatching(
        /^This request may cost \$0\.4096, more than is left of the daily .* at most 4000 tokens it passes now\.$/,
      ),
    })
    const messages = await say(gateway, '/anthropic/v1/messages', { max_tokens: 4001 })
    expect(JSON.parse(messages.text)).toMatchObject({
      error: { type: 'rate_limit_error', message: expect.stringMatching(/ at most 4000 tokens it passes now\.$/) },
    })

    const isRefusing = ({ type, status }: JsonObject) => type === 'spend.refusing' && status === 'firing'
    const [alert] = await hook.until(1, isRefusing)
    expect(alert).toMatchObject({ organization: 'acme', key: null, window: 'day', limit_usd: 1, spent_usd: 0.6 })

    const others = kind === 'redis' ? [await start(upstream, hook, ledger)] : []
    try {
      for (const node of [gateway, ...others]) {
        await until(node, 'refusing', 600_000)
        const status = (await (await admin(node, '/api/status')).json()) as JsonObject
        expect(status).toMatchObject({
          limits: { near: 0, refusing: 1 },
          problems: [
            {
              ...{ level: 'error', kind: 'budget' },
              message: expect.stringMatching(
                /^spend\.day of acme refuses requests: \$0\.60 of \$1\.00 is spent\. It renews /,
              ),
            },
          ],
        })
        const metrics = await (await admin(node, '/metrics')).text()
        expect(metrics).toContain('weir_limit_refusing{organization="acme",key="",limit="spend.day"} 1\n')
        expect(metrics).toContain('weir_limit_refusing{organization="acme",key="",limit="spend.month"} 0\n')
        expect((await node.run('top', '--once')).stdout).toMatch(/^refusing +60% +acme +spend\.day/m)
      }

      expect((await say(gateway, '/v1/chat/completions', { max_tokens: 4000 })).status).toBe(200)
      // Nine tenths are spent now.
      const ask1001 = { input: 'Hi', messages: undefined, max_output_tokens: 1001 }
      let dear = await say(gateway, '/v1/responses', ask1001)
      // The answer arrives before it is settled.
      while (dear.header('retry-after') !== undefined) dear = await say(gateway, '/v1/responses', ask1001)
      expect(JSON.parse(dear.text).error.message).toMatch(/ at most 1000 tokens it passes now\.$/)
      for (const node of [gateway, ...others]) {
        await writeFile(node.configFile, (await readFile(node.configFile, 'utf8')).replace('"day": 1', '"day": 2'))
        expect((await node.run('reload')).code).toBe(0)
        await until(node, 'ok', 900_000)
      }
      expect((await say(gateway, '/v1/chat/completions')).status).toBe(200)
      const [end] = await hook.until(1, ({ status }) => status === 'resolved')
      expect([end?.['type'], end?.['id']]).toEqual(['spend.refusing', alert?.['id']])
      for (const node of [...others, gateway]) await node.stop()
      const received = hook.received.map(({ alert: { type, status } }) => `${type} ${status}`)
      expect(received.sort()).toEqual(['spend.refusing firing', 'spend.refusing resolved'])
    } finally {
      for (const node of others) await node[Symbol.asyncDispose]()
    }
  },
  LONGEST_MS,
)

test.each(['embedded', 'redis'])(
  '%s: a limit of 0 is refusing from its first refusal on, until it is raised',
  async (kind) => {
    using hook = webhook()
    await using redis = await RedisServer.start()
    await using upstream = await Upstream.start()
    const limits = { spend: { day: 0 } }
    await using gateway = await start(upstream, hook, {
      ...(kind === 'redis' ? { ledger: { redis: redis.url } } : {}),
      organizations: [{ id: 'acme', limits: {}, keys: [{ id: 'k', key: KEY, limits }] }],
    })
    const budgets = async () => {
      const { rows } = (await (await admin(gateway, '/api/budgets')).json()) as { rows: JsonObject[] }
      return rows
    }
    const state = async (wanted: string) => {
      while ((await budgets())[0]?.['state'] !== wanted) await Bun.sleep(50)
    }
    expect(await budgets()).toEqual([])
    const status = async () => (await (await admin(gateway, '/api/status')).json()) as JsonObject
    expect(await status()).toMatchObject({ limits: { refusing: 0 }, problems: [] })
    for (let i = 0; i < 3; i++) {
      const refused = await say(gateway, '/v1/chat/completions')
      expect(JSON.parse(refused.text).error).toMatchObject({ code: 'insufficient_quota' })
    }
    await state('refusing')
    const [alert] = await hook.until(1, ({ type }) => type === 'spend.refusing')
    expect(alert).toMatchObject({ status: 'firing', organization: 'acme', key: 'k', limit_usd: 0, spent_usd: 0 })
    expect(await status()).toMatchObject({
      limits: { refusing: 1 },
      problems: [{ kind: 'budget', message: 'spend.day of key k of acme refuses requests: its limit is $0.' }],
    })
    const metrics = await (await admin(gateway, '/metrics')).text()
    expect(metrics).toContain('weir_limit_refusing{organization="acme",key="k",limit="spend.day"} 1\n')
    expect((await gateway.run('top', '--once')).stdout).toMatch(/^refusing +100% +acme\/k +spend\.day/m)
    await writeFile(gateway.configFile, (await readFile(gateway.configFile, 'utf8')).replace('"day": 0', '"day": 9'))
    expect((await gateway.run('reload')).code).toBe(0)
    const [end] = await hook.until(1, ({ status }) => status === 'resolved')
    expect([end?.['type'], end?.['id']]).toEqual(['spend.refusing', alert?.['id']])
    expect((await say(gateway, '/v1/chat/completions')).status).toBe(200)
    await state('ok')
    expect(hook.received.map(({ alert: { type } }) => type)).toEqual(['spend.refusing', 'spend.refusing'])
  },
  LONGEST_MS,
)

/** Alerts through the running program: spend, states that begin and end, restarts, kills, and hooks that hang. */

import { expect, test } from 'bun:test'
import { statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { JsonObject } from '../../src/core/json.ts'
import { type Answer, ask, requestBytes } from '../support/caller.ts'
import { configOf, Gateway, type GatewaySetup, KEY } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatBody, json } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'
import { ALERT_SECRET, type TestWebhook, webhook } from '../support/webhook.ts'

/** A cent a token: each answer takes 9 tokens in and 3 out, and costs twelve cents. */
const PRICE = { input: 10_000, output: 10_000 }
const LIMITS = { spend: { day: 1 } }
const SHARES = [0.1, 0.2, 0.9]

function setupOf(upstream: Upstream, hook: Pick<TestWebhook, 'url'>, more: JsonObject = {}): GatewaySetup {
  upstream.on('m', json(200, chatBody('Hello.')))
  return {
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: { targets: [{ provider: 'up', model: 'm' }], price: PRICE, max_output_tokens: 10 } },
    config: {
      alerts: { webhook: hook.url, secret: ALERT_SECRET, spend: SHARES },
      organizations: [{ id: 'acme', limits: LIMITS, keys: [{ id: 'k', key: KEY }] }],
      ...more,
    },
  }
}

function say(gateway: Gateway, key = KEY): Promise<Answer> {
  const body = { model: 'm', max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }] }
  return ask(gateway.port, requestBytes('/v1/chat/completions', { key, body }))
}

const isSpend = ({ type }: JsonObject) => type === 'spend.threshold'
const isRefusing = ({ type }: JsonObject) => type === 'spend.refusing'
const shareOf = ({ share }: JsonObject) => share
const spendText = ({ organization, key, share, window, limit_usd }: JsonObject) =>
  `${key === null ? '' : `${key} of `}${organization}: ${share} of ${window} $${limit_usd}`
const sent = (gateway: Gateway) => gateway.lines.filter(({ event }) => event === 'alert.sent')

test('embedded, two workers: each reached share once, signed, and never again', async () => {
  using hook = webhook()
  await using upstream = await Upstream.start()
  await using gateway = await Gateway.start({ ...setupOf(upstream, hook), flags: ['--workers', '2'] })
  expect((await say(gateway)).status).toBe(200)
  const [first] = await hook.until(1, isSpend)
  expect(first).toMatchObject({
    ...{ type: 'spend.threshold', organization: 'acme', key: null, window: 'day' },
    ...{ limit_usd: 1, spent_usd: 0.12, share: 0.1, id: expect.stringMatching(/^alert_[0-9a-f]{32}$/) },
  })
  expect((await say(gateway)).status).toBe(200)
  await hook.until(2, isSpend)
  await gateway.line(() => sent(gateway).length === 2)
  // The end reads the ledger once more.
  await gateway.stop()
  expect(hook.received.map(({ alert }) => shareOf(alert))).toEqual([0.1, 0.2])
  expect(hook.received.every(({ isGenuine }) => isGenuine)).toBe(true)
  expect(statSync(join(gateway.folder, 'data/alerts.sqlite')).mode & 0o777).toBe(0o600)
  expect(gateway.output).not.toContain(ALERT_SECRET)
})

test('kill -9 between the crossing and the delivery: the alerts arrive, with one id each', async () => {
  using hook = webhook()
  hook.answer = () => new Response(null, { status: 503 })
  await using upstream = await Upstream.start()
  const setup = setupOf(upstream, hook)
  const gateway = await Gateway.start(setup)
  await say(gateway)
  await hook.until(1, isSpend)
  // The second share is reached, and the ledger was not read since.
  await say(gateway)
  gateway.signal('SIGKILL')
  await gateway.exit
  hook.answer = () => new Response()
  const dataDir = join(gateway.folder, 'data')
  await using again = await Gateway.start({ ...setup, config: { ...setup.config, data_dir: dataDir } })
  await again.line(() => sent(again).length === 2)
  await again.stop()
  expect(new Set(hook.received.map(({ alert }) => `${alert['share']} ${alert['id']}`)).size).toBe(2)
  expect(sent(again)).toHaveLength(2)
  await gateway[Symbol.asyncDispose]()
})

test('two nodes on one Redis: each share is reported by one of them', async () => {
  using hook = webhook()
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const setup = setupOf(upstream, hook, { ledger: { redis: redis.url } })
  await using one = await Gateway.start(setup)
  await using two = await Gateway.start(setup)
  for (let i = 0; i < 8; i++) await say(i % 2 === 0 ? one : two)
  await hook.until(SHARES.length, isSpend)
  // Both read the ledger once more before they end.
  await Promise.all([one.stop(), two.stop()])
  expect(hook.received.map(({ alert }) => shareOf(alert)).sort()).toEqual(SHARES)
  expect(sent(one).length + sent(two).length).toBe(SHARES.length)
})

test.each(['embedded', 'redis'])('%s: limits of an organisation and a key that commands created', async (kind) => {
  using hook = webhook()
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  const ledger = kind === 'redis' ? { ledger: { redis: redis.url } } : {}
  await using gateway = await Gateway.start(setupOf(upstream, hook, ledger))
  const run = async (command: string) => {
    const { code, stdout, stderr } = await gateway.run(...command.split(' '))
    expect([code, stderr]).toEqual([0, expect.any(String)])
    return stdout.trim()
  }
  await run('organizations create --id newco --spend-day 1')
  const secret = await run('keys create --org newco --id bot --spend-month 0.5')
  expect((await say(gateway, secret)).status).toBe(200)
  const thresholds = await hook.until(3, isSpend)
  expect(thresholds.map(spendText).sort()).toEqual([
    'bot of newco: 0.1 of month $0.5',
    'bot of newco: 0.2 of month $0.5',
    'newco: 0.1 of day $1',
  ])

  await run('organizations update --id newco --spend-day 0.2')
  expect((await say(gateway, secret)).status).toBe(429)
  const [refusing] = await hook.until(1, isRefusing)
  expect(refusing).toMatchObject({
    status: 'firing',
    organization: 'newco',
    key: null,
    window: 'day',
    limit_usd: 0.2,
  })
  await run('organizations update --id newco --spend-day 100')
  // A reload reads what is spent at once.
  await run('reload')
  const [, end] = await hook.until(2, isRefusing)
  expect(end).toMatchObject({ status: 'resolved', id: refusing?.['id'] })
})

test('a webhook that hangs does not hold back requests; the queue waits for the next start', async () => {
  using hook = webhook()
  const never = Promise.withResolvers<Response>()
  hook.answer = () => never.promise
  await using upstream = await Upstream.start()
  await using gateway = await Gateway.start(setupOf(upstream, hook))
  await say(gateway)
  await hook.until(1, isSpend)
  const answers = await Promise.all(Array.from({ length: 4 }, () => say(gateway)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect((await gateway.stop()).code).toBe(0)
  expect(sent(gateway)).toEqual([])
})

test('a rejected credential, a key that expires, and a ledger that goes and comes', async () => {
  using hook = webhook()
  await using upstream = await Upstream.start()
  await using redis = await RedisServer.start()
  const expires = new Date(Date.now() + 3 * 86_400_000).toISOString()
  const setup = setupOf(upstream, hook, {
    ledger: { redis: redis.url },
    organizations: [{ id: 'acme', keys: [{ id: 'k', key: KEY, expires_at: expires }] }],
  })
  await using gateway = await Gateway.start(setup)
  const [expiring] = await hook.until(1, ({ type }) => type === 'key.expiring')
  expect(expiring).toMatchObject({ organization: 'acme', key: 'k', expires_at: expires })
  upstream.on('m', json(401, JSON.stringify({ error: { message: 'no' } })))
  await say(gateway)
  const [rejected] = await hook.until(1, ({ type }) => type === 'provider.credential_rejected')
  expect(rejected).toMatchObject({ provider: 'up', model: 'm' })
  redis.signal('SIGSTOP')
  const [down] = await hook.until(1, ({ type }) => type === 'ledger.down')
  expect(down).toMatchObject({ status: 'firing', reason: expect.stringMatching(/Redis|timed out/) })
  redis.signal('SIGCONT')
  await hook.until(1, ({ type }) => type === 'ledger.up')
  const [, up] = await hook.until(2, ({ type }) => type === 'ledger.down')
  expect(up).toEqual({ ...down, status: 'resolved', resolved_at: expect.any(String) })
  expect(hook.received.every(({ isGenuine }) => isGenuine)).toBe(true)
})

test('an account without credit, the model that is down because of it, and the end of both', async () => {
  using hook = webhook()
  await using upstream = await Upstream.start()
  const setup = setupOf(upstream, hook)
  upstream.on('m', json(402, '{"error":{"message":"Insufficient Balance"}}'))
  await using gateway = await Gateway.start(setup)
  expect((await say(gateway)).status).toBe(502)
  const isOfTarget = ({ type }: JsonObject) => type === 'provider.credit_exhausted' || type === 'model.down'
  const begun = await hook.until(2, isOfTarget)
  expect(begun).toContainEqual(
    expect.objectContaining({ type: 'provider.credit_exhausted', status: 'firing', provider: 'up', model: 'm' }),
  )
  expect(begun).toContainEqual(
    expect.objectContaining({
      ...{ type: 'model.down', status: 'firing', model: 'm' },
      reason: expect.stringMatching(
        /^its only target up\/m has no credit left in our account \(402\) since \d\d:\d\d$/,
      ),
    }),
  )
  upstream.on('m', json(200, chatBody('Hello.')))
  expect((await say(gateway)).status).toBe(200)
  const ended = (await hook.until(4, isOfTarget)).slice(2)
  const idsOf = (alerts: readonly JsonObject[]) => alerts.map(({ id, type }) => `${type} ${id}`).sort()
  expect(ended.map(({ status }) => status)).toEqual(['resolved', 'resolved'])
  expect(idsOf(ended)).toEqual(idsOf(begun))
})

test('what began before a restart ends after it with the same id; a hook that hangs holds up none', async () => {
  using hook = webhook()
  using pages = webhook()
  using stuck = webhook()
  const never = Promise.withResolvers<Response>()
  stuck.answer = () => never.promise
  await using upstream = await Upstream.start()
  const setup = setupOf(upstream, hook, {
    node_name: 'node-one',
    alerts: {
      hooks: [
        { url: stuck.url, secret: ALERT_SECRET },
        { url: hook.url, secret: ALERT_SECRET },
        { url: pages.url, format: 'pagerduty', secret: '0'.repeat(32), events: ['provider.*', 'worker.died'] },
      ],
    },
  })
  upstream.on('m', json(401, JSON.stringify({ error: { message: 'no' } })))
  const gateway = await Gateway.start({ ...setup, flags: ['--workers', '2'] })
  await say(gateway)
  const isCredential = ({ type }: JsonObject) => type === 'provider.credential_rejected'
  const [rejected] = await hook.until(1, isCredential)
  expect(rejected).toMatchObject({ status: 'firing', node: 'node-one', provider: 'up', model: 'm' })
  const [paged] = await pages.until(1)
  expect(paged).toMatchObject({ event_action: 'trigger', dedup_key: rejected?.['id'], payload: { source: 'node-one' } })
  const pid = gateway.lines.find(({ event }) => event === 'worker.started')?.['pid']
  process.kill(Number(pid), 'SIGKILL')
  const [died] = await hook.until(1, ({ type }) => type === 'worker.died')
  expect(died).toMatchObject({ status: 'firing', worker: 0, how: expect.stringContaining('SIGKILL') })
  await writeFile(gateway.configFile, 'models: none')
  expect((await gateway.run('reload')).code).toBe(1)
  const [wrong] = await hook.until(1, ({ type }) => type === 'reload.rejected')
  expect(wrong).toMatchObject({ status: 'firing', problems: expect.any(Array) })
  expect(gateway.lines.every(({ node }) => node === 'node-one')).toBe(true)
  await gateway.stop()

  setupOf(upstream, hook)
  const dataDir = join(gateway.folder, 'data')
  await using again = await Gateway.start({ ...setup, config: { ...setup.config, data_dir: dataDir } })
  const ended = (alert: JsonObject | undefined) => ({ ...alert, status: 'resolved', resolved_at: expect.any(String) })
  const isEnd = (type: string) => (alert: JsonObject) => alert['type'] === type && alert['status'] === 'resolved'
  expect(await hook.until(1, isEnd('reload.rejected'))).toEqual([ended(wrong)])
  // Nothing is known of the target before it has answered.
  expect(hook.received.filter(({ alert }) => isCredential(alert))).toHaveLength(1)
  await say(again)
  expect(await hook.until(1, isEnd('provider.credential_rejected'))).toEqual([ended(rejected)])
  expect(await hook.until(1, isEnd('worker.died'))).toEqual([ended(died)])
  await pages.until(2, ({ event_action: action }) => action === 'resolve')
  expect(hook.received.every(({ isGenuine }) => isGenuine)).toBe(true)
  const ours = hook.received.map(({ alert }) => alert).filter(({ type }) => type !== 'model.down')
  expect(new Set(ours.map(({ id, status }) => `${id} ${status}`)).size).toBe(6)
  await gateway[Symbol.asyncDispose]()
})

test('alerts that a reload adds can be tested with weir alerts test', async () => {
  using hook = webhook()
  await using upstream = await Upstream.start()
  const { alerts, ...without } = setupOf(upstream, hook).config ?? {}
  const setup = { ...setupOf(upstream, hook), config: without }
  await using gateway = await Gateway.start(setup)
  const absent = await gateway.run('alerts', 'test')
  expect([absent.code, absent.stdout]).toEqual([1, ''])
  expect(absent.stderr).toContain('the running gateway has no alerts')
  const file = configOf({ ...setup, config: { ...without, alerts: alerts ?? null } }, gateway.folder)
  await writeFile(gateway.configFile, JSON.stringify(file))
  expect((await gateway.run('reload')).stdout).toBe('~ alerts\n')
  expect(await gateway.run('alerts', 'test')).toEqual({ code: 0, stdout: 'delivered\n', stderr: '' })
  expect(hook.received.map(({ alert }) => alert['type'])).toEqual(['test'])
  hook.answer = () => Response.redirect(hook.url, 307)
  const failed = await gateway.run('alerts', 'test')
  expect(failed).toEqual({ code: 1, stdout: '', stderr: 'weir: not delivered: the webhook answered 307\n' })
  await gateway.stop()
  hook.answer = () => new Response(null, { status: 204 })
  expect(await gateway.run('alerts', 'test')).toEqual({ code: 0, stdout: 'delivered\n', stderr: '' })
  expect(hook.received).toHaveLength(3)
})

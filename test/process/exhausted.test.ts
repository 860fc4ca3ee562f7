/** A streamed answer that exceeds its budget: it finishes or is cut; and what a strict limit reserves. */

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { Caller, requestBytes } from '../support/caller.ts'
import { Gateway } from '../support/gateway.ts'
import { RedisServer } from '../support/redis.ts'
import { chatFrames, endless, rest, waits } from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

/** A tenth of a cent a token of output: 4,096 of them are held for $4.096. */
const PRICE = { input: 0, output: 1000 }
/** Far more tokens than were held, and at any count more than the limit of $5 pays for. */
const LONG = 'many different words of an answer '.repeat(2000)

const keyOf = (id: string) => `key-of-${id}-0123456789`
const organization = (id: string, spend: JsonObject) => ({
  ...{ id, limits: { spend: { day: 5, ...spend } } },
  keys: [{ id: `k-${id}`, key: keyOf(id) }],
})

async function start(upstream: Upstream, more: JsonObject): Promise<Gateway> {
  return await Gateway.start({
    providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
    models: { m: { targets: [{ provider: 'up', model: 'm' }], price: PRICE, max_output_tokens: 1_000_000 } },
    config: {
      organizations: [
        organization('finish', {}),
        organization('cut', { on_exhausted: 'cut' }),
        organization('strict', { strict: true }),
        organization('fast', { day: 100, on_exhausted: 'cut' }),
      ],
      ...more,
    },
  })
}

async function send(gateway: Gateway, id: string, maxTokens?: number): Promise<Caller> {
  const caller = await Caller.connect(gateway.port)
  const limit = maxTokens === undefined ? {} : { max_tokens: maxTokens }
  const body = { model: 'm', stream: true, ...limit, messages: [{ role: 'user', content: 'Hi' }] }
  caller.send(requestBytes('/v1/chat/completions', { key: keyOf(id), body }))
  return caller
}

/** What the operator reads of the one request of an organisation. */
async function audited(gateway: Gateway, id: string): Promise<JsonObject> {
  for (;;) {
    const { stdout } = await gateway.run('audit', '--limit', '0', '--json', '--org', id)
    if (stdout !== '') return JSON.parse(stdout)
  }
}

test.each(['embedded', 'redis'])('%s: a rejected extension, and what is reserved from the start', async (kind) => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  await using gateway = await start(upstream, kind === 'redis' ? { ledger: { redis: redis.url } } : {})
  const released = Promise.withResolvers<void>()
  const [role = '', text = '', ...end] = chatFrames([LONG], { usage: false })
  const usage = { prompt_tokens: 9, completion_tokens: 12_345, total_tokens: 12_354 }
  const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage }
  const last = `data: ${JSON.stringify(chunk)}\n\n`
  upstream.on('m', waits([role, text], released.promise, rest([end[0] ?? '', last, ...end.slice(1)])))

  // Strict: the whole output limit is held, and more than the budget is refused before a provider is asked.
  await using refused = await send(gateway, 'strict', 6000)
  const answer = await refused.answer()
  expect([answer.status, JSON.parse(answer.text).error.message]).toEqual([
    429,
    "This request may cost $6.00, more than the daily spend limit of $5.00 for organisation 'strict'. " +
      'Waiting does not help. With an output limit of at most 5000 tokens it passes now.',
  ])
  await using held = await send(gateway, 'strict', 4800)
  await held.until('many')
  let explained = ''
  while (!explained.includes('left'))
    explained = (await gateway.run('explain', '--key', 'k-strict', '--model', 'm')).stdout
  expect(explained).toContain('$5.00 a day ($0.20 left, renews')

  await using finish = await send(gateway, 'finish', 60_000)
  await using cut = await send(gateway, 'cut', 60_000)
  await Promise.all([finish.until('many'), cut.until('many')])

  // At the next extension the output costs more than the budget: one stream is cut without a last event, the other
  // goes on.
  const broken = await cut.answer()
  expect([broken.status, broken.end, broken.text.includes('[DONE]')]).toEqual([200, 'cut', false])
  const line = await gateway.line((one) => one['key'] === 'k-cut')
  expect(line).toMatchObject({ outcome: 'refused', error: 'insufficient_quota', usage: 'estimated', streamed: true })
  const audit = await audited(gateway, 'cut')
  expect(audit).toMatchObject({ ended: 'settled', outcome: 'refused', cost_micro_usd: line['cost_micro_usd'] })
  expect(Number(audit['cost_micro_usd'])).toBeGreaterThan(5_000_000)
  expect(audit['overage_micro_usd']).toBe(Number(audit['cost_micro_usd']) - 4_096_000)

  expect(gateway.lines.filter((one) => one['key'] === 'k-finish')).toEqual([])
  released.resolve()
  const whole = await finish.answer()
  expect([whole.status, whole.end, whole.text.includes('[DONE]')]).toEqual([200, 'whole', true])
  expect(await audited(gateway, 'finish')).toMatchObject({
    ...{ outcome: 'completed', output_tokens: 12_345, cost_micro_usd: 12_345_000 },
    overage_micro_usd: 12_345_000 - 4_096_000,
  })
  // What was taken is spent, beyond the limit: the next one is refused.
  await using next = await send(gateway, 'finish', 1)
  expect((await next.answer()).status).toBe(429)
})

test.each(['embedded', 'redis'])('%s: a stream of any speed is cut when its budget is used up', async (kind) => {
  await using redis = await RedisServer.start()
  await using upstream = await Upstream.start()
  await using gateway = await start(upstream, kind === 'redis' ? { ledger: { redis: redis.url } } : {})
  const [role = '', text = ''] = chatFrames(['many different words of an answer '.repeat(4)])
  upstream.on('m', endless([role], text))
  await using caller = await send(gateway, 'fast')
  const answer = await caller.answer()
  expect([answer.status, answer.end, answer.text.includes('[DONE]')]).toEqual([200, 'cut', false])
  const line = await gateway.line((one) => one['key'] === 'k-fast')
  expect(line).toMatchObject({ outcome: 'refused', error: 'insufficient_quota' })
  // $100 are 100,000 tokens. What is read at once may exceed the reservation, and the last extension may not fit.
  expect(Number(line['cost_micro_usd'])).toBeWithin(95_000_000, 110_000_000)
})

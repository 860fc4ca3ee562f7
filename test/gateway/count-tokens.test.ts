import { describe, expect, test } from 'bun:test'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { sentText } from '../providers/conformance.ts'
import { textOf } from '../support/bytes.ts'
import { ask, Caller, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { chatRequest } from '../support/literal.ts'
import { RedisServer } from '../support/redis.ts'
import * as does from '../support/scenarios.ts'
import { lastingGateway, lastingUpstream } from '../support/served.ts'
import { Upstream } from '../support/upstream.ts'

const upstream = await lastingUpstream()
upstream.on('claude', does.json(200, '{"input_tokens":4711}'))
upstream.on('claude-odd', does.json(200, '{"input_tokens":"many"}'))
upstream.on('claude-absurd', does.json(200, '{"input_tokens":1e12}'))
upstream.on('claude-zero', does.json(200, '{"input_tokens":0}'))
upstream.on('claude-down', does.json(500, '{}'))
upstream.on('gpt', does.json(200, '{"input_tokens":1}'))
const base_url = upstream.url.replace(/\/v1$/, '')
const gateway = await lastingGateway({
  providers: {
    a: { dialect: 'anthropic', base_url, api_key: 'x' },
    o: { dialect: 'openai', base_url: upstream.url, api_key: 'x' },
  },
  models: {
    claude: ['a/claude'],
    odd: ['a/claude-odd'],
    absurd: ['a/claude-absurd'],
    zero: ['a/claude-zero'],
    down: ['a/claude-down'],
    gpt: ['o/gpt'],
  },
})

async function count(model: string, prefix = ''): Promise<unknown> {
  const body = JSON.stringify({ model, system: 'Be brief.', messages: [{ role: 'user', content: 'Hello!' }] })
  const answer = await ask(gateway.port, requestBytes(`${prefix}/v1/messages/count_tokens`, { key: KEY, body }))
  expect(answer.status).toBe(200)
  return JSON.parse(answer.text).input_tokens
}

test('the provider counts if it can, on both prefixes', async () => {
  expect([await count('claude'), await count('claude', '/anthropic')]).toEqual([4711, 4711])
  const [call] = upstream.calls
  expect(call?.head.line).toStartWith('POST /v1/messages/count_tokens ')
  const sent: unknown = JSON.parse(textOf(call?.body ?? new Uint8Array()))
  expect(isObject(sent) && Object.keys(sent)).toEqual(['model', 'system', 'messages'])
})

test.each(['odd', 'absurd', 'zero', 'down', 'gpt'])(
  'without a usable count of the provider (%s) ours is the answer',
  async (model) => {
    const tokens = await count(model)
    expect(tokens).toBeNumber()
    expect(tokens).toBeGreaterThan(4)
    expect(tokens).toBeLessThan(40)
  },
)

test('Gemini counts under a path of its own, and needs the model twice', () => {
  const [message] = [{ role: 'user', parts: [{ type: 'text', text: 'Hello!' }] }] as const
  const request = chatRequest({
    ...{ model: 'm', stream: false, messages: [message], tools: [], stop: [], sampling: {}, hints: {} },
    ...{ limitsOutput: true, cacheStrict: false },
  })
  const deadlines = { connectMs: 1, firstByteMs: { stream: 1, whole: 1 }, idleMs: 1, totalMs: 1 }
  const endpoint = { name: 'g', baseUrl: 'http://g', headers: {}, deadlines }
  const sent = gemini.counter?.request(request, { endpoint, model: 'gemini-3-pro' })
  expect(sent?.url).toBe('http://g/v1beta/models/gemini-3-pro:countTokens')
  expect(JSON.parse(sentText(sent?.body ?? ''))).toMatchObject({
    generateContentRequest: { model: 'models/gemini-3-pro', contents: [{ role: 'user', parts: [{ text: 'Hello!' }] }] },
  })
  expect(gemini.counter?.tokens({ totalTokens: 815 })).toBe(815)
  expect(gemini.counter?.tokens({ totalTokens: -1 })).toBeUndefined()
})

describe('limits', () => {
  const keyOf = (id: string) => `key-of-${id}-0123456789`
  const organization = (id: string, limits: JsonObject) => ({ id, limits, keys: [{ id, key: keyOf(id) }] })

  test.each(['embedded', 'redis'])(
    '%s: requests and concurrent requests apply, tokens and spend do not',
    async (kind) => {
      await using redis = await RedisServer.start()
      await using own = await Upstream.start({
        m: does.json(200, '{"input_tokens":4711}'),
        slow: does.silent(),
      })
      const model = (name: string) => ({
        targets: [{ provider: 'a', model: name }],
        price: { input: 1000, output: 1000 },
        max_output_tokens: 10,
      })
      await using limited = await Gateway.start({
        providers: { a: { dialect: 'anthropic', base_url: own.url.replace(/\/v1$/, ''), api_key: 'x' } },
        models: { m: model('m'), slow: model('slow') },
        config: {
          organizations: [
            organization('two', { requests_per_minute: 2 }),
            organization('one', { concurrent_requests: 1 }),
            organization('poor', { tokens_per_minute: 1, spend: { total: 0.000001 }, requests_per_minute: 100 }),
          ],
          ...(kind === 'redis' ? { ledger: { redis: redis.url } } : {}),
        },
      })
      const messages = [{ role: 'user', content: 'Hello!' }]
      const bytes = (id: string, name: string) =>
        requestBytes('/v1/messages/count_tokens', { key: keyOf(id), body: { model: name, messages } })
      const counted = async (id: string, name = 'm') => {
        const answer = await ask(limited.port, bytes(id, name))
        return { ...answer, body: JSON.parse(answer.text), left: answer.header('x-ratelimit-remaining-requests') }
      }

      const answers = [await counted('two'), await counted('two'), await counted('two')]
      expect(answers.map(({ status, left }) => [status, left])).toEqual([
        [200, '1'],
        [200, '0'],
        [429, '0'],
      ])
      expect(answers.map(({ body }) => body.input_tokens ?? body.error.type)).toEqual([4711, 4711, 'rate_limit_error'])
      expect(Number(answers[2]?.header('retry-after'))).toBeWithin(1, 61)
      // A request that a model error rejects does not count toward the minute, like any other request.
      expect((await counted('two', 'none')).status).toBe(404)

      await using slow = await Caller.connect(limited.port)
      slow.send(bytes('one', 'slow'))
      await own.call('slow', 0)
      expect((await counted('one')).status).toBe(429)
      slow.close()
      while ((await counted('one')).status === 429) await Bun.sleep(10)

      expect([(await counted('poor')).status, (await counted('poor')).status]).toEqual([200, 200])
      // It costs nothing and is no request for an answer: no usage is counted.
      const { stdout } = await limited.run('usage', '--json')
      expect(JSON.parse(stdout).total).toMatchObject({ requests: 0, input_tokens: 0, cost_micro_usd: 0 })
    },
  )
})

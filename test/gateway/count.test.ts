import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { isObject } from '../../src/core/json.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { textOf } from '../support/bytes.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { Upstream } from '../support/upstream.ts'

setDefaultTimeout(30_000)

let upstream: Upstream
let gateway: Gateway

beforeAll(async () => {
  upstream = await Upstream.start()
  upstream.on('claude', does.json(200, '{"input_tokens":4711}'))
  upstream.on('claude-odd', does.json(200, '{"input_tokens":"many"}'))
  upstream.on('claude-absurd', does.json(200, '{"input_tokens":1e12}'))
  upstream.on('claude-down', does.json(500, '{}'))
  upstream.on('gpt', does.json(200, '{"input_tokens":1}'))
  const base_url = upstream.url.replace(/\/v1$/, '')
  gateway = await Gateway.start({
    providers: {
      a: { dialect: 'anthropic', base_url, api_key: 'x' },
      o: { dialect: 'openai', base_url: upstream.url, api_key: 'x' },
    },
    models: {
      claude: ['a/claude'],
      odd: ['a/claude-odd'],
      absurd: ['a/claude-absurd'],
      down: ['a/claude-down'],
      gpt: ['o/gpt'],
    },
  })
})

afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await upstream[Symbol.asyncDispose]()
})

async function count(model: string, prefix = ''): Promise<unknown> {
  const body = JSON.stringify({ model, system: 'Be brief.', messages: [{ role: 'user', content: 'Hello!' }] })
  const answer = await ask(gateway.port, requestBytes(`${prefix}/v1/messages/count_tokens`, { key: KEY, body }))
  expect(answer.status).toBe(200)
  return JSON.parse(answer.text).input_tokens
}

test('the provider counts where it can, on both prefixes', async () => {
  expect([await count('claude'), await count('claude', '/anthropic')]).toEqual([4711, 4711])
  const [call] = upstream.calls
  expect(call?.head.line).toStartWith('POST /v1/messages/count_tokens ')
  const sent: unknown = JSON.parse(textOf(call?.body ?? new Uint8Array()))
  expect(isObject(sent) && Object.keys(sent)).toEqual(['model', 'system', 'messages'])
})

test.each(['odd', 'absurd', 'down', 'gpt'])('%s: our estimate', async (model) => {
  const tokens = await count(model)
  expect(tokens).toBeNumber()
  expect(tokens).toBeGreaterThan(4)
  expect(tokens).toBeLessThan(40)
})

test('Gemini counts under a path of its own, and wants to know the model twice', () => {
  const [message] = [{ role: 'user', parts: [{ type: 'text', text: 'Hello!' }] }] as const
  const request = {
    ...{ model: 'm', stream: false, messages: [message], tools: [], stop: [], sampling: {}, hints: {} },
    ...{ limitsOutput: true, cacheStrict: false },
  }
  const deadlines = { connectMs: 1, firstByteMs: { stream: 1, whole: 1 }, idleMs: 1, totalMs: 1 }
  const endpoint = { name: 'g', baseUrl: 'http://g', headers: {}, deadlines }
  const sent = gemini.counter?.request(request, { endpoint, model: 'gemini-3-pro' })
  expect(sent?.url).toBe('http://g/v1beta/models/gemini-3-pro:countTokens')
  expect(JSON.parse(sent?.body ?? '')).toMatchObject({
    generateContentRequest: { model: 'models/gemini-3-pro', contents: [{ role: 'user', parts: [{ text: 'Hello!' }] }] },
  })
  expect(gemini.counter?.tokens({ totalTokens: 815 })).toBe(815)
  expect(gemini.counter?.tokens({ totalTokens: -1 })).toBeUndefined()
})

/** `POST /v1/embeddings`: official SDKs and bare bytes on one side, a provider of bare TCP on the other. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import OpenAI from 'openai'
import OpenAI6 from 'openai-6'
import type { JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import * as does from '../support/scenarios.ts'
import { RecordingLedger, Serving } from '../support/serving.ts'
import { type Call, Upstream } from '../support/upstream.ts'

/** Numbers as a provider writes them, which a parser and a printer would not keep. */
const DATA = '[{"object":"embedding", "index":0,"embedding":[1.0e-5, -0.10, 12345678901234567890]}]'
const MADE = `{"object":"list",\n "data":${DATA}, "model":"embed-1","usage":{"prompt_tokens":8,"total_tokens":8}}`
const EXPECTED = `{"object":"list","data":${DATA},"model":"vectors","usage":{"prompt_tokens":8,"total_tokens":8}}`

const VECTOR = [0.5, -0.25, 3]
/** In the format that the request asks for. */
function makesVector(call: Call): Promise<void> {
  const isCoded = call.json['encoding_format'] === 'base64'
  const embedding = isCoded ? Buffer.from(new Float32Array(VECTOR).buffer).toString('base64') : VECTOR
  const usage = { prompt_tokens: 2, total_tokens: 2 }
  const data = [{ object: 'embedding', index: 0, embedding }]
  return call.answer(200, JSON.stringify({ object: 'list', data, model: call.model, usage }))
}

let up: Upstream
let mock: LLMock
let serving: Serving
let gateway: Gateway

beforeAll(async () => {
  up = await Upstream.start({
    'embed-1': does.json(200, MADE),
    silent: does.json(200, MADE.replace('"prompt_tokens":8,"total_tokens":8', '')),
    total: does.json(200, MADE.replace('"prompt_tokens":8,', '')),
    absurd: does.json(200, MADE.replace('"prompt_tokens":8', '"prompt_tokens":90000000')),
    zero: does.json(200, MADE.replaceAll(/tokens":8/g, 'tokens":0')),
    coded: makesVector,
    down: does.json(500, '{"error":{"message":"no"}}'),
    picky: does.json(400, '{"error":{"message":"Too long.","type":"invalid_request_error","code":"too_long"}}'),
    page: does.json(200, '<html></html>'),
    none: does.json(200, '{"object":"list"}'),
  })
  up.otherwise((call) => call.answer(200, MADE))
  mock = new LLMock({ host: '127.0.0.1', port: 0 })
  await mock.start()
  const azure = {
    dialect: 'azure',
    base_url: `http://127.0.0.1:${up.port}`,
    api_key: 'azure-key',
    api_version: '2025-04-01',
  }
  const embedding = (...targets: readonly string[]): JsonObject => ({
    targets: targets.map((model) => ({ provider: 'up', model })),
    price: { input: 0.02 },
    supports: ['embeddings'],
  })
  const setup = {
    providers: { up: up.url, azure, mock: `${mock.url}/v1` },
    models: {
      chatty: ['up/chatty'],
      vectors: embedding('embed-1'),
      falling: embedding('down', 'embed-1'),
      cloudy: { ...embedding(), targets: [{ provider: 'azure', model: 'my deployment' }] },
      simulated: { ...embedding(), targets: [{ provider: 'mock', model: 'text-embedding-3-small' }] },
      ...Object.fromEntries(
        ['silent', 'total', 'absurd', 'zero', 'picky', 'page', 'none', 'coded'].map((name) => [name, embedding(name)]),
      ),
    },
  }
  serving = new Serving(setup)
  gateway = await Gateway.start(setup)
})

afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await serving[Symbol.asyncDispose]()
  await mock.stop()
  await up[Symbol.asyncDispose]()
})

const post = (body: string | object, fields: Record<string, string | undefined> = {}) =>
  ask(serving.port, requestBytes('/v1/embeddings', { key: KEY, body, fields }))
const last = (): Call => {
  const call = up.calls.at(-1)
  if (call === undefined) throw new Error('the provider was not asked')
  return call
}
const lastCharge = () => [...serving.ledger.settled.values()].at(-1)?.[0]

describe('a request', () => {
  test("is passed on with the provider's model, and the answer with the public name and all its digits", async () => {
    const answer = await post('{"user":"u", "input": ["a weir", "fl\\u006fw"],"dimensions":3, "model":"vectors"}')
    expect([answer.status, answer.text]).toEqual([200, EXPECTED])
    expect(answer.header('x-gateway-served-model')).toBe('vectors')
    const call = last()
    expect([call.path, new TextDecoder().decode(call.body)]).toEqual([
      '/v1/embeddings',
      '{"model":"embed-1","user":"u","input": ["a weir", "fl\\u006fw"],"dimensions":3}',
    ])
    expect(serving.lines.at(-1)).toMatchObject({
      dialect: 'embeddings',
      requested_model: 'vectors',
      served_model: 'vectors',
      status: 200,
      input_tokens: 8,
      output_tokens: 0,
      usage: 'provider',
      outcome: 'completed',
    })
  })

  test('fields of compatible servers are sent on, except null, objects and lists', async () => {
    await post({
      model: 'vectors',
      input: 'x',
      input_type: 'query',
      dimensions: null,
      image: { url: 'http://10.0.0.1' },
    })
    expect(last().json).toEqual({ model: 'embed-1', input: 'x', input_type: 'query' })
  })

  test('reaches Azure by its deployment', async () => {
    expect((await post({ model: 'cloudy', input: 'x' })).status).toBe(200)
    expect([last().path, last().header('api-key')]).toEqual([
      '/openai/deployments/my%20deployment/embeddings?api-version=2025-04-01',
      'azure-key',
    ])
  })

  test('goes to the next target after a failure', async () => {
    const answer = await post({ model: 'falling', input: 'x' })
    expect([answer.status, answer.header('x-gateway-fallback-count')]).toEqual([200, '1'])
  })
})

describe('the charge', () => {
  test.each([
    ['vectors', 'what the provider counted', 8, false],
    ['total', 'its total, if that is all', 8, false],
    ['silent', 'our estimate, if it counted nothing', 5, true],
    ['absurd', 'our estimate, if its count cannot be', 5, true],
    ['zero', 'our estimate, if it counted 0', 5, true],
  ])('%s: %s', async (model, _, inputTokens, estimated) => {
    const answer = await post({
      model,
      input: [
        [1, 2, 3],
        [4, 5],
      ],
    })
    const { usage } = JSON.parse(answer.text)
    // The caller is shown what is charged.
    expect([answer.status, usage.total_tokens, usage.prompt_tokens ?? inputTokens]).toEqual([
      200,
      inputTokens,
      inputTokens,
    ])
    expect(lastCharge()).toMatchObject({ inputTokens, outputTokens: 0, estimated })
    // A charge is rounded up to whole micro-dollars: 0.02 a million tokens.
    expect(lastCharge()?.costMicroUsd).toBe(1)
    expect(serving.ledger.reserved.at(-1)?.estimate).toMatchObject({ inputTokens: 5, outputTokens: 0 })
  })

  test('of a failure is nothing', async () => {
    for (const model of ['picky', 'page', 'none']) {
      const answer = await post({ model, input: 'x' })
      expect([model, answer.status]).toEqual([model, model === 'picky' ? 400 : 502])
      expect(lastCharge()).toMatchObject({ costMicroUsd: 0 })
    }
    expect(serving.ledger.wrong).toEqual([])
  })
})

describe('errors', () => {
  test.each<[string, object, string, string | null]>([
    ['no input', { model: 'vectors' }, 'missing_required_parameter', 'input'],
    ['no model', { input: 'x' }, 'missing_required_parameter', 'model'],
    ['an object as input', { model: 'vectors', input: {} }, 'invalid_value', 'input'],
    ['an empty list', { model: 'vectors', input: [] }, 'invalid_value', 'input'],
    ['a list of both', { model: 'vectors', input: ['x', 1] }, 'invalid_value', 'input[1]'],
    ['half a token', { model: 'vectors', input: [1.5] }, 'invalid_value', 'input[0]'],
    ['2,049 inputs', { model: 'vectors', input: Array(2049).fill('x') }, 'invalid_value', 'input'],
    ['a forbidden field', { model: 'vectors', input: 'x', api_key: 'mine' }, 'forbidden_field', 'api_key'],
    ['a chat model', { model: 'chatty', input: 'x' }, 'model_not_supported', 'model'],
    ['an unknown model', { model: 'vector', input: 'x' }, 'model_not_found', 'model'],
  ])('%s', async (_, body, code, param) => {
    const answer = await post(body)
    expect(answer.json()).toMatchObject({ error: { code, param } })
    expect(answer.status).toBe(code === 'model_not_found' ? 404 : 400)
  })

  test('the forms of input are each named once', async () => {
    const answer = await post({ model: 'vectors', input: 5 })
    expect(answer.json()).toMatchObject({
      error: { message: "Invalid value for 'input': expected string or array." },
    })
  })

  test('an embedding model answers no chat', async () => {
    const body = { model: 'vectors', messages: [{ role: 'user', content: 'hi' }] }
    const answer = await ask(serving.port, requestBytes('/v1/chat/completions', { key: KEY, body }))
    expect(answer.json()).toMatchObject({ error: { message: expect.stringContaining('POST /v1/embeddings') } })
  })

  test('without a key, and as a form', async () => {
    const anonymous = await ask(
      serving.port,
      requestBytes('/v1/embeddings', { body: { model: 'vectors', input: 'x' } }),
    )
    expect(anonymous.status).toBe(401)
    const form = await post('', { 'content-type': 'multipart/form-data; boundary=x' })
    expect(form.json()).toMatchObject({ error: { code: 'unsupported_content_type' } })
  })
})

test('without a model that makes embeddings the path does not exist', async () => {
  await using plain = new Serving({ providers: { up: up.url }, models: { chatty: ['up/chatty'] } })
  for (const method of ['POST', 'GET']) {
    const bytes = requestBytes('/v1/embeddings', { method, key: KEY, body: { model: 'chatty', input: 'x' } })
    const answer = await ask(plain.port, bytes)
    const message = expect.stringContaining('has no model that makes embeddings')
    expect([answer.status, answer.json()]).toMatchObject([404, { error: { code: 'unknown_url', message } }])
  }
  expect(plain.ledger).toBeInstanceOf(RecordingLedger)
})

describe.each([
  ['openai 7', OpenAI],
  ['openai 6', OpenAI6],
])('%s', (_, Sdk) => {
  const client = () => new Sdk({ apiKey: KEY, baseURL: `${gateway.url}/v1`, maxRetries: 0 })

  test('decodes vectors in base64, which it asks for by itself, and as numbers', async () => {
    const coded = await client().embeddings.create({ model: 'coded', input: 'a weir' })
    expect([coded.model, coded.data[0]?.embedding, coded.usage.prompt_tokens]).toEqual(['coded', VECTOR, 2])
    const plain = await client().embeddings.create({ model: 'coded', input: ['a weir'], encoding_format: 'float' })
    expect(plain.data[0]?.embedding).toEqual(VECTOR)
  })

  test('takes what the simulator makes', async () => {
    const made = await client().embeddings.create({ model: 'simulated', input: 'a weir', encoding_format: 'float' })
    expect([made.model, made.data[0]?.embedding.length]).toEqual(['simulated', 1536])
  })
})

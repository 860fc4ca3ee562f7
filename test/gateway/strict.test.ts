/** What is reserved from the start: a slice by default, the worst case if a spend limit is strict. */

import { expect, test } from 'bun:test'
import type { JsonObject } from '../../src/core/json.ts'
import { ask, requestBytes } from '../support/caller.ts'
import { Serving } from '../support/serving.ts'
import { speaks, textAnswer as speech } from '../support/speech.ts'
import { Upstream } from '../support/upstream.ts'

const keyOf = (id: string) => `key-of-${id}-0123456789`
const organization = (id: string, spend: JsonObject) => ({
  ...{ id, limits: { spend: { total: 100, ...spend } } },
  keys: [{ id, key: keyOf(id) }],
})

const marked = (ttl?: string) => ({
  type: 'text',
  text: 'Hi',
  cache_control: { type: 'ephemeral', ...(ttl && { ttl }) },
})

/** Micro-dollars for these tokens of input and output at these prices a million. */
const price = { input: 3, cache_write: 4, cache_write_1h: 6, output: 15 }

test.each([
  ['default', 'loose', 'Hi', price.input, 4096],
  ['default, to be cached', 'loose', [marked('1h')], price.input, 4096],
  ['strict', 'strict', 'Hi', price.input, 8000],
  ['strict, to be cached', 'strict', [marked()], price.cache_write, 8000],
  ['strict, to be cached for an hour', 'strict', [marked('1h')], price.cache_write_1h, 8000],
])('%s', async (_, id, content, inputPrice, output) => {
  await using upstream = await Upstream.start({ m: speaks('anthropic', () => speech('Hello.')) })
  await using serving = new Serving({
    providers: { up: { dialect: 'anthropic', base_url: upstream.url, api_key: 'x' } },
    models: {
      m: {
        ...{ targets: [{ provider: 'up', model: 'm' }], price, max_output_tokens: 8000 },
        prompt_cache: { explicit: true, ttls: ['5m', '1h'] },
      },
    },
    config: { organizations: [organization('loose', {}), organization('strict', { strict: true })] },
  })
  const body = { model: 'm', max_tokens: 9000, messages: [{ role: 'user', content }] }
  expect((await ask(serving.port, requestBytes('/v1/messages', { key: keyOf(id), body }))).status).toBe(200)
  const amounts = serving.ledger.reserved[0]?.estimate
  expect(amounts?.inputTokens).toBeGreaterThan(0)
  expect(amounts).toEqual({
    inputTokens: amounts?.inputTokens ?? 0,
    outputTokens: output,
    costMicroUsd: (amounts?.inputTokens ?? 0) * inputPrice + output * price.output,
  })
})

const chatModel = (more: JsonObject) => ({
  ...{ targets: [{ provider: 'up', model: 'm' }], price, max_output_tokens: 8000 },
  ...more,
})

const byResponses = { targets: [{ provider: 'up', model: 'm', api: 'responses' }] }

test.each([
  ['default', 'loose', {}, {}, undefined, 4096],
  ['strict: the least of the Responses API', 'strict', byResponses, { max_tokens: 5 }, 16, 16],
  ['default: the caller’s limit', 'loose', byResponses, { max_tokens: 5 }, 16, 5],
  ['strict: the model’s limit', 'strict', {}, {}, 8000, 8000],
  ['strict: the caller’s limit', 'strict', {}, { max_tokens: 70 }, 70, 70],
  ['strict: no more than the context window has room for', 'strict', { context_window: 5000 }, {}, 4994, 4994],
])(
  'a caller that sets no limit, %s: the provider is sent the limit that is reserved',
  async (_, id, more, body, sent, held) => {
    await using upstream = await Upstream.start({ m: speaks('openai', () => speech('Hello.')) })
    await using serving = new Serving({
      providers: { up: { dialect: 'openai', base_url: upstream.url, api_key: 'x' } },
      models: { m: chatModel(more) },
      config: { organizations: [organization('loose', {}), organization('strict', { strict: true })] },
    })
    const request = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], ...body }
    const answer = await ask(serving.port, requestBytes('/v1/chat/completions', { key: keyOf(id), body: request }))
    expect(answer.status).toBe(200)
    const { max_tokens, max_completion_tokens, max_output_tokens } = upstream.calls[0]?.json ?? {}
    expect([
      max_completion_tokens ?? max_tokens ?? max_output_tokens,
      serving.ledger.reserved[0]?.estimate.outputTokens,
    ]).toEqual([sent, held])
  },
)

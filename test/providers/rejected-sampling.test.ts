/** Settings of sampling that a model rejects are left out and named, by its name or once it has rejected them. */

import { describe, expect, test } from 'bun:test'
import { ProviderError } from '../../src/core/provider-error.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import type { Literal } from '../support/literal.ts'
import { objectOf } from './conformance.ts'
import { endpoint, plainRequest } from './requests.ts'

const sampled = (sampling: Literal['sampling']) => plainRequest({ maxOutputTokens: 100, sampling })

/** What a provider is sent of the settings, and which of them are named as left out. */
function sent(provider: Provider, model: string, sampling: Literal['sampling'], at = endpoint()) {
  const { body, ignored } = provider.request(sampled(sampling), { endpoint: at, model })
  const written = objectOf(body)
  const {
    temperature,
    top_p,
    topP = top_p,
  } = { ...written, ...objectOf(JSON.stringify(written['inferenceConfig'] ?? {})) }
  return [temperature, topP, ignored]
}

const SETTINGS = { temperature: 0.5, topP: 0.5 }

describe.each([
  ['Anthropic', anthropic, ''],
  ['Vertex AI', vertexClaude, ''],
  ['Bedrock', bedrock, 'us.anthropic.'],
] as const)('%s', (_, provider, prefix) => {
  test.each(['claude-opus-4-7', 'claude-sonnet-5', 'claude-fable-5', 'claude-haiku-5-5'])('%s gets none', (model) => {
    expect(sent(provider, prefix + model, SETTINGS)).toEqual([undefined, undefined, ['temperature', 'top_p']])
    // These are accepted, and change nothing.
    expect(sent(provider, prefix + model, { temperature: 1 })).toEqual([1, undefined, undefined])
    expect(sent(provider, prefix + model, { topP: 0.99 })).toEqual([undefined, 0.99, undefined])
  })

  test.each(['claude-opus-4-6', 'claude-haiku-4-5', 'claude-3-5-haiku-20241022'])('%s gets one', (model) => {
    expect(sent(provider, prefix + model, SETTINGS)).toEqual([0.5, undefined, undefined])
  })
})

const rejection = (message: string) => new ProviderError('rejected', message, { status: 400 })
const learn = (provider: Provider, message: string, sampling: Literal['sampling'], at = endpoint()) =>
  provider.learn?.({
    ...{ error: rejection(message), target: { endpoint: at, model: 'm' }, request: sampled(sampling) },
    ...{ organization: 'acme', sentMs: performance.now() },
  })

test.each([
  [anthropic, '`temperature` is deprecated for this model.'],
  [bedrock, 'The model returned the following errors: `temperature` is deprecated for this model.'],
  [openai, "Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) is supported."],
  [openai, "Unsupported parameter: 'temperature' is not supported with this model."],
])('a model of another name teaches it: %#', (provider, message) => {
  const at = endpoint()
  expect(sent(provider, 'm', SETTINGS, at)[0]).toBe(0.5)
  const learned = learn(provider, message, SETTINGS, at)
  expect(learned?.field).toBe('temperature')
  learned?.keep()
  expect(sent(provider, 'm', { temperature: 0.5 }, at)).toEqual([undefined, undefined, ['temperature']])
})

test('one setting after the other', () => {
  const reject = (field: string) => rejection(`Unsupported parameter: '${field}' is not supported with this model.`)
  const sampling = { temperature: 0.5, presencePenalty: 1, logprobs: true, topLogprobs: 3 }
  const first = learn(openai, reject('temperature').message, sampling)
  const target = { endpoint: endpoint(), model: 'm' }
  const of = { target, request: sampled(sampling), organization: 'acme', sentMs: performance.now() }
  const second = first?.provider.learn?.({ ...of, error: reject('presence_penalty') })
  const third = second?.provider.learn?.({ ...of, error: reject('top_logprobs') })
  expect(objectOf(third?.provider.request(of.request, target).body ?? '{}')).toEqual({
    model: 'm',
    messages: [{ role: 'user', content: 'Hi' }],
    max_tokens: 100,
  })
})

test('a model that is to think not at all gets the settings that it rejects else', () => {
  const at = endpoint()
  learn(openai, "Unsupported parameter: 'temperature' is not supported with this model.", SETTINGS, at)?.keep()
  expect(sent(openai, 'm', { temperature: 0.5, reasoningEffort: 'none' }, at)[0]).toBe(0.5)
})

test.each([
  [anthropic, 'temperature: Input should be less than or equal to 1'],
  [anthropic, '`temperature` and `top_p` cannot both be specified for this model.'],
  [openai, "Invalid 'temperature': decimal above maximum value. Expected a value <= 2."],
  [openai, "The word 'temperature' is unsupported here."],
])("a caller's mistake teaches nothing: %#", (provider, message) => {
  expect(learn(provider, message, SETTINGS)).toBeUndefined()
})

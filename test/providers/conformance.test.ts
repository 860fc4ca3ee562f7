/** The suite of `conformance.ts`, run for every provider, and what every error answer of the fixtures means to whom it came from. */

import { describe, expect, test } from 'bun:test'
import { isObject, type JsonObject, numberOf } from '../../src/core/json.ts'
import type { ProviderErrorKind } from '../../src/core/provider-error.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { azure, openai } from '../../src/providers/openai/openai.ts'
import type { Provider } from '../../src/providers/provider.ts'
import { conforms, fixtureBytes, manifest } from './conformance.ts'
import { openaiRules } from './openai-rules.ts'
import { endpoint } from './requests.ts'
import { anthropicRules, bedrockRules, geminiRules } from './rules.ts'

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function count(counts: JsonObject, name: string): number | undefined {
  return numberOf(counts[name])
}

conforms({
  name: 'openai',
  provider: openai,
  takesNative: true,
  target: { endpoint: endpoint(), model: 'gpt-test' },
  reasons: { length: 'length', content_filter: 'content-filter' },
  usage: (counts) => {
    const details = isObject(counts['prompt_tokens_details']) ? counts['prompt_tokens_details'] : {}
    return {
      input: count(counts, 'prompt_tokens'),
      output: count(counts, 'completion_tokens'),
      cachedInput: count(details, 'cached_tokens'),
    }
  },
  skipped: { 'openai/html-200.html': 'the content type is refused before anything is decoded' },
  rules: openaiRules,
  turns: (body) => list(body['messages']),
})

conforms({
  name: 'anthropic',
  provider: anthropic,
  target: { endpoint: endpoint(), model: 'claude-sonnet-4-5' },
  reasons: { max_tokens: 'length', model_context_window_exceeded: 'length', refusal: 'content-filter' },
  usage: (counts) => ({
    input:
      Number(counts['input_tokens']) +
      (count(counts, 'cache_read_input_tokens') ?? 0) +
      (count(counts, 'cache_creation_input_tokens') ?? 0),
    cachedInput: count(counts, 'cache_read_input_tokens'),
    output: count(counts, 'output_tokens'),
  }),
  rules: anthropicRules,
  turns: (body) => list(body['messages']),
})

conforms({
  name: 'gemini',
  provider: gemini,
  target: { endpoint: endpoint(), model: 'gemini-3-pro' },
  reasons: { MAX_TOKENS: 'length', SAFETY: 'content-filter', content_filter: 'content-filter' },
  usage: (counts) => ({
    input: count(counts, 'prompt'),
    output: Number(counts['candidates']) + (count(counts, 'thoughts') ?? 0),
    reasoning: count(counts, 'thoughts'),
  }),
  rules: geminiRules,
  turns: (body) => list(body['contents']),
})

conforms({
  name: 'bedrock',
  provider: bedrock,
  target: { endpoint: endpoint(), model: 'eu.anthropic.claude-sonnet-4-5-20250929-v1:0' },
  reasons: {},
  usage: (counts) => ({ input: count(counts, 'inputTokens'), output: count(counts, 'outputTokens') }),
  rules: bedrockRules,
  turns: (body) => list(body['messages']),
})

type Row = readonly [
  file: string,
  provider: Provider,
  kind: ProviderErrorKind,
  more?: { code?: string; retryAfterMs?: number },
]

const FAULTS: readonly Row[] = [
  ['openai-401.json', openai, 'credential'],
  ['openai-404-model.json', openai, 'failed'],
  ['openai-400-context.json', openai, 'rejected', { code: 'context_length_exceeded' }],
  ['openai-429-rate.json', openai, 'rate_limited', { retryAfterMs: 1536 }],
  ['openai-429-quota.json', openai, 'rate_limited'],
  ['openai-503.json', openai, 'overloaded'],
  ['azure-400-content-filter.json', azure, 'rejected', { code: 'content_filter' }],
  ['azure-429.json', azure, 'rate_limited', { retryAfterMs: 6000 }],
  ['anthropic-529.json', anthropic, 'overloaded'],
  ['anthropic-429.json', anthropic, 'rate_limited', { retryAfterMs: 12_000 }],
  ['anthropic-400.json', anthropic, 'rejected'],
  ['anthropic-400-temperature.json', anthropic, 'rejected'],
  ['anthropic-413.json', anthropic, 'too_large'],
  ['gemini-429.json', gemini, 'rate_limited', { retryAfterMs: 31_000 }],
  ['gemini-400.json', gemini, 'credential'],
  ['gemini-503-array.json', gemini, 'overloaded'],
  ['bedrock-429.json', bedrock, 'rate_limited'],
  ['openrouter-502.json', openai, 'failed'],
  ['vllm-400.json', openai, 'rejected'],
  ['cloudflare-524.html', openai, 'timeout'],
]

describe('error answers', () => {
  test('are all in the table', () => {
    const files = manifest.flatMap(({ file }) => (file.startsWith('errors/') ? [file.slice('errors/'.length)] : []))
    expect(FAULTS.map(([file]) => file).sort()).toEqual(files.sort())
  })

  test.each([...FAULTS])('%s', (file, provider, kind, more = {}) => {
    const fixture = manifest.find((each) => each.file === `errors/${file}`)
    const body = Buffer.from(fixtureBytes(`errors/${file}`)).toString()
    const error = provider.responseError(fixture?.status ?? 0, new Headers(fixture?.headers), body)
    expect(error.kind).toBe(kind)
    expect(error.detail.status).toBe(fixture?.status)
    expect(error.detail.code).toBe(more.code)
    expect(error.detail.retryAfterMs).toBe(more.retryAfterMs)
    expect(error.message).not.toBe('')
  })
})

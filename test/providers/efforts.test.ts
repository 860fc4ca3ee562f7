/** How much a model is to think, in the words of every provider's API and of each family of models. */

import { describe, expect, test } from 'bun:test'
import { isObject, type JsonObject } from '../../src/core/json.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { EFFORTS, type EffortWord, lowered, type Reasoning, wordOf } from '../../src/core/reasoning.ts'
import { messagesReasoning } from '../../src/dialects/read-reasoning.ts'
import { anthropic } from '../../src/providers/anthropic/anthropic.ts'
import { vertexClaude } from '../../src/providers/anthropic/vertex-claude.ts'
import { bedrock } from '../../src/providers/bedrock/bedrock.ts'
import { gemini } from '../../src/providers/gemini/gemini.ts'
import { openai } from '../../src/providers/openai/openai.ts'
import type { Learned, Provider } from '../../src/providers/provider.ts'
import type { Literal } from '../support/literal.ts'
import { sentText } from './conformance.ts'
import { endpoint, plainRequest } from './requests.ts'

const OPENAI = 'https://api.openai.com/v1'
const shown = { texts: true, seals: false }
const chat = (effort?: EffortWord): Reasoning => ({ effort, shows: shown, field: 'reasoning_effort' })
const thinking = (field: JsonObject, more: JsonObject = {}) => messagesReasoning({ thinking: field, ...more }, false)

interface Asked {
  readonly model: string
  readonly reasoning: Reasoning
  readonly baseUrl?: string
  readonly api?: 'chat' | 'responses'
  readonly more?: Partial<Literal>
}

function sent(provider: Provider, { model, reasoning, baseUrl, api, more }: Asked) {
  const at = endpoint(baseUrl === undefined ? {} : { baseUrl })
  const request = { ...plainRequest(more), reasoning }
  const { body, ignored } = provider.request(
    request,
    api === undefined ? { endpoint: at, model } : { endpoint: at, model, api },
  )
  const json: unknown = JSON.parse(sentText(body))
  if (!isObject(json)) throw new Error('the body is no object')
  return { json, ignored }
}

describe('OpenAI', () => {
  test.each([
    ['o3', 'minimal low low medium high high high'],
    ['gpt-5', 'minimal minimal low medium high high high'],
    ['gpt-5-codex', 'low low low medium high high high'],
    ['gpt-5-pro', 'high high high high high high high'],
    ['gpt-5.1', 'none none low medium high high high'],
    ['gpt-5.2', 'none none low medium high xhigh xhigh'],
    ['gpt-5.6-terra', 'none none low medium high xhigh max'],
    ['gpt-6.1-sol', 'low low low medium high xhigh max'],
    ['ft:gpt-5.1:acme::x', 'none none low medium high high high'],
    ['another', EFFORTS.join(' ')],
  ])('%s takes the nearest words', (model, expected) => {
    const wanted = model === 'o3' ? expected.replace('minimal', 'low') : expected
    for (const api of ['chat', 'responses'] as const) {
      const words = EFFORTS.map((effort) => {
        const { json } = sent(openai, { model, reasoning: chat(effort), baseUrl: OPENAI, api })
        return api === 'chat'
          ? json['reasoning_effort']
          : isObject(json['reasoning'])
            ? json['reasoning']['effort']
            : ''
      })
      expect(words.join(' ')).toBe(wanted)
    }
  })

  test('a model that does not think gets no effort, and the log line names it', () => {
    const { json, ignored } = sent(openai, { model: 'gpt-4.1', reasoning: chat('high'), baseUrl: OPENAI })
    expect([json['reasoning_effort'], ignored]).toEqual([undefined, ['reasoning_effort']])
  })

  test('a number of tokens becomes a word, and a summary is asked for', () => {
    const reasoning = thinking({ type: 'enabled', budget_tokens: 9000 })
    const { json } = sent(openai, { model: 'gpt-5.1', reasoning, baseUrl: OPENAI, api: 'responses' })
    expect(json['reasoning']).toEqual({ effort: 'medium', summary: 'auto' })
    const omitted = thinking({ type: 'enabled', budget_tokens: 9000, display: 'omitted' })
    const hidden = sent(openai, { model: 'gpt-5.1', reasoning: omitted, baseUrl: OPENAI, api: 'responses' })
    expect(hidden.json['reasoning']).toEqual({ effort: 'medium' })
  })

  test.each([
    ['https://openrouter.ai/api/v1', { reasoning: { effort: 'high' } }, { reasoning: { max_tokens: 5000 } }],
    [
      'https://api.deepseek.com',
      { thinking: { type: 'enabled' }, reasoning_effort: 'high' },
      { thinking: { type: 'enabled' }, reasoning_effort: 'high' },
    ],
    ['https://api.z.ai/v4', { thinking: { type: 'enabled' } }, { thinking: { type: 'enabled' } }],
    ['http://127.0.0.1:8000/v1', { reasoning_effort: 'high' }, { reasoning_effort: 'low' }],
  ])('%s has its own fields', (baseUrl, word, tokens) => {
    const fields = (reasoning: Reasoning) => {
      const { reasoning: own, reasoning_effort, thinking } = sent(openai, { model: 'm', reasoning, baseUrl }).json
      return JSON.parse(JSON.stringify({ reasoning: own, thinking, reasoning_effort }))
    }
    expect(fields(chat('high'))).toEqual(word)
    expect(fields(thinking({ type: 'enabled', budget_tokens: 5000 }))).toEqual(tokens)
    expect(fields(chat())).toEqual({})
  })
})

describe('Claude', () => {
  const adaptive = { type: 'adaptive', display: 'summarized' }
  test.each([
    ['claude-3-haiku', undefined, undefined],
    ['claude-3-7-sonnet-20250219', { type: 'enabled', budget_tokens: 16384 }, undefined],
    ['claude-opus-4-20250514', { type: 'enabled', budget_tokens: 16384 }, undefined],
    ['claude-sonnet-4-5', { type: 'enabled', budget_tokens: 16384 }, undefined],
    ['claude-sonnet-4-6', { type: 'adaptive' }, 'high'],
    ['claude-opus-4-7', adaptive, 'high'],
    ['claude-fable-5', adaptive, 'high'],
    ['claude-mythos-preview', adaptive, 'high'],
  ])('%s thinks in its way', (model, expected, effort) => {
    for (const provider of [anthropic, vertexClaude]) {
      const at = provider === vertexClaude ? { project: 'p', location: 'global' } : {}
      const request = { ...plainRequest({ maxOutputTokens: 32_000 }), reasoning: chat('high') }
      const { body } = provider.request(request, { endpoint: endpoint(at), model })
      const { thinking, output_config } = JSON.parse(sentText(body))
      expect(thinking).toEqual(expected)
      expect(output_config).toEqual(effort && { effort })
    }
    const { json } = sent(bedrock, {
      model: `us.anthropic.${model}-v1:0`,
      reasoning: chat('high'),
      more: { maxOutputTokens: 32_000 },
    })
    const fields = expected && { thinking: expected, ...(effort && { output_config: { effort } }) }
    expect(json['additionalModelRequestFields']).toEqual(fields)
  })

  test.each([
    ['claude-sonnet-4-5', { type: 'enabled', budget_tokens: 5000 }, { type: 'enabled', budget_tokens: 5000 }],
    ['claude-sonnet-4-5', { type: 'adaptive' }, { type: 'enabled', budget_tokens: 8192 }],
    ['claude-sonnet-4-5', { type: 'disabled' }, { type: 'disabled' }],
    ['claude-opus-4-7', { type: 'enabled', budget_tokens: 5000 }, { type: 'adaptive' }],
    ['claude-opus-4-7', { type: 'adaptive', display: 'omitted' }, { type: 'adaptive', display: 'omitted' }],
    ['another', { type: 'adaptive' }, { type: 'adaptive' }],
    ['another', { type: 'enabled', budget_tokens: 1024 }, { type: 'enabled', budget_tokens: 1024 }],
  ])('%s gets what a caller of Messages asks for: %j', (model, asked, expected) => {
    const { json } = sent(anthropic, { model, reasoning: thinking(asked), more: { maxOutputTokens: 32_000 } })
    expect(json['thinking']).toEqual(expected)
  })

  test('the budget leaves room for an answer, or there is none', () => {
    const budget = (limit: number | undefined, reasoning: Reasoning) => {
      const more = { maxOutputTokens: limit }
      const { json, ignored } = sent(anthropic, { model: 'claude-sonnet-4-5', reasoning, more })
      return [isObject(json['thinking']) && json['thinking']['budget_tokens'], json['max_tokens'], ignored]
    }
    expect(budget(undefined, chat('high'))).toEqual([16_384, 4096 + 16_384, undefined])
    expect(budget(4096, chat('high'))).toEqual([3072, 4096, undefined])
    expect(budget(1500, chat('high'))).toEqual([undefined, 1500, ['reasoning_effort']])
    expect(budget(5001, thinking({ type: 'enabled', budget_tokens: 5000 }))).toEqual([5000, 5001, undefined])
  })

  test('settings that a model rejects while it thinks are left out', () => {
    const more: Partial<Literal> = { maxOutputTokens: 9000, sampling: { temperature: 0.3, topP: 0.5 } }
    const asked = { model: 'claude-sonnet-4-5', reasoning: chat('low'), more }
    const { json, ignored } = sent(anthropic, asked)
    expect([json['temperature'], json['top_p'], ignored]).toEqual([undefined, undefined, ['temperature', 'top_p']])
    const off = sent(anthropic, { ...asked, reasoning: chat('none') })
    expect([off.json['temperature'], off.json['thinking']]).toEqual([0.3, { type: 'disabled' }])
  })

  const tools = [{ name: 'f', parameters: { type: 'object' } }]
  test.each([
    ['a call is forced', { tools, toolChoice: { mode: 'required' } }],
    [
      'a text is begun',
      {
        messages: [
          { role: 'user', parts: [{ type: 'text', text: 'a' }] },
          { role: 'assistant', parts: [{ type: 'text', text: 'b' }], toolCalls: [] },
        ],
      },
    ],
    [
      'the thoughts before results are missing',
      {
        tools,
        messages: [
          { role: 'user', parts: [{ type: 'text', text: 'a' }] },
          { role: 'assistant', parts: [], toolCalls: [{ callId: 'c', name: 'f', json: '{}' }] },
          { role: 'tool', callId: 'c', parts: [{ type: 'text', text: 'd' }] },
        ],
      },
    ],
  ] as [string, Partial<Literal>][])('thinking is off if %s', (_, more) => {
    const asked = { model: 'claude-sonnet-4-5', reasoning: chat('low'), more: { ...more, maxOutputTokens: 9000 } }
    const { json, ignored } = sent(anthropic, asked)
    expect([json['thinking'], ignored]).toEqual([{ type: 'disabled' }, ['reasoning_effort']])
  })

  test('an effort alone turns no thinking on', () => {
    const reasoning = messagesReasoning({ output_config: { effort: 'xhigh' } }, false)
    const { json } = sent(anthropic, { model: 'claude-opus-4-6', reasoning })
    expect([json['thinking'], json['output_config']]).toEqual([undefined, { effort: 'high' }])
  })
})

describe('Gemini', () => {
  test.each([
    ['gemini-2.0-flash', undefined, undefined],
    ['gemini-2.5-flash', { thinkingBudget: 16_384, includeThoughts: true }, { thinkingBudget: 0 }],
    ['gemini-2.5-pro', { thinkingBudget: 16_384, includeThoughts: true }, { thinkingBudget: 128 }],
    ['gemini-3-pro-preview', { thinkingLevel: 'high', includeThoughts: true }, { thinkingLevel: 'low' }],
    ['gemini-3-flash', { thinkingLevel: 'high', includeThoughts: true }, { thinkingLevel: 'minimal' }],
  ])('%s thinks in its way', (model, expected, none) => {
    const config = (effort: EffortWord) => {
      const { json } = sent(gemini, { model, reasoning: chat(effort), more: { maxOutputTokens: 32_000 } })
      return isObject(json['generationConfig']) ? json['generationConfig']['thinkingConfig'] : undefined
    }
    expect(config('high')).toEqual(expected)
    expect(config('none')).toEqual(none)
  })

  test.each([
    ['gemini-2.5-flash', 4096, { thinkingBudget: 3072, includeThoughts: true }, []],
    ['gemini-2.5-flash', 1024, { thinkingBudget: 0 }, ['reasoning_effort']],
    ['gemini-2.5-pro', 100, { thinkingBudget: 128, includeThoughts: true }, []],
    ['gemini-2.5-pro', undefined, { thinkingBudget: 16_384, includeThoughts: true }, []],
  ])('%s with a limit of %p leaves room for the answer', (model, maxOutputTokens, thinkingConfig, fields) => {
    const { json, ignored } = sent(gemini, { model, reasoning: chat('high'), more: { maxOutputTokens } })
    expect([json['generationConfig'], ignored ?? []]).toEqual([expect.objectContaining({ thinkingConfig }), fields])
  })
})

test('other models of Bedrock take the effort by their own fields', () => {
  const fields = (model: string) => {
    const { json, ignored } = sent(bedrock, { model, reasoning: chat('xhigh') })
    return json['additionalModelRequestFields'] ?? ignored
  }
  expect(fields('us.amazon.nova-2-lite-v1:0')).toEqual({
    reasoningConfig: { type: 'enabled', maxReasoningEffort: 'high' },
  })
  expect(fields('openai.gpt-oss-120b-1:0')).toEqual({ reasoning_effort: 'high' })
  expect(fields('meta.llama4-v1:0')).toEqual(['reasoning_effort'])
})

describe('a target that rejects what was sent', () => {
  const error = (message: string, param?: string, providerCode?: string) =>
    new ProviderError('rejected', message, { status: 400, param, providerCode })
  const value = (word: string) =>
    error(`Unsupported value: '${word}' is not supported with the 'm' model.`, 'reasoning_effort', 'unsupported_value')

  test.each([
    [openai, 'm', chat('minimal'), value('minimal'), 'effort minimal', '"reasoning_effort":"none"'],
    [openai, 'm', chat('max'), value('max'), 'effort max', '"reasoning_effort":"xhigh"'],
    [
      openai,
      'm',
      chat('low'),
      error("Unsupported parameter: 'reasoning_effort'", 'reasoning_effort', 'unsupported_parameter'),
      'reasoning_effort',
      '',
    ],
    [
      anthropic,
      'claude-sonnet-4-5',
      thinking({ type: 'enabled', budget_tokens: 5000 }),
      error('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive".'),
      'thinking.enabled',
      '"thinking":{"type":"adaptive"}',
    ],
    [
      anthropic,
      'claude-opus-4-7',
      chat('high'),
      error('adaptive thinking is not supported on this model'),
      'thinking.adaptive',
      '"thinking":{"type":"enabled","budget_tokens":16384}',
    ],
    [
      anthropic,
      'claude-opus-4-7',
      chat('high'),
      error('This model does not support the effort parameter.'),
      'output_config.effort',
      '"thinking":{"type":"adaptive","display":"summarized"},"stream"',
    ],
    [
      anthropic,
      'claude-opus-4-7',
      chat('max'),
      error("output_config.effort: Input should be 'low', 'medium' or 'high'"),
      'effort max',
      '"output_config":{"effort":"xhigh"}',
    ],
    [
      gemini,
      'gemini-3-pro',
      chat('high'),
      error('Thinking level is not supported for this model.'),
      'thinkingLevel',
      '"thinkingBudget":16384',
    ],
    [
      gemini,
      'gemini-2.5-flash',
      chat('max'),
      error('The thinking budget 24576 is invalid. Please choose a value between 256 and 8192.'),
      'thinkingBudget 256-8192 or 0',
      '"thinkingBudget":8192',
    ],
    [
      gemini,
      'gemini-2.5-flash-lite',
      chat('none'),
      error('Thinking budget 0 is invalid: it must be in [128, 4096].'),
      'thinkingBudget 128-4096',
      '"thinkingBudget":128',
    ],
    [
      gemini,
      'gemini-2.5-flash',
      chat('high'),
      error('Thinking budget is not supported for this model.'),
      'thinkingBudget',
      '"contents":',
    ],
  ] as const)('%# gets the nearest', (provider, model, reasoning, rejection, field, expected) => {
    const at = endpoint()
    const target = { endpoint: at, model }
    const request = { ...plainRequest({ stream: true, maxOutputTokens: 32_000 }), reasoning }
    const rejected = { error: rejection, target, request, organization: 'acme', sentMs: performance.now() }
    const found: Learned | undefined = provider.learn?.(rejected)
    expect(found?.field).toBe(field)
    expect(sentText(found?.provider.request(request, target).body ?? '')).toContain(expected)
    found?.keep()
    expect(sentText(provider.request(request, target).body)).toContain(expected)
    // A caller whose thoughts do not pass teaches nothing.
    const plain = { ...rejected, request: plainRequest({ stream: true }), target: { ...target, model: `${model}-x` } }
    expect(provider.learn?.(plain)).toBeUndefined()
  })
})

test('words and numbers of tokens', () => {
  expect([0, 1023, 1024, 5000, 9000, 200_000].map(wordOf)).toEqual(['none', 'none', 'minimal', 'low', 'medium', 'max'])
  expect(lowered('max', ['low', 'high'])).toBe('high')
  expect(lowered('none', ['low', 'high'])).toBe('low')
  expect(lowered('none', [])).toBeUndefined()
})
